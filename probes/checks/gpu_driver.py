"""Does the NVIDIA driver answer for the GPUs that are there?

A GPU on the PCI bus without a driver, a driver that does not answer, a GPU that has fallen off the bus, and a kernel module
of another version than its libraries all end in a CUDA error at start. Source: NVIDIA driver documentation; the exit codes of
nvidia-smi.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.facts import Gpu, MachineFacts
from probes.findings import Evidence, Finding, Judge, Remedy
from probes.judging import HOST, NO_GPU, Judged, judge_each
from probes.record import Reason, Unknown, known

JUDGE = Judge(check_id="gpu-driver", why="Without a driver that answers, no CUDA program starts on these GPUs.")

BROKEN = (Reason.ERROR, Reason.TIMEOUT)
"""Reasons that mean "asked, and it did not answer", as opposed to "nobody could ask"."""

INSTALL = Remedy(
    text="Install the NVIDIA driver of this distribution, or load it when it is installed.",
    command="modprobe nvidia && nvidia-smi",
    needs_root=True,
)
LIBRARY = Remedy(
    text="Install the driver's tools and libraries (nvidia-smi, libnvidia-ml), or start the container with the NVIDIA runtime.",
    command="docker run --gpus all ...",
)
REBOOT = Remedy(
    text="Look for Xid lines in the kernel log, then restart the machine.", command="dmesg | grep -i xid", needs_root=True
)


def check(evidence: Evidence) -> Iterator[Finding]:
    facts = evidence.facts
    gpus, on_bus, driver = facts.gpus, facts.pci_gpus, facts.software.driver_version
    if isinstance(gpus, Unknown):
        yield _no_answer(facts, gpus)
    elif not gpus and known(on_bus) and on_bus:
        yield JUDGE.failed(
            HOST,
            "the PCI bus shows GPUs, and the driver shows none",
            expected=f"{len(on_bus)} GPUs",
            observed="no driver" if driver is None else "0 GPUs",
            remedy=INSTALL if driver is None else REBOOT,
        )
    elif not gpus:
        yield JUDGE.skipped(HOST, NO_GPU)
    elif isinstance(driver, Unknown) and all(isinstance(gpu.driver_version, Unknown) for gpu in gpus):
        yield JUDGE.undetermined(HOST, driver, what="the driver version")
    else:
        yield from judge_each(
            JUDGE, gpus, lambda gpu: _judge(gpu, driver), what="the GPU", good="the driver answers for every GPU"
        )


def _no_answer(facts: MachineFacts, unknown: Unknown) -> Finding:
    on_bus, driver = facts.pci_gpus, facts.software.driver_version
    if driver is None and known(on_bus) and on_bus:
        return JUDGE.failed(
            HOST, "GPUs without a driver", expected="a driver", observed=f"{len(on_bus)} GPUs on the PCI bus", remedy=INSTALL
        )
    if known(on_bus) and not on_bus:
        return JUDGE.skipped(HOST, NO_GPU)
    if unknown.reason in BROKEN and known(driver) and driver is not None:
        return JUDGE.failed(
            HOST, "the driver is loaded and does not answer", expected="an answer", observed=unknown.words, remedy=REBOOT
        )
    return JUDGE.undetermined(HOST, unknown, what="the GPUs", remedy=LIBRARY if known(driver) and driver is not None else None)


def _judge(gpu: Gpu, driver: str | Unknown | None) -> Judged:
    for value in (gpu.name, gpu.memory_bytes, gpu.memory_used_bytes):
        if isinstance(value, Unknown) and value.reason in BROKEN:
            return JUDGE.failed(
                f"GPU{gpu.index}", "the GPU does not answer", expected="an answer", observed=value.words, remedy=REBOOT
            )
    versions = {version for version in (driver, gpu.driver_version) if isinstance(version, str)}
    if len(versions) > 1:
        return JUDGE.failed(
            f"GPU{gpu.index}",
            "kernel module and driver library have different versions",
            expected=f"module and library {driver}",
            observed=f"library {gpu.driver_version}",
            remedy=Remedy(text="The driver was upgraded under the running kernel module: restart the machine.", needs_root=True),
        )
    if not versions:
        return Unknown(Reason.NOT_RECORDED, "no driver version")
    return f"driver {min(versions)}"
