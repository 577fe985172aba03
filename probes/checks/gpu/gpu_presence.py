"""Check that the driver reports all installed GPUs, and that every GPU answers.

A CUDA program fails at its start if a GPU on the PCI bus has no driver or if the driver does not answer. A
GPU that is on the bus but not in the driver's list has failed to start; the job then runs with fewer ranks
than planned, or not at all. Accelerators of other vendors are recognised but not read, so they are UNKNOWN:
rigtune neither calls such a machine "fit to train" nor treats it as a machine without accelerators. A board
with SXM modules has 1, 2, 4, 8 or 16 of them. A GPU that has fallen off the bus keeps its name and its place
in lists, but its readings are errors. If only some queries fail, the driver is at fault, and the GPU need
not be replaced. Source: NVIDIA driver documentation; exit codes and outputs of nvidia-smi (`GPU is lost`,
`Unknown Error`); NVIDIA Xid catalogue, Xid 79; awsome-distributed-training and Primus node checks.
"""

from collections.abc import Iterator

from probes.base.grouping import first_names, grouped
from probes.base.record import NOT_RECORDED, Reason, Unknown, items_of, known
from probes.base.units import plural
from probes.facts import Accelerator, Gpu, MachineFacts
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy, Status
from probes.judging.reporting import (
    HOST,
    NO_GPU,
    Judged,
    each_gpu,
    has_no_gpu,
    judge_each,
    listed_gpus_of,
    on_gpus,
    responsive_of,
    smi_name,
    unknown_among,
)

DRIVER = Judge(
    check_id="gpu-driver", why="Without a driver that answers, no CUDA program starts on these GPUs."
)

_BROKEN = (Reason.ERROR, Reason.TIMEOUT)
"""Reasons that mean that the driver was queried without success."""

_SMI = "nvidia-smi: "
"""Prefix of messages by nvidia-smi itself; a machine with such a message has a driver."""

_INSTALL = Remedy(
    text="Install the NVIDIA driver of this distribution, or load it if it is installed.",
    command="modprobe nvidia && nvidia-smi",
    needs_root=True,
)
_LIBRARY = Remedy(
    text="Install the driver's tools and libraries (nvidia-smi, libnvidia-ml), or start the container with "
    "the NVIDIA runtime.",
    command="rigtune advise install",
)
_REBOOT = Remedy(
    text="Look for Xid lines in the kernel log, then restart the machine.",
    command="dmesg | grep -i xid",
    needs_root=True,
)
_PERSIST = Remedy(
    text="Without persistence mode, the driver initialises every GPU again for each program: start the "
    "persistence daemon. If this changes nothing, look for Xid lines in the kernel log.",
    command="systemctl enable --now nvidia-persistenced || nvidia-smi -pm 1",
    needs_root=True,
)
COUNT = Judge(
    check_id="gpu-count",
    why="If a GPU is missing, a job planned for all GPUs does not start or runs with fewer ranks.",
)
LOST = Judge(check_id="gpu-lost", why="A job that gets a lost GPU ends at start, or hangs all its ranks.")

ACCELERATORS = Judge(
    check_id="accelerators", why="If nobody checks a device, only the training job detects its fault."
)

_SHOWN = 6
_JUDGED_ELSEWHERE = ("fan", "fan_speed", "fan.speed")
_LOST_WORDS = ("lost", "requires reset", "unable to determine")

_RESTART = Remedy(
    text="Restart the machine; if the GPU is lost again, look for Xid 79 and have the card, its power and "
    "its slot checked.",
    command="dmesg | grep -i xid",
    needs_root=True,
)


def gpu_driver(evidence: Evidence) -> Findings:
    facts = evidence.facts
    gpus, on_bus, driver = facts.gpus, facts.pci_gpus, facts.software.driver_version
    if isinstance(gpus, Unknown):
        return _none_listed(facts) or _no_answer(facts, gpus)
    if not gpus and known(on_bus) and on_bus:
        return DRIVER.failed(
            HOST,
            "the PCI bus lists GPUs, but the driver lists none",
            expected=plural(len(on_bus), "GPU"),
            observed="no driver" if driver is None else "0 GPUs",
            remedy=_INSTALL if driver is None else _REBOOT,
        )
    if not gpus:
        return _none_listed(facts) or DRIVER.skipped(HOST, NO_GPU)
    if silent := _all_silent(gpus):
        return DRIVER.failed(
            HOST, "no GPU answers the driver", expected="an answer", observed=silent.words, remedy=_REBOOT
        )
    if isinstance(driver, Unknown) and all(isinstance(gpu.driver_version, Unknown) for gpu in gpus):
        return DRIVER.undetermined(HOST, driver, what="the driver version")

    return (*_slow(evidence, gpus), *_versions(gpus, driver))


def _slow(evidence: Evidence, gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
    """Yield a warning if the driver took long to answer although no GPU hangs."""
    answer_s = evidence.facts.driver_answer_s
    limit_s = evidence.thresholds.driver_answer_s_of_gpu.value * len(gpus)
    if known(answer_s) and answer_s > limit_s and responsive_of(gpus) == gpus:
        yield DRIVER.warned(
            HOST,
            "the driver answers slowly",
            expected=f"its first answers for {plural(len(gpus), 'GPU')} within {limit_s:g} s",
            observed=f"{answer_s:.1f} s",
            remedy=_PERSIST,
        )


def _versions(gpus: tuple[Gpu, ...], driver: str | Unknown | None) -> Iterator[Finding]:
    def judge(gpu: Gpu) -> Judged:
        """Judge one GPU. `gpu-lost` reports lost GPUs, and `driver-library` reports versions that differ."""
        version = driver if isinstance(driver, str) else gpu.driver_version
        return version if isinstance(version, Unknown) else f"driver {version}"

    return judge_each(
        DRIVER, responsive_of(gpus), judge, what="the GPU", good="the driver answers for every GPU"
    )


def _all_silent(gpus: tuple[Gpu, ...]) -> Unknown | None:
    """Return the first GPU's error if errors hide the name and the memory size of every GPU."""
    words = [value for gpu in gpus for value in (gpu.name, gpu.memory_bytes) if isinstance(value, Unknown)]
    is_silent = len(words) == 2 * len(gpus) and all(value.reason in _BROKEN for value in words)
    return words[0] if is_silent else None


def _none_listed(facts: MachineFacts) -> Finding | None:
    """Return the finding if a loaded driver counts no GPU.

    Either all GPUs of the node have left the bus, or a container or job does not see them.
    """
    if facts.attached_gpus != 0:
        return None
    return DRIVER.problem(
        HOST,
        "the driver is loaded, but there is no GPU",
        fails=not _may_hide_gpus(facts),
        expected="at least one GPU",
        observed="the driver counts 0 GPUs",
        remedy=_REBOOT,
    )


def _may_hide_gpus(facts: MachineFacts) -> bool:
    """Return whether this is a container or job that may see only some GPUs.

    A listing of the PCI bus would show the others.
    """
    return _is_a_part(facts) and isinstance(facts.pci_gpus, Unknown)


def _is_a_part(facts: MachineFacts) -> bool:
    """Return whether this is a container or a job."""
    return isinstance(facts.container.runtime, str) or isinstance(facts.scheduler.kind, str)


def _no_answer(facts: MachineFacts, unknown: Unknown) -> Finding:
    on_bus, driver = facts.pci_gpus, facts.software.driver_version
    if driver is None and known(on_bus) and on_bus:
        return DRIVER.failed(
            HOST,
            "GPUs without a driver",
            expected="a driver",
            observed=f"{plural(len(on_bus), 'GPU')} on the PCI bus",
            remedy=_INSTALL,
        )
    if has_no_gpu(facts):
        return DRIVER.skipped(HOST, NO_GPU)
    # The collector's time limit ended: the driver was still answering, or still initialising its GPUs.
    if isinstance(facts.driver_answer_s, Unknown) and facts.driver_answer_s.reason is Reason.TIMEOUT:
        return DRIVER.warned(
            HOST,
            "the driver answers too slowly to judge the GPUs",
            expected="an answer",
            observed=unknown.words,
            remedy=_PERSIST,
        )
    if unknown.reason in _BROKEN and (isinstance(driver, str) or unknown.detail.startswith(_SMI)):
        return DRIVER.failed(
            HOST,
            "the driver is loaded but does not answer",
            expected="an answer",
            observed=unknown.words,
            remedy=_REBOOT,
        )
    return DRIVER.undetermined(
        HOST, unknown, what="the GPUs", remedy=_LIBRARY if known(driver) and driver is not None else None
    )


@on_gpus(COUNT, listed_gpus_of)
def gpu_count(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    counted = _counted(gpus, evidence)
    return (_not_a_board(gpus, evidence) or counted) if counted.status is Status.PASS else counted


def _not_a_board(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding | None:
    """Return a FAIL if the driver's full list has a number of SXM modules that no board has."""
    facts, sizes = evidence.facts, evidence.thresholds.sxm_board_gpus
    rows = [evidence.catalogue.checked_gpu(gpu.name) for gpu in gpus if isinstance(gpu.name, str)]
    modules = [row for row in rows if row is not None and row.form.startswith("sxm")]
    is_complete = facts.attached_gpus == len(gpus) and not _may_hide_gpus(facts)
    if not modules or len(modules) < len(rows) or not is_complete or evidence.policy.gpu.count == len(gpus):
        return None
    wanted = (*sizes.value, *(str(count) for count in modules[0].board_gpus))
    if str(len(gpus)) in wanted:
        return None
    return COUNT.failed(
        HOST,
        "no SXM board has this number of GPUs",
        expected=f"{', '.join(wanted)} GPUs",
        observed=plural(len(gpus), "GPU"),
        remedy=Remedy(
            text="Look for Xid 79 in the kernel log and power the node off and on; if a GPU is still "
            "missing, have the board checked.",
            command="dmesg | grep -i xid",
            needs_root=True,
        ),
        evidence=(sizes.ref,),
    )


def _counted(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    """Compare the list of GPUs with the driver's own count and with the PCI bus."""
    on_bus, attached = evidence.facts.pci_gpus, evidence.facts.attached_gpus
    available = plural(len(gpus), "GPU")
    if isinstance(attached, int) and attached > len(gpus):
        return COUNT.warned(
            HOST,
            "the driver counts more GPUs than it describes",
            expected=plural(attached, "GPU"),
            observed=available,
            remedy=Remedy(
                text="The output may be truncated: capture it again. If the numbers still differ, a GPU is "
                "lost.",
                command="nvidia-smi -L",
            ),
        )
    if isinstance(on_bus, Unknown):
        if isinstance(attached, int):
            return COUNT.passed(HOST, "every GPU that the driver counts is available", observed=available)
        return COUNT.undetermined(HOST, on_bus, what="the GPUs on the PCI bus")
    if len(on_bus) <= len(gpus):
        return COUNT.passed(HOST, "every GPU on the PCI bus is available", observed=available)
    listed = {gpu.pci_bus_id for gpu in gpus}
    missing = [bus_id for bus_id in on_bus if bus_id not in listed]
    if _is_a_part(evidence.facts):
        return COUNT.warned(
            HOST,
            "this container or job sees fewer GPUs than the machine has",
            expected=plural(len(on_bus), "GPU"),
            observed=available,
            remedy=Remedy(
                text="If training should use all GPUs, start the container or the job with all of them."
            ),
        )
    return COUNT.failed(
        HOST,
        "the driver lists fewer GPUs than the PCI bus",
        expected=plural(len(on_bus), "GPU"),
        observed=f"{available}; not listed: {', '.join(missing) or 'unknown'}",
        remedy=Remedy(
            text="Look for Xid 79 in the kernel log and restart the machine; if the GPU is still missing, "
            "its card or slot is faulty.",
            command="dmesg | grep -i xid",
            needs_root=True,
        ),
    )


def gpu_lost(evidence: Evidence) -> Iterator[Finding]:
    gpus = items_of(evidence.facts.gpus)
    for gpu in gpus:
        if gpu.hung_call is not None:
            yield LOST.failed(
                f"GPU{gpu.index}",
                "the GPU does not answer",
                expected="an answer",
                observed=gpu.hung_call,
                remedy=_RESTART,
                evidence=gpu.evidence,
            )
    if not gpus or responsive_of(gpus):
        yield from _lost(evidence)


@each_gpu(LOST, what="the readings of the GPU", good="every GPU answers all queries")
def _lost(gpu: Gpu, evidence: Evidence) -> Judged:
    # Every GPU with any driver version has these readings.
    readings = (
        gpu.name,
        gpu.memory_bytes,
        gpu.memory_used_bytes,
        gpu.temperature_c,
        gpu.power_w,
        gpu.utilization_percent,
        gpu.sm_clock_mhz,
    )
    broken = [value for value in readings if isinstance(value, Unknown) and value.reason is Reason.ERROR]
    failed = [name for name in items_of(gpu.failed_queries) if name not in _JUDGED_ELSEWHERE]
    lost = [value for value in broken if any(word in value.detail.lower() for word in _LOST_WORDS)]
    if lost or len(broken) >= 2:
        return LOST.failed(
            f"GPU{gpu.index}",
            "the driver has lost this GPU" if lost else "the GPU does not answer",
            expected="an answer",
            observed=(lost or broken)[0].words,
            remedy=_RESTART,
        )
    if failed or broken:
        shown = first_names(failed, _SHOWN)
        return LOST.warned(
            f"GPU{gpu.index}",
            "the driver answers some queries with an error",
            expected="no error",
            observed=shown or broken[0].words,
            remedy=Remedy(
                text="If no other check fails, a newer driver may fix this. Reset the GPU if a sensor or a "
                "mode fails.",
                command=f"nvidia-smi -q -i {smi_name(gpu)} | grep -i error",
            ),
        )
    if all(isinstance(value, Unknown) for value in readings):
        return unknown_among(*readings)
    return "all queried readings"


def accelerators(evidence: Evidence) -> Iterator[Finding]:
    """Yield one finding for each model of accelerator, or one finding if there is none."""
    others, gpus = evidence.facts.accelerators, evidence.facts.gpus
    if isinstance(others, Unknown):
        if others.reason is NOT_RECORDED.reason or (known(gpus) and gpus):
            yield ACCELERATORS.skipped(HOST, "no listing of the PCI bus or of device files was read")
        else:
            yield ACCELERATORS.undetermined(HOST, others, what="the PCI bus")
        return
    by_name = grouped((accelerator.name, accelerator) for accelerator in others)
    for name, devices in by_name.items():
        yield _unread(name, devices)
    if not others and known(gpus) and gpus:
        yield ACCELERATORS.passed(HOST, "all accelerators are NVIDIA GPUs", observed=plural(len(gpus), "GPU"))
    elif not others:
        yield ACCELERATORS.skipped(HOST, "there is no accelerator of a vendor other than NVIDIA")


def _unread(name: str, devices: list[Accelerator]) -> Finding:
    references = tuple(reference for device in devices for reference in device.evidence)
    without_driver = [device.bus_id for device in devices if device.driver is None]
    if without_driver:
        return ACCELERATORS.failed(
            HOST,
            f"{name} without a driver",
            expected="a driver",
            observed=f"{len(without_driver)} of {plural(len(devices), 'device')}: "
            f"{', '.join(without_driver)}",
            remedy=Remedy(
                text="Install the vendor's driver, or load it if it is installed.", command="lspci -k"
            ),
            evidence=references,
        )
    return ACCELERATORS.undetermined(
        HOST,
        Unknown(Reason.NOT_SUPPORTED, "rigtune reads NVIDIA GPUs only"),
        what=f"the health of {len(devices)} {name}",
        remedy=Remedy(text="Judge these devices with the vendor's own tools."),
        evidence=references,
    )
