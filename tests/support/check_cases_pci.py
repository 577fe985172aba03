"""Cases of the checks of the PCI tree: healthy machines with one difference."""

from __future__ import annotations

from typing import Any

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import Link, LogEvent, MachineFacts, PciDevice, PcieLink
from tests.support.check_case import ALL, BOX, NODE, NOT_SUPPORTED, ONE, TIMEOUT, UNREAD, Case, links
from tests.support.machines import h100_node, with_gpus, with_nics, with_part
from tests.support.machines_pci import bridge_address
from tests.support.measured import host_copies, peer_copies, run_of

GPU2, NIC2, BRIDGE2 = "0000:4c:00.0", "0000:3a:00.0", bridge_address(2)
DENIED = Unknown(Reason.PERMISSION, "only root reads the capabilities of a PCI device")
BLIND = msgspec.structs.replace(UNREAD, pci_devices=NOT_RECORDED)
NO_TREE = h100_node(pci_devices=TIMEOUT)


def with_device(address: str, **changes: Any) -> MachineFacts:
    """Return the healthy node with `changes` on one PCI device; an empty address means all devices."""
    assert isinstance(NODE.pci_devices, tuple)
    devices = tuple(
        msgspec.structs.replace(device, **changes) if address in ("", device.bus_id) else device
        for device in NODE.pci_devices
    )
    assert devices != NODE.pci_devices
    return h100_node(pci_devices=devices)


def logged(kind: str, device: str | None, message: str = "m", **fields: Any) -> MachineFacts:
    event = LogEvent(kind=kind, device=device, message=message, **fields)  # type: ignore[arg-type]
    return h100_node(events=(event,))


def acs_lines(*controls: tuple[str, ...]) -> MachineFacts:
    """Return the facts that `lspci -vvv | grep ACSCtl` reports."""
    lines = tuple(PciDevice(bus_id="", kind="other", acs=each) for each in controls)
    return h100_node(gpus=NOT_RECORDED, pci_gpus=NOT_RECORDED, pci_devices=lines)


QUIET = h100_node(events=())
UNLOGGED = h100_node(events=TIMEOUT)
LINE = PciDevice(
    bus_id="", kind="other", pcie=PcieLink(generation=1, width=16, width_max=16), downgraded=("speed",)
)
ODD = PciDevice(
    bus_id="0000:c3:00.0",
    kind="other",
    pcie=PcieLink(generation=Unknown(Reason.UNPARSABLE, "link speed 4 GT/s")),
)
NICS = "mlx5_0-8"
SLOW = PcieLink(generation=4, generation_max=5, width=16, width_max=16)
NARROW = PcieLink(generation=5, generation_max=5, width=8, width_max=16)
UNTOLD = h100_node(gpus=NOT_RECORDED, pci_gpus=NOT_RECORDED, pci_devices=(LINE,))


def over_pcie(facts: MachineFacts) -> MachineFacts:
    """Return facts in which GPU2 and GPU3 are connected only over PCIe."""
    return msgspec.structs.replace(facts, links=(Link(a="GPU2", b="GPU3", kind="PIX"),))


REDIRECTS = with_device(BRIDGE2, acs=("source_validation", "request_redirect"))
PCIE_REDIRECTS = over_pcie(REDIRECTS)
HOST_COPIES = host_copies(55.0, 55.0, 55.0, 55.0)
SLOW_COPIES = run_of(HOST_COPIES, peer_copies({(2, 3): 22.0}))
FAST_COPIES = run_of(HOST_COPIES, peer_copies({(2, 3): 50.0}))

PCI_CASES = (
    Case(
        "pcie-link",
        "a NIC at half",
        with_device(NIC2, pcie=NARROW),
        ("WARN mlx5_2", "PASS mlx5_0-1, mlx5_3-8", f"PASS {ALL}"),
    ),
    Case("pcie-speed", "full", NODE, (f"PASS {ALL}", f"PASS {NICS}")),
    Case(
        "pcie-speed",
        "slow slot",
        with_gpus(NODE, 1, pcie=PcieLink(generation=4, generation_max=4, width=16, width_max=16)),
        ("WARN GPU1", "PASS GPU0, GPU2-7", f"PASS {NICS}"),
    ),
    Case(
        "pcie-speed",
        "all slots slow",
        with_gpus(NODE, pcie=PcieLink(generation=4, generation_max=4, width=16, width_max=16)),
        (f"WARN {ALL}", f"PASS {NICS}"),
    ),
    Case(
        "pcie-speed",
        "slow NIC",
        with_device(NIC2, pcie=SLOW),
        (f"PASS {ALL}", "WARN mlx5_2", "PASS mlx5_0-1, mlx5_3-8"),
    ),
    Case("pcie-speed", "idle GPU", with_device(GPU2, pcie=SLOW), (f"PASS {ALL}", f"PASS {NICS}")),
    Case("pcie-speed", "a line alone", UNTOLD, ("WARN PCI device",)),
    Case("pcie-speed", "no such rate", h100_node(gpus=(), pci_devices=(ODD,)), ("WARN 0000:c3:00.0",)),
    Case(
        "pcie-speed",
        "maximum unread",
        h100_node(gpus=with_gpus(ONE, pcie=PcieLink()).gpus, pci_devices=()),
        ("UNKNOWN GPU0",),
    ),
    Case("pcie-speed", "nothing known", BLIND, ("UNKNOWN host",)),
    Case("pcie-speed", "no device", BOX, ("SKIP host",)),
    Case("pcie-bandwidth", "quiet", QUIET, ("PASS host",)),
    Case("pcie-bandwidth", "a GPU", logged("pcie-limited", "0000:4c:00.0"), ("WARN GPU2",)),
    Case("pcie-bandwidth", "log unread", UNLOGGED, ("UNKNOWN host",)),
    Case("slot-power", "quiet", QUIET, ("PASS host",)),
    Case("slot-power", "a NIC", logged("slot-power", "0000:3a:00"), ("WARN mlx5_2",)),
    Case("slot-power", "log unread", UNLOGGED, ("UNKNOWN host",)),
    Case("pcie-replays", "few", NODE, (f"PASS {ALL}",)),
    Case(
        "pcie-replays", "many", with_gpus(NODE, 3, pcie_replays=100_000), ("WARN GPU3", "PASS GPU0-2, GPU4-7")
    ),
    Case("pcie-replays", "unread", with_gpus(ONE, pcie_replays=TIMEOUT), ("UNKNOWN GPU0",)),
    Case("pcie-errors", "none", NODE, ("PASS host",)),
    Case(
        "pcie-errors",
        "in the log",
        logged("pcie-error", "0000:4c:00.0", fatal=True),
        ("FAIL GPU2", "PASS host"),
    ),
    Case(
        "pcie-errors",
        "corrected, in the log",
        logged("pcie-error", None, count=3),
        ("WARN host", "PASS host"),
    ),
    Case("pcie-errors", "off the bus", with_device(GPU2, responds=False), ("FAIL GPU2", "PASS host")),
    Case("pcie-errors", "lost", with_device(GPU2, aer_nonfatal=2), ("WARN GPU2", "PASS host")),
    Case("pcie-errors", "nobody knows", h100_node(pci_devices=TIMEOUT, events=TIMEOUT), ("UNKNOWN host",)),
    Case("pcie-errors", "log only", h100_node(pci_devices=TIMEOUT, events=()), ("PASS host",)),
    Case("pcie-payload", "alike", NODE, (f"PASS {ALL}, {NICS}",)),
    Case(
        "pcie-payload",
        "larger than the bridge's",
        with_device(GPU2, max_payload_bytes=512),
        ("WARN GPU2", f"PASS GPU0-1, GPU3-7, {NICS}"),
    ),
    Case(
        "pcie-payload",
        "too small",
        with_device(GPU2, max_payload_bytes=128),
        ("WARN GPU2", f"PASS GPU0-1, GPU3-7, {NICS}"),
    ),
    Case("pcie-payload", "denied", with_device("", max_payload_bytes=DENIED), ("UNKNOWN host",)),
    Case("pcie-payload", "unread", NO_TREE, ("UNKNOWN host",)),
    Case("pcie-payload", "no device", BOX, ("SKIP host",)),
    Case(
        "pcie-read-request",
        "large",
        with_nics(NODE, "mlx5_8", pci_bus_id="0000:10:00.0"),
        ("UNKNOWN mlx5_8", "PASS mlx5_0-7"),
    ),
    Case(
        "pcie-read-request",
        "small",
        with_device(NIC2, max_read_request_bytes=512),
        ("WARN mlx5_2", "PASS mlx5_0-1, mlx5_3-8"),
    ),
    Case("acs", "off", NODE, ("PASS host",)),
    Case("acs", "redirects", REDIRECTS, (f"WARN {BRIDGE2}",)),
    Case("acs", "copies slow for it", PCIE_REDIRECTS, (f"FAIL {BRIDGE2}",), measured=SLOW_COPIES),
    Case("acs", "copies slow for it over NVLink", REDIRECTS, (f"WARN {BRIDGE2}",), measured=SLOW_COPIES),
    Case(
        "acs", "copies as fast as with the host", PCIE_REDIRECTS, (f"WARN {BRIDGE2}",), measured=FAST_COPIES
    ),
    Case("acs", "copies slow without redirects", over_pcie(NODE), ("PASS host",), measured=SLOW_COPIES),
    Case("acs", "validation only", with_device(BRIDGE2, acs=("source_validation",)), ("PASS host",)),
    Case("acs", "denied", with_device("", acs=DENIED), ("UNKNOWN host",)),
    Case("acs", "in a virtual machine", with_part(NODE, "container", virtualization="kvm"), ("SKIP host",)),
    Case("acs", "on Arm", with_part(NODE, "cpu", architecture="aarch64"), ("SKIP host",)),
    Case("acs", "lines without names", acs_lines((), ("request_redirect",)), ("WARN host",)),
    Case("acs", "lines without names, off", acs_lines((), ("source_validation",)), ("PASS host",)),
    Case("acs", "unread", NO_TREE, ("UNKNOWN host",)),
    Case("iommu", "passthrough", NODE, ("PASS host",)),
    Case("iommu", "translates", with_part(NODE, "kernel", iommu="translated"), ("WARN host",)),
    Case("iommu", "unread", with_part(NO_TREE, "kernel", iommu=TIMEOUT), ("UNKNOWN host",)),
    Case(
        "iommu",
        "by groups",
        with_part(with_device("", iommu_group_type="DMA-FQ"), "kernel", iommu=TIMEOUT),
        ("WARN host",),
    ),
    Case(
        "iommu",
        "old kernel on Arm",
        with_part(with_part(NODE, "cpu", architecture="aarch64"), "software", kernel="6.8.0-1013-nvidia-64k"),
        ("WARN host",),
    ),
    Case(
        "iommu",
        "Arm translates",
        with_part(with_part(NODE, "cpu", architecture="aarch64"), "kernel", iommu="translated"),
        ("PASS host",),
    ),
    Case("iommu", "no GPU", BOX, ("SKIP host",)),
    Case("gpu-sockets", "even", NODE, ("PASS host",)),
    Case("gpu-sockets", "all on one", with_gpus(NODE, numa_node=0), ("WARN host",)),
    Case("gpu-sockets", "uneven", with_gpus(NODE, 4, numa_node=0), ("WARN host",)),
    Case("gpu-sockets", "unread", with_gpus(NODE, 4, numa_node=TIMEOUT), ("UNKNOWN host",)),
    Case("gpu-sockets", "sockets unread", with_part(NODE, "cpu", sockets=TIMEOUT), ("UNKNOWN host",)),
    Case("gpu-sockets", "one socket", with_part(NODE, "cpu", sockets=1), ("SKIP host",)),
    Case("gpu-sockets", "one GPU", ONE, ("SKIP host",)),
    Case("topology-visible", "visible", NODE, ("PASS host",)),
    Case(
        "topology-visible",
        "hidden",
        with_gpus(NODE, numa_node=None, pcie=PcieLink(width=NOT_SUPPORTED, width_max=NOT_SUPPORTED)),
        ("WARN host",),
    ),
    Case(
        "topology-visible", "unread", with_gpus(NODE, numa_node=TIMEOUT, pcie=PcieLink()), ("UNKNOWN host",)
    ),
    Case("topology-visible", "one GPU", ONE, ("SKIP host",)),
    Case(
        "topology-visible",
        "cards of one socket",
        with_gpus(h100_node(links=links("NODE")), numa_node=0),
        ("PASS host",),
    ),
    Case("topology-visible", "cards of two sockets", h100_node(links=links("NODE")), ("WARN host",)),
    Case(
        "topology-visible",
        "a board with one distance to all NICs",
        h100_node(links=(Link(a="GPU0", b="GPU1", kind="NVLINK", nvlink_count=18), *links("NODE"))),
        ("WARN host",),
    ),
)
