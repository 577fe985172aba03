"""Check that payload and read request sizes are set as the path allows.

The payload of a device must not exceed what the bridge above it takes, and a smaller one than all ends
support wastes bandwidth. NICs of 200 Gb/s and more need read requests of 4096 bytes to fetch at line rate.
Source: Linux, drivers/pci/probe.c (MPS); azurehpc-health-checks, MaxPayload; NVIDIA, performance tuning for
Mellanox adapters (MaxReadReq).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from probes.base.record import NOT_RECORDED, Unknown, known, value_or
from probes.facts import Nic, PciDevice
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, Judged, fold_names, judge_each, on_nics, subject_name
from probes.reading.pci.paths import Tree, names_of, subject_of, training_devices, tree_of, unread_tree

PAYLOAD = Judge(
    check_id="pcie-payload",
    why="Small packets spend more of the link on headers; too large ones are dropped by the bridge.",
)
READ = Judge(
    check_id="pcie-read-request",
    why="A NIC fetches what it sends in blocks of this size; small ones bound its rate.",
)

PAYLOAD_SETTING = Remedy(
    text="Set Max Payload Size to auto in the BIOS, or boot with pci=pcie_bus_safe or pci=pcie_bus_perf.",
    command="lspci -vv | grep MaxPayload",
    needs_root=True,
)


def pcie_payload(evidence: Evidence) -> Iterator[Finding]:
    facts, well = evidence.facts, []
    devices = training_devices(facts)
    tree, names = tree_of(facts), names_of(facts)
    silent: Unknown | None = None
    for device in devices:
        verdict = _payload(device, tree, subject_of(device, names))
        if isinstance(verdict, Finding):
            yield verdict
        elif isinstance(verdict, Unknown):
            silent = verdict
        else:
            well.append(subject_of(device, names))
    if well:
        yield PAYLOAD.passed(fold_names(well), "payload sizes are what the path allows")
    if silent is not None:
        yield PAYLOAD.undetermined(HOST, silent, what="the payload sizes")
    if not devices and known(facts.pci_devices):
        yield PAYLOAD.skipped(HOST, "no GPU or NIC on the PCI bus")
    elif not devices:
        yield PAYLOAD.undetermined(HOST, unread_tree(facts), what="the payload sizes")


def _payload(device: PciDevice, tree: Tree, subject: str) -> Finding | Unknown | None:
    if isinstance(device.max_payload_bytes, Unknown):
        return device.max_payload_bytes
    path = tree.above(device)
    set_above = [bridge.max_payload_bytes for bridge in path if known(bridge.max_payload_bytes)]
    able = [part.max_payload_supported_bytes for part in (device, *path)]
    possible = min((size for size in able if known(size)), default=0)
    payload = device.max_payload_bytes
    if set_above and payload > min(set_above):
        return PAYLOAD.warned(
            subject,
            "the device sends larger packets than a bridge above it takes",
            expected=f"at most {min(set_above)} bytes",
            observed=f"{payload} bytes",
            remedy=PAYLOAD_SETTING,
            evidence=device.evidence,
        )
    if len(path) > 0 and all(known(size) for size in able) and payload < possible:
        return PAYLOAD.warned(
            subject,
            "packets are smaller than every device on the path allows",
            expected=f"{possible} bytes",
            observed=f"{payload} bytes",
            remedy=PAYLOAD_SETTING,
            evidence=device.evidence,
        )
    return None


@on_nics(READ)
def pcie_read_request(nics: tuple[Nic, ...], evidence: Evidence) -> Iterable[Finding]:
    devices = tree_of(evidence.facts).devices
    floor, fast = (
        evidence.thresholds.pcie_read_request_minimum_bytes,
        evidence.thresholds.pcie_read_request_rate_gbps,
    )

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
