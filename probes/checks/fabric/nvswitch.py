"""Check the NVSwitches, the NVLink fabric that they form, the Fabric Manager and IMEX.

The Fabric Manager sets up the switches; without it no new job gets NVLink. For a virtual machine or
container, the Fabric Manager usually runs outside, and the host manages NVSwitches that the virtual machine
does not see. On such a machine, only a service that failed inside the machine counts. The driver reports the
fabric's health mask. Source: NVIDIA Fabric Manager user guide; NVIDIA/NVSentinel#883 (a dead service
unnoticed for two weeks); NVML reference, nvmlGpuFabricInfoV; NVIDIA IMEX user guide; leptonai/gpud, nvswitch.
"""

from collections.abc import Iterator, Sequence

from probes.base.grouping import grouped
from probes.base.record import EvidenceRef, Reason, Unknown, first_unknown, known, only_known, value_or
from probes.base.units import plural
from probes.catalogue.xids import load_xids
from probes.facts import Gpu, LogEvent, MachineFacts
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import (
    HOST,
    Judged,
    each_gpu,
    evidence_of,
    fold_names,
    is_behind_switch,
    on_gpus,
    unknown_among,
)

MANAGER = Judge(
    check_id="fabric-manager",
    why="Without the Fabric Manager the NVSwitches are not set up: CUDA does not start, or NVLink is lost "
    "at the next reset.",
)

_START = Remedy(
    text="Install the Fabric Manager of the driver's exact version, and start it.",
    command="systemctl enable --now nvidia-fabricmanager",
    needs_root=True,
)
VERSION = Judge(
    check_id="fabric-manager-version",
    why="A Fabric Manager of another version than the driver's refuses to start, and NVLink stays down.",
)
HEALTH = Judge(
    check_id="fabric-health",
    why="A degraded fabric runs collectives at the speed of its worst route, or not at all.",
)
CLIQUE = Judge(
    check_id="fabric-clique",
    why="GPUs of different cliques cannot reach each other over NVLink, even if their links are up.",
)
COUNT = Judge(
    check_id="nvswitch-count",
    why="A missing NVSwitch costs every GPU some of its links, or stops the Fabric Manager.",
)
FAULTS = Judge(
    check_id="nvswitch-faults",
    why="A fatal error of an NVSwitch ends all jobs that use NVLink; other errors often precede a failure.",
)
IMEX = Judge(
    check_id="imex", why="Without IMEX, GPUs of different trays do not reach each other over NVLink."
)

_NO_FABRIC = Unknown(Reason.NOT_SUPPORTED, "this GPU reports no fabric")
_HARMLESS_FLAGS = frozenset({"route_recovery"})
"""Flags of temporary states that the fabric ends by itself."""
_ZERO = frozenset("0-")
_EVENTS = frozenset({"sxid", "fabric-manager", "nvswitch"})
_FABRIC_LOGS = frozenset({"kernel-log", "fabric-manager-log"})
_RESET = Remedy(
    text="Drain the node, restart the Fabric Manager and reset all GPUs; if the fault remains, the "
    "baseboard or the "
    "rack needs service.",
    command="systemctl restart nvidia-fabricmanager && nvidia-smi -r",
    needs_root=True,
)


@on_gpus(MANAGER)
def fabric_manager(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    facts, service = evidence.facts, evidence.facts.software.fabric_manager
    refs = facts.software.evidence
    if not any(map(is_behind_switch, gpus)):
        return MANAGER.skipped(HOST, "no NVSwitch was detected")
    if service == "active":
        return MANAGER.passed(HOST, "the Fabric Manager runs", observed=service, evidence=refs)
    if isinstance(service, Unknown):
        return MANAGER.undetermined(HOST, service, what="the state of the Fabric Manager", evidence=refs)
    if service != "failed" and _may_run_outside(facts):
        return MANAGER.skipped(
            HOST, "in a virtual machine or container, the Fabric Manager usually runs outside", evidence=refs
        )
    if all(gpu.fabric_state == "completed" for gpu in gpus):
        if service is None:
            return MANAGER.passed(
                HOST, "a Fabric Manager outside this machine has set up the fabric", evidence=refs
            )
        return MANAGER.warned(
            HOST,
            "the fabric is set up, but the Fabric Manager has stopped",
            expected="active",
            observed=service,
            remedy=_START,
            evidence=refs,
        )
    return MANAGER.failed(
        HOST,
        "the Fabric Manager does not run",
        expected="active",
        observed=service or "not installed",
        remedy=_START,
        evidence=refs,
    )


def _may_run_outside(facts: MachineFacts) -> bool:
    return isinstance(facts.container.runtime, str) or isinstance(facts.container.virtualization, str)


@on_gpus(VERSION)
def fabric_manager_version(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    software, refs = evidence.facts.software, evidence.facts.software.evidence
    manager = software.fabric_manager_version
    driver = software.driver_version
    if not isinstance(driver, str):
        driver = min(only_known(gpu.driver_version for gpu in gpus), default=None)
    if manager is None:
        return VERSION.skipped(HOST, "the Fabric Manager is not installed here", evidence=refs)
    if isinstance(manager, Unknown):
        if not any(map(is_behind_switch, gpus)):
            return VERSION.skipped(HOST, "no NVSwitch was detected", evidence=refs)
        return VERSION.undetermined(HOST, manager, what="the Fabric Manager's version", evidence=refs)
    if driver is None:
        missing = Unknown(Reason.NOT_RECORDED, "the driver's version is not known")
        return VERSION.undetermined(HOST, missing, what="the driver's version", evidence=refs)
    # The version of a package ends with a package release: 535.161.08-1.
    if manager.partition("-")[0].strip() == driver.partition("-")[0].strip():
        return VERSION.passed(
            HOST, "the Fabric Manager has the driver's version", observed=manager, evidence=refs
        )
    return VERSION.failed(
        HOST,
        "the Fabric Manager and the driver are of different versions",
        expected=driver,
        observed=manager,
        remedy=Remedy(
            text="Install the Fabric Manager of the driver's exact version, and hold both back from "
            "automatic updates.",
            command="systemctl restart nvidia-fabricmanager",
            needs_root=True,
        ),
        evidence=refs,
    )


@each_gpu(HEALTH, what="the fabric's health", good="the NVLink fabric is healthy")
def fabric_health(gpu: Gpu, evidence: Evidence) -> Judged:
    fabric = gpu.fabric
    if gpu.fabric_state == "not supported":
        return _NO_FABRIC
    if known(fabric.status) and fabric.status.lower() not in ("success", "n/a"):
        return HEALTH.failed(
            f"GPU{gpu.index}",
            "the GPU could not join the NVLink fabric",
            expected="status success",
            observed=fabric.status,
            remedy=_RESET,
        )
    if isinstance(fabric.health, Unknown):
        # Drivers before 550 only report the status.
        return "status success" if known(fabric.status) and gpu.fabric_state == "completed" else fabric.health
    if not fabric.health:
        return "no flag of the health mask is raised"
    return HEALTH.problem(
        f"GPU{gpu.index}",
        "the NVLink fabric is not healthy",
        fails=not (set(fabric.health) <= _HARMLESS_FLAGS),
        expected="no flag of the health mask",
        observed=", ".join(flag.replace("_", " ") for flag in fabric.health),
        remedy=_RESET,
    )


@on_gpus(CLIQUE)
def fabric_clique(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    places = {gpu.index: (gpu.fabric.cluster_uuid, gpu.fabric.clique_id) for gpu in gpus}
    known_places = {index: place for index, place in places.items() if first_unknown(*place) is None}
    if not known_places:
        unknown = unknown_among(*places[gpus[0].index])
        if all(gpu.fabric_state == "not supported" or unknown.reason is Reason.NOT_SUPPORTED for gpu in gpus):
            yield CLIQUE.skipped(HOST, "these GPUs report no clique")
        elif not any(map(is_behind_switch, gpus)):
            yield CLIQUE.skipped(HOST, "no NVSwitch was detected")
        else:
            yield CLIQUE.undetermined(HOST, unknown, what="the clique")
        return
    refs = evidence_of(gpu for gpu in gpus if gpu.index in known_places)
    names = fold_names([f"GPU{index}" for index in known_places])
    if len(set(known_places.values())) == 1:
        uuid, clique = next(iter(known_places.values()))
        cluster = "no cluster" if not set(str(uuid)) - _ZERO else f"cluster {uuid}"
        yield CLIQUE.passed(
            names, "the GPUs are in one clique", observed=f"clique {clique}, {cluster}", evidence=refs
        )
        return
    yield CLIQUE.failed(
        names,
        "the GPUs are in different NVLink cliques",
        expected="one clique and one cluster",
        observed="; ".join(f"GPU{index}: clique {clique}" for index, (_, clique) in known_places.items()),
        remedy=Remedy(
            text="Check the partitions of the rack's Fabric Manager (NMX): all GPUs of a node must be in the "
            "same partition."
        ),
        evidence=refs,
    )


@on_gpus(COUNT)
def nvswitch_count(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    from probes.compare.reference_rows import load_references  # noqa: PLC0415 - few machines have NVSwitches

    devices = evidence.facts.pci_devices
    if isinstance(devices, Unknown):
        if any(map(is_behind_switch, gpus)):
            return COUNT.undetermined(HOST, devices, what="the PCI bus")
        return COUNT.skipped(HOST, "no NVSwitch was detected")
    switches = [device for device in devices if device.kind == "nvswitch"]
    models = [evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None for gpu in gpus]
    row = load_references().board(models[0], len(gpus)) if models[0] is not None else None
    refs = evidence_of(switches)
    if not switches:
        return COUNT.skipped(HOST, "no NVSwitch is on the PCI bus that this system sees")
    if row is None or any(model != models[0] for model in models):
        return COUNT.skipped(
            HOST,
            f"{plural(len(switches), 'NVSwitch')}; the expected number for this board is unknown",
            evidence=refs,
        )
    if len(switches) >= row.count:
        return COUNT.passed(HOST, "all NVSwitches are present", observed=str(len(switches)), evidence=refs)
    return COUNT.failed(
        HOST,
        "NVSwitches are missing on the PCI bus",
        expected=f"{row.count} NVSwitches on a board with {row.gpu_count} GPUs",
        observed=f"{len(switches)}: {', '.join(device.bus_id for device in switches)}",
        remedy=Remedy(
            text="Switch the node off and on; if an NVSwitch is still missing, the baseboard "
            "must be replaced."
        ),
        evidence=(*refs, row.ref),
    )


def nvswitch_faults(evidence: Evidence) -> Iterator[Finding]:
    events, logs = evidence.facts.events, evidence.facts.logs
    if isinstance(events, Unknown):
        yield FAULTS.undetermined(HOST, events, what="the log")
        return
    if known(logs) and not _FABRIC_LOGS & set(logs):
        yield FAULTS.skipped(HOST, "no log of the kernel or the Fabric Manager was read")
        return
    mine = [event for event in events if event.kind in _EVENTS]
    groups = grouped(((event.kind, event.code, _is_fatal(event)), event) for event in mine)
    for same in groups.values():
        yield _fault(same)
    if not mine:
        yield FAULTS.passed(HOST, "the logs report no fault of an NVSwitch")


def _is_fatal(event: LogEvent) -> bool | None:
    if known(event.fatal):
        return event.fatal
    return load_xids().switch_fatal(event.code) if event.kind == "sxid" and event.code is not None else None


def _fault(same: Sequence[LogEvent]) -> Finding:
    first = same[0]
    is_fatal, is_settled = _is_fatal(first), all(event.settled for event in same)
    count = sum(event.count for event in same)
    part = load_xids().switch_part(first.code) if first.code is not None else None
    what = (
        f"SXid {first.code}" + (f" ({part})" if part else "") if first.kind == "sxid" else first.message[:160]
    )
    severity = "" if is_fatal is None else "fatal, " if is_fatal else "not fatal, "
    times = "once" if count == 1 else f"{count} times"
    return FAULTS.problem(
        ", ".join(dict.fromkeys(event.device for event in same if event.device)) or HOST,
        "an NVSwitch reports errors"
        if first.kind != "fabric-manager"
        else "the Fabric Manager reports errors",
        fails=is_fatal is True and not is_settled,
        expected="no errors",
        observed=f"{what}: {severity}{times}" + (f", last {first.last_time}" if first.last_time else ""),
        remedy=_RESET
        if is_fatal
        else Remedy(
            text="Watch whether the error comes back; repeated errors on one port mean that its cable, GPU "
            "or switch "
            "needs service."
        ),
        evidence=evidence_of(same),
    )


@on_gpus(IMEX)
def imex(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    software = evidence.facts.software
    refs: tuple[EvidenceRef, ...] = software.evidence
    if not any(set(value_or(gpu.fabric.cluster_uuid, "")) - _ZERO for gpu in gpus):
        return IMEX.skipped(HOST, "no GPU reports an NVLink domain of several machines", evidence=refs)
    if isinstance(software.imex, Unknown):
        return IMEX.undetermined(HOST, software.imex, what="the IMEX domain", evidence=refs)
    if software.imex is None or software.imex.upper() != "UP":
        return IMEX.warned(
            HOST,
            "the IMEX domain is not up",
            expected="UP",
            observed=software.imex or "not installed",
            remedy=Remedy(
                text="Start the IMEX service on all machines of the domain with the same list of nodes; a "
                "single machine needs no IMEX.",
                command="systemctl enable --now nvidia-imex && nvidia-imex-ctl -N",
                needs_root=True,
            ),
            evidence=refs,
        )
    if software.imex_channels == 0:
        return IMEX.warned(
            HOST,
            "the IMEX channel device is missing",
            expected="/dev/nvidia-caps-imex-channels/channel0",
            observed="none",
            remedy=Remedy(
                text="Let the driver create the device at each boot.",
                command="echo options nvidia NVreg_CreateImexChannel0=1 > /etc/modprobe.d/nvidia-imex.conf",
                needs_root=True,
            ),
            evidence=refs,
        )
    return IMEX.passed(HOST, "the IMEX domain is up", observed="UP", evidence=refs)
