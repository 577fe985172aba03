"""Check that Access Control Services does not send peer traffic through the host.

A bridge with request or completion redirect sends every peer-to-peer packet up to the root complex: slow at
best, a hang at worst. In a virtual machine the host needs it for isolation. On Grace the same holds for the
SMMU. A redirect warns; if copies between GPUs were measured to be slow because of it, it fails. Source: NCCL,
troubleshooting, PCI Access Control Services; NVIDIA/nccl#304 (patterns of broken and good machines), #2079.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown, known
from probes.base.units import quantity
from probes.compare.measured_findings import of, refs_of
from probes.compare.reference_values import gpus_in
from probes.facts import PciDevice
from probes.facts.measurements import Measurement
from probes.facts.virtual import is_virtual
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.reporting import HOST, fold_names
from probes.reading.pci.paths import REDIRECTS, names_of, subject_of, training_devices, tree_of, unread_tree

JUDGE = Judge(
    check_id="acs",
    why="GPUDirect and peer-to-peer copies go through the CPU: a fraction of the bandwidth, or a hang.",
)

CLEAR = Remedy(
    text="Switch ACS off in the BIOS, or clear it on these bridges after each boot (setpci -s BRIDGE "
    "ECAP_ACS+0x6.w=0000).",
    command="lspci -vvv | grep -E '^[0-9a-f]|ACSCtl'",
    needs_root=True,
    reversible=True,
)


def check(evidence: Evidence) -> Findings:
    facts = evidence.facts
    devices = training_devices(facts)
    if is_virtual(facts):
        return JUDGE.skipped(HOST, "a virtual machine needs ACS on its host")
    if facts.cpu.architecture == "aarch64":
        return JUDGE.skipped(HOST, "Arm machines translate peer-to-peer by ATS and need ACS")
    if isinstance(facts.pci_devices, Unknown):
        return JUDGE.undetermined(HOST, unread_tree(facts), what="the PCI bridges")
    if unnamed := [device for device in facts.pci_devices if not device.bus_id and known(device.acs)]:
        return _of_lines(unnamed)
    if len(devices) < 2:
        return JUDGE.skipped(HOST, "no two GPUs or NICs that could reach each other")
    return _judged(evidence, devices)


def _of_lines(bridges: list[PciDevice]) -> Finding:
    """Judge `lspci -vvv | grep ACSCtl`, which reports bridges without their names."""
    redirecting = [bridge for bridge in bridges if REDIRECTS & set(_controls(bridge))]
    if not redirecting:
        return JUDGE.passed(
            HOST, "no bridge redirects", observed=f"{len(bridges)} lines", evidence=bridges[0].evidence
        )
    return JUDGE.warned(
        HOST,
        "bridges send peer-to-peer traffic through the host",
        expected="no redirect above a GPU or NIC",
        observed=f"{len(redirecting)} of {len(bridges)} bridges: "
        f"{', '.join(_controls(redirecting[0])).replace('_', ' ')}",
        remedy=CLEAR,
        evidence=tuple(ref for bridge in redirecting[:4] for ref in bridge.evidence),
    )


def _judged(evidence: Evidence, devices: tuple[PciDevice, ...]) -> Iterator[Finding]:
    facts, slow = evidence.facts, _slow_copies(evidence)
    tree, names = tree_of(facts), names_of(facts)
    below: dict[str, list[str]] = {}
    for device in devices:
        for bridge in tree.above(device):
            below.setdefault(bridge.bus_id, []).append(subject_of(device, names))
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
            f"; {worst.subject} copy {quantity(worst.median, worst.unit)}, far less than with the host"
            if worst
            else ""
        )
        yield JUDGE.problem(
            bridge.bus_id,
            f"this bridge sends peer-to-peer traffic of {fold_names(sorted(set(below[bridge.bus_id])))} "
            "through the host",
            fails=worst,
            expected="no redirect",
            observed=", ".join(controls).replace("_", " ") + statement,
            remedy=CLEAR,
            evidence=(*bridge.evidence, *refs_of(slow_below)),
        )
    silent = next((bridge.acs for bridge in bridges if isinstance(bridge.acs, Unknown)), None)
    if silent is not None or not bridges:
        reason = silent or next(
            (device.parent for device in devices if isinstance(device.parent, Unknown)), unread_tree(facts)
        )
        yield JUDGE.undetermined(HOST, reason, what="the ACS controls of the bridges")
    elif not redirecting:
        yield JUDGE.passed(HOST, "no bridge above a GPU or NIC redirects", observed=f"{len(bridges)} bridges")


def _slow_copies(evidence: Evidence) -> list[Measurement]:
    """Return copies between two GPUs over PCIe that are much slower than their copies to the host."""
    links = evidence.facts.links if known(evidence.facts.links) else ()
    over_pcie = {frozenset((link.a, link.b)) for link in links if link.kind != "NVLINK"}
    host: dict[str, float] = {}
    for measurement in of(evidence, ("host-device",), "memory_bandwidth_bytes_per_s"):
        if measurement.parameters.get("pinned") is True and measurement.parameters.get("direction") != "both":
            host[measurement.subject] = max(host.get(measurement.subject, 0.0), measurement.median)
    least = evidence.thresholds.measured_fail_fraction.value
    return [
        measurement
        for measurement in of(evidence, ("peer-copy",), "peer_bandwidth_bytes_per_s")
        if frozenset(names := gpus_in(measurement.subject)) in over_pcie
        and measurement.parameters.get("direction") != "both"
        and measurement.median < least * min(host.get(name, 0.0) for name in names)
    ]


def _controls(bridge: PciDevice) -> tuple[str, ...]:
    return () if bridge.acs is None or isinstance(bridge.acs, Unknown) else bridge.acs
