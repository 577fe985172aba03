"""Bandwidth and latency between the ranks of a node and between nodes, from a description of links."""

from __future__ import annotations

import math

from probes.catalogue.hardware import GpuModel
from recipes.constants import constant
from recipes.machine.cluster_records import Device, Fabric, Figure, Network, NodeLinks, PcieSlot, modelled

PCIE_LANE_BYTES_PER_S = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes/s of one lane, one direction, by generation, after line coding (PCI-SIG base specifications)."""
_PER_HOP = "NCCL's tuner, per hop"
_ASSUMED_SLOT = PcieSlot(generation=4, width=16)
"""Slot that is assumed for a GPU if none is stated."""
_MEMORY_OVER_LINKS = 10
"""Bandwidth of memory over that of direct links, about: 3350 and 450 GB/s on an H100."""


def ring_bandwidth(links: NodeLinks, device: Device, host_copies: Figure | None) -> Figure | None:
    """Return the all-reduce bus bandwidth of a ring over the ranks of one node; None if it is unknown.

    `host_copies` is the measured bandwidth between GPUs and host memory, which bounds what PCIe can carry.
    """
    if links.assumed_bandwidth is not None or device.kind == "cpu":
        return links.assumed_bandwidth
    # Gaudi has Ethernet ports of its own beside PCIe.
    crosses_pcie = links.fabric == "pcie" and not any(row.link_kind == "ethernet" for row in device.rows)
    return _pcie_bandwidth(links, host_copies) if crosses_pcie else _link_bandwidth(links, device)


def _link_bandwidth(links: NodeLinks, device: Device) -> Figure | None:
    if not device.rows:
        return None
    row = min(device.rows, key=lambda row: row.nvlink_count * row.nvlink_bandwidth_bytes_per_s)
    if links.is_switched and row.ring_bus_bandwidth_bytes_per_s is not None:
        part = min(1.0, links.links / row.nvlink_count) if row.nvlink_count else 1.0
        return modelled(
            row.ring_bus_bandwidth_bytes_per_s * part, f"catalogue: {row.id}, measured ring all-reduce"
        )
    fraction = constant("nvlink_fraction")
    value = fraction * links.links * row.nvlink_bandwidth_bytes_per_s
    return modelled(value, f"catalogue: {row.id}, {links.links} links x {fraction:g}") if value > 0 else None


def _pcie_bandwidth(links: NodeLinks, host_copies: Figure | None) -> Figure | None:
    slot = links.slot
    if slot is None or slot.generation not in PCIE_LANE_BYTES_PER_S:
        return None
    fraction = constant("pcie_fraction")
    value = fraction * slot_bytes_per_s(slot)
    if host_copies is not None and host_copies.value < value:
        return host_copies
    between_sockets = constant("socket_link_bytes_per_s")
    if links.crosses_sockets and between_sockets < value:
        return modelled(between_sockets, "link between the CPU sockets, by NCCL's own topology model")
    return modelled(value, f"PCIe {slot.generation} x{slot.width} x {fraction:g}")


def slot_bytes_per_s(slot: PcieSlot) -> float:
    """Return the line rate of a slot, one direction; 0 if its generation is unknown."""
    return PCIE_LANE_BYTES_PER_S.get(slot.generation, 0.0) * slot.width


def assumed_ring(memory_bandwidth_bytes_per_s: float, fabric: Fabric) -> Figure:
    """Return the bus bandwidth assumed for a GPU whose links are unknown."""
    if fabric == "pcie":
        value = constant("pcie_fraction") * slot_bytes_per_s(_ASSUMED_SLOT)
    else:
        value = memory_bandwidth_bytes_per_s / _MEMORY_OVER_LINKS
    return modelled(value, "assumed: the case does not describe the links")


def mesh_links(row: GpuModel, used: int, others: int) -> int:
    """Return the links of a GPU to `used` of the `others` that its links lead to.

    Where they do not divide evenly, some pairs have one more, and NCCL takes those first.
    """
    count = row.nvlink_count
    return min(count, math.ceil(count * used / others) + (1 if count % others else 0))


def hop_s(links: NodeLinks) -> Figure:
    """Return the latency of one hop inside a node."""
    return modelled(constant("pcie_hop_s" if links.fabric == "pcie" else "nvlink_hop_s"), _PER_HOP)


def network_fraction(*, uses_tcp: bool) -> float:
    """Return the part of the line rate that collectives reach."""
    return constant("tcp_fraction" if uses_tcp else "rdma_fraction")


def network_bandwidth(network: Network) -> Figure | None:
    """Return the bus bandwidth between nodes, per node; None if the line rate is unknown."""
    if network.line_rate_bytes_per_s is None:
        return None
    fraction = network_fraction(uses_tcp=network.uses_tcp)
    return modelled(network.line_rate_bytes_per_s * fraction, network.source)


def network_hop_s() -> Figure:
    """Return the latency of one hop between nodes."""
    return modelled(constant("network_hop_s"), _PER_HOP)
