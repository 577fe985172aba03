"""Check that payload sizes, read requests, ACS and the IOMMU are set as the PCIe path needs them.

The payload size of a device must not exceed the payload size of the bridge above it. A payload size below
what all devices on the path support wastes bandwidth. NICs of 200 Gb/s and more need read requests of 4096
bytes to fetch at line rate.

A bridge with request or completion redirect (ACS) sends every peer-to-peer packet up to the root complex:
this is slow at best, and causes a hang at worst. For virtual machines, the host needs ACS for isolation.
Grace needs ACS for its SMMU. A redirect is a warning; it is a FAIL if copies of a GPU below the bridge to
another GPU were measured and are slow.

On x86 without virtual machines, translation by the IOMMU costs bandwidth of GPUDirect and breaks it on some
machines; passthrough mode or no IOMMU is the right setting. On Arm the SMMU has to translate for DMA-BUF
before Linux 6.11.
Source: Linux, drivers/pci/probe.c (MPS); azurehpc-health-checks, MaxPayload; NVIDIA, performance tuning for
Mellanox adapters (MaxReadReq); NCCL, troubleshooting, PCI Access Control Services; NVIDIA/nccl#304 (patterns
of broken and good machines), #2079, #257; ROCm/cvs, host checks; NVIDIA/nodewright-packages#121 (Arm).
"""

from collections.abc import Iterable, Iterator

from probes.base.grouping import grouped, largest
from probes.base.record import NOT_RECORDED, Unknown, first_unknown, items_of, known, only_known, value_or
from probes.base.units import plural, quantity
from probes.base.versions import at_least
from probes.facts import MachineFacts, Nic, PciDevice, is_virtual
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.measurement_evidence import gpus_in, measurements_of, refs_of
from probes.judging.reporting import HOST, Judged, fold_names, judge_each, on_nics, subject_name
from probes.reading.pci.paths import (
    REDIRECTS,
    Tree,
    names_of,
    subject_of,
    training_devices,
    tree_of,
    unread_tree,
)

PAYLOAD = Judge(
    check_id="pcie-payload",
    why="With small packets, headers take more of the bandwidth; the bridge drops packets that are too "
    "large.",
)
READ = Judge(
    check_id="pcie-read-request",
    why="A NIC fetches the data that it sends in blocks of this size; small blocks limit its rate.",
)

_PAYLOAD_SETTING = Remedy(
    text="Set Max Payload Size to auto in the BIOS, or boot with pci=pcie_bus_safe or pci=pcie_bus_perf.",
    command="lspci -vv | grep MaxPayload",
    needs_root=True,
)
ACS = Judge(
    check_id="acs",
    why="GPUDirect and peer-to-peer copies go through the CPU: they reach a fraction of the bandwidth, or "
    "hang.",
)

_CLEAR = Remedy(
    text="Switch ACS off in the BIOS, or clear it on these bridges after each boot (setpci -s BRIDGE "
    "ECAP_ACS+0x6.w=0000).",
    command="lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'",
    needs_root=True,
    reversible=True,
)
IOMMU = Judge(
    check_id="iommu", why="GPUDirect loses bandwidth or fails if the IOMMU translates every address."
)
ARM = Judge(
    check_id=IOMMU.check_id,
    why="Without translation, CUDA cannot create a context on these kernels if DMA-BUF is used.",
)


def pcie_payload(evidence: Evidence) -> Iterator[Finding]:
    facts, devices = evidence.facts, training_devices(evidence.facts)
    tree, names = tree_of(facts), names_of(facts)
    subjects = [subject_of(device, names) for device in devices]
    verdicts = [_payload(device, tree, name) for device, name in zip(devices, subjects, strict=True)]
    yield from (verdict for verdict in verdicts if isinstance(verdict, Finding))
    well = [name for name, verdict in zip(subjects, verdicts, strict=True) if verdict is None]
    if well:
        yield PAYLOAD.passed(fold_names(well), "no payload size is known to be wrong for its path")
    silent = [verdict for verdict in verdicts if isinstance(verdict, Unknown)]
    if silent:
        yield PAYLOAD.undetermined(HOST, silent[-1], what="the payload sizes")
    if not devices and known(facts.pci_devices):
        yield PAYLOAD.skipped(HOST, "no GPU or NIC on the PCI bus")
    elif not devices:
        yield PAYLOAD.undetermined(HOST, unread_tree(facts), what="the payload sizes")


def _payload(device: PciDevice, tree: Tree, subject: str) -> Finding | Unknown | None:
    if isinstance(device.max_payload_bytes, Unknown):
        return device.max_payload_bytes
    path = tree.above(device)
    set_above = only_known(bridge.max_payload_bytes for bridge in path)
    able = [part.max_payload_supported_bytes for part in (device, *path)]
    possible, payload = min(only_known(able), default=0), device.max_payload_bytes
    if set_above and payload > min(set_above):
        return PAYLOAD.warned(
            subject,
            "the device sends larger packets than a bridge above it accepts",
            expected=f"at most {min(set_above)} bytes",
            observed=f"{payload} bytes",
            remedy=_PAYLOAD_SETTING,
            evidence=device.evidence,
        )
    if len(path) > 0 and all(known(size) for size in able) and payload < possible:
        return PAYLOAD.warned(
            subject,
            "packets are smaller than every device on the path allows",
            expected=f"{possible} bytes",
            observed=f"{payload} bytes",
            remedy=_PAYLOAD_SETTING,
            evidence=device.evidence,
        )
    return None


@on_nics(READ)
def pcie_read_request(nics: tuple[Nic, ...], evidence: Evidence) -> Iterable[Finding]:
    devices, limits = tree_of(evidence.facts).devices, evidence.thresholds
    floor, fast = limits.pcie_read_request_minimum_bytes, limits.pcie_read_request_rate_gbps

    def judge(nic: Nic) -> Judged:
        device = devices.get(nic.pci_bus_id) if known(nic.pci_bus_id) else None
        if device is None:
            return unread_tree(evidence.facts) if not devices else NOT_RECORDED
        if isinstance(device.max_read_request_bytes, Unknown):
            return device.max_read_request_bytes
        if device.max_read_request_bytes >= floor.value or value_or(nic.rate_gbps, 0.0) < fast.value:
            return f"{device.max_read_request_bytes} bytes"
        return READ.warned(
            subject_name(nic),
            "read requests are small for a port of this rate",
            expected=f"{floor.value:g} bytes",
            observed=f"{device.max_read_request_bytes} bytes",
            remedy=Remedy(
                text="Set PCIe Max Read Request to 4096 in the BIOS, or with setpci on the NIC after each "
                "boot."
            ),
            evidence=(*device.evidence, floor.ref),
        )

    return judge_each(READ, nics, judge, what="the read request size", good="read requests are large enough")


def acs(evidence: Evidence) -> Findings:
    facts = evidence.facts
    devices = training_devices(facts)
    if is_virtual(facts):
        return ACS.skipped(HOST, "a virtual machine needs ACS on its host")
    if facts.cpu.architecture == "aarch64":
        return ACS.skipped(
            HOST, "Arm machines translate peer-to-peer addresses with ATS, and need ACS for this"
        )
    if isinstance(facts.pci_devices, Unknown):
        return ACS.undetermined(HOST, unread_tree(facts), what="the PCI bridges")
    if unnamed := [device for device in facts.pci_devices if not device.bus_id and known(device.acs)]:
        return _of_lines(unnamed)
    if len(devices) < 2:
        return ACS.skipped(HOST, "there are no two GPUs or NICs that could reach each other")
    return _judged(evidence, devices)


def _of_lines(bridges: list[PciDevice]) -> Finding:
    """Judge the output of `lspci -vvv | grep ACSCtl`, which reports bridges without their names."""
    redirecting = [bridge for bridge in bridges if REDIRECTS & set(_controls(bridge))]
    if not redirecting:
        return ACS.passed(
            HOST, "no bridge redirects", observed=plural(len(bridges), "line"), evidence=bridges[0].evidence
        )
    return ACS.warned(
        HOST,
        "bridges send peer-to-peer traffic through the host",
        expected="no redirect above a GPU or NIC",
        observed=f"{len(redirecting)} of {plural(len(bridges), 'bridge')}: "
        f"{', '.join(_controls(redirecting[0])).replace('_', ' ')}",
        remedy=_CLEAR,
        evidence=tuple(ref for bridge in redirecting[:4] for ref in bridge.evidence),
    )


def _judged(evidence: Evidence, devices: tuple[PciDevice, ...]) -> Iterator[Finding]:
    facts, slow = evidence.facts, _slow_copies(evidence)
    tree, names = tree_of(facts), names_of(facts)
    below = grouped(
        (bridge.bus_id, subject_of(device, names)) for device in devices for bridge in tree.above(device)
    )
    bridges = [tree.devices[address] for address in below]
    redirecting = [(bridge, controls) for bridge in bridges if REDIRECTS & set(controls := _controls(bridge))]
    for bridge, controls in redirecting:
        slow_below = [
            measurement
            for measurement in slow
            if not {*gpus_in(measurement.subject)}.isdisjoint(below[bridge.bus_id])
        ]
        worst = min(slow_below, key=lambda measurement: measurement.median, default=None)
        statement = (
            f"; {worst.subject} copy {quantity(worst.median, worst.unit)}, far less than copies to the "
            "host reach"
            if worst
            else ""
        )
        yield ACS.problem(
            bridge.bus_id,
            f"this bridge sends peer-to-peer traffic of {fold_names(sorted(set(below[bridge.bus_id])))} "
            "through the host",
            fails=worst is not None,
            expected="no redirect",
            observed=", ".join(controls).replace("_", " ") + statement,
            remedy=_CLEAR,
            evidence=(*bridge.evidence, *refs_of(slow_below)),
        )
    silent = first_unknown(*(bridge.acs for bridge in bridges))
    if silent is not None or not bridges:
        reason = silent or first_unknown(*(device.parent for device in devices)) or unread_tree(facts)
        yield ACS.undetermined(HOST, reason, what="the ACS controls of the bridges")
    elif not redirecting:
        yield ACS.passed(
            HOST, "no bridge above a GPU or NIC redirects", observed=plural(len(bridges), "bridge")
        )


def _slow_copies(evidence: Evidence) -> list[Measurement]:
    """Return copies between two GPUs over PCIe that are much slower than their copies to the host."""
    links = items_of(evidence.facts.links)
    over_pcie = {frozenset((link.a, link.b)) for link in links if link.kind != "NVLINK"}
    host = largest(
        (measurement.subject, measurement.median)
        for measurement in measurements_of(evidence, ("host-device",), "memory_bandwidth_bytes_per_s")
        if measurement.parameters.get("pinned") is True and measurement.parameters.get("direction") != "both"
    )
    least = evidence.thresholds.measured_fail_fraction.value
    return [
        measurement
        for measurement in measurements_of(evidence, ("peer-copy",), "peer_bandwidth_bytes_per_s")
        if frozenset(names := gpus_in(measurement.subject)) in over_pcie
        and measurement.parameters.get("direction") != "both"
        and measurement.median < least * min(host.get(name, 0.0) for name in names)
    ]


def _controls(bridge: PciDevice) -> tuple[str, ...]:
    return bridge.acs if isinstance(bridge.acs, tuple) else ()


def iommu(evidence: Evidence) -> Finding:
    facts = evidence.facts
    if facts.gpus == () and not any(device.kind == "gpu" for device in training_devices(facts)):
        return IOMMU.skipped(HOST, "this machine has no GPU")
    if is_virtual(facts):
        return IOMMU.skipped(HOST, "the host controls the IOMMU of a virtual machine")
    mode = _mode(facts)
    if isinstance(mode, Unknown):
        return IOMMU.undetermined(HOST, mode, what="the mode of the IOMMU")
    if isinstance(facts.cpu.architecture, Unknown) and mode == "translated":
        return IOMMU.undetermined(HOST, facts.cpu.architecture, what="the architecture")
    if facts.cpu.architecture == "aarch64":
        return _on_arm(evidence, mode)
    if mode == "translated":
        return IOMMU.warned(
            HOST,
            "the IOMMU translates the addresses of GPUs and NICs",
            expected="passthrough or off",
            observed=mode,
            remedy=Remedy(
                text="Boot with iommu=pt, or switch the IOMMU off in the BIOS where no virtual machine "
                "needs it."
            ),
            evidence=facts.kernel.evidence,
        )
    return IOMMU.passed(HOST, "the IOMMU does not translate", observed=mode, evidence=facts.kernel.evidence)


def _mode(facts: MachineFacts) -> str | Unknown:
    """Return the mode of the kernel, or else the mode of the devices' IOMMU groups."""
    groups = {device.iommu_group_type for device in training_devices(facts) if known(device.iommu_group_type)}
    if known(facts.kernel.iommu) or not groups:
        return facts.kernel.iommu
    is_translated = any(isinstance(group, str) and group.startswith("DMA") for group in groups)
    return "translated" if is_translated else "passthrough"


def _on_arm(evidence: Evidence, mode: str) -> Finding:
    kernel, fixed = evidence.facts.software.kernel, evidence.thresholds.arm_passthrough_kernel
    if mode == "translated" or (known(kernel) and at_least(kernel, fixed.value)):
        return ARM.passed(HOST, "the SMMU's mode suits this kernel", observed=mode)
    if isinstance(kernel, Unknown):
        return ARM.undetermined(HOST, kernel, what="the kernel's version")
    return ARM.warned(
        HOST,
        "this kernel needs the SMMU to translate for DMA-BUF",
        expected=f"iommu.passthrough=0, or Linux {fixed.value}",
        observed=f"{mode}, Linux {kernel}",
        remedy=Remedy(text="Boot with iommu.passthrough=0."),
        evidence=(fixed.ref,),
    )
