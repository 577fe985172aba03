"""Bandwidth and latency between the ranks of a machine and between machines."""

from __future__ import annotations

from probes.base.record import Unknown, known, value_or
from probes.catalogue.hardware import GpuModel
from probes.facts import Gpu, MachineFacts
from probes.facts.measurements import Measurement
from probes.judging.rails import candidate_interfaces, meeting_interface, training_ports
from recipes.constants import constant
from recipes.machine.measured_rates import all_reduces, measured_host_bandwidth
from recipes.planning.plan import Fabric, Figure, Transport

PCIE_LANE_BYTES_PER_S = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""One lane, one direction, by generation, after line coding (PCI-SIG base specifications)."""


def intra_bandwidth(
    facts: MachineFacts,
    gpus: tuple[Gpu, ...],
    rows: tuple[GpuModel | None, ...],
    measurements: tuple[Measurement, ...],
    ranks: int,
) -> Figure | None:
    """All-reduce bus bandwidth over the ranks of one node; measured, else from NVLink or PCIe."""
    curve = all_reduces(measurements, "bus_bandwidth_bytes_per_s", ranks)
    if curve:
        best = max(curve, key=lambda measurement: measurement.median)
        return Figure(
            value=best.median,
            basis="measured",
            source=f"benchmark collectives, all-reduce over {ranks} ranks, best size",
        )
    if not gpus:
        return None
    return _nvlink_bandwidth(facts, gpus, rows) or _pcie_bandwidth(facts, gpus, rows, measurements)


def _gpu_pairs(facts: MachineFacts) -> list[tuple[str, int]]:
    """Kind and NVLink count of every link between two GPUs."""
    links = facts.links if known(facts.links) else ()
    between = [link for link in links if link.a.startswith("GPU") and link.b.startswith("GPU")]
    return [(link.kind if known(link.kind) else "", link.nvlink_count or 0) for link in between]


def _joined_by_nvlink(facts: MachineFacts) -> bool:
    """True when every pair of GPUs has NVLink; a ring over pair bridges still crosses PCIe."""
    pairs = _gpu_pairs(facts)
    return bool(pairs) and all(kind == "NVLINK" for kind, _ in pairs)


def intra_fabric(facts: MachineFacts, rows: tuple[GpuModel | None, ...]) -> Fabric:
    """What joins the GPUs of a node: a switch where every pair has all of a GPU's links, and those are no
    bridges.
    """
    if not _joined_by_nvlink(facts):
        return "pcie"
    known_rows = [row for row in rows if row is not None]
    if any(row.link_kind == "xgmi" for row in known_rows):
        return "xgmi"
    fewest = min((count for _, count in _gpu_pairs(facts) if count), default=0)
    switched = known_rows and all(
        0 < row.nvlink_count <= fewest and not row.nvlink_bridge for row in known_rows
    )
    return "nvswitch" if switched else "nvlink"


def inter_transport(facts: MachineFacts) -> Transport:
    """Return the network between nodes: the RDMA ports that train where there are some, else the network
    interface.
    """
    ports, interfaces = training_ports(facts), candidate_interfaces(facts)
    if isinstance(ports, Unknown) or not all(known(port.link_layer) for port in ports):
        return "unknown"
    if ports:
        return "infiniband" if {port.link_layer for port in ports} == {"InfiniBand"} else "roce"
    return "ethernet" if known(interfaces) and interfaces else "unknown"


def _nvlink_bandwidth(
    facts: MachineFacts, gpus: tuple[Gpu, ...], rows: tuple[GpuModel | None, ...]
) -> Figure | None:
    known_rows = [row for row in rows if row is not None]
    if not _joined_by_nvlink(facts) or len(known_rows) != len(rows):
        return None
    row = min(known_rows, key=lambda one: one.nvlink_count * one.nvlink_bandwidth_bytes_per_s)
    fewest = min((count for _, count in _gpu_pairs(facts) if count), default=row.nvlink_count)
    part = min(1.0, fewest / row.nvlink_count) if row.nvlink_count else 1.0
    if row.ring_bus_bandwidth_bytes_per_s is not None:
        value = row.ring_bus_bandwidth_bytes_per_s * part
        return Figure(value=value, basis="modelled", source=f"catalogue: {row.id}, measured ring all-reduce")
    value = constant("nvlink_fraction") * row.nvlink_count * row.nvlink_bandwidth_bytes_per_s * part
    if value <= 0:
        return None
    return Figure(
        value=value,
        basis="modelled",
        source=f"catalogue: {row.id}, {fewest} NVLinks x {constant('nvlink_fraction'):g}",
    )


def _pcie_bandwidth(
    facts: MachineFacts,
    gpus: tuple[Gpu, ...],
    rows: tuple[GpuModel | None, ...],
    measurements: tuple[Measurement, ...],
) -> Figure | None:
    rates = []
    for gpu in gpus:
        row = next((one for one in rows if one is not None), None) if len(rows) == 1 else None
        generation = value_or(gpu.pcie.generation_max, row.pcie_generation if row else None)
        width = value_or(gpu.pcie.width, row.pcie_width if row else None)
        lane = PCIE_LANE_BYTES_PER_S.get(generation) if generation is not None else None
        if lane is None or not width:
            return None
        rates.append(lane * width)
    value = constant("pcie_fraction") * min(rates)
    source = f"PCIe {min(rates) / 1e9:.3g} GB/s of the slowest GPU x {constant('pcie_fraction'):g}"
    copies = measured_host_bandwidth(measurements)
    if copies is not None and copies.value < value:
        return copies
    if any(kind == "SYS" for kind, _ in _gpu_pairs(facts)) and constant("socket_link_bytes_per_s") < value:
        value, source = (
            constant("socket_link_bytes_per_s"),
            "link between the CPU sockets, by NCCL's own topology model",
        )
    return Figure(value=value, basis="modelled", source=source)


def intra_latency(facts: MachineFacts, measurements: tuple[Measurement, ...], ranks: int) -> Figure | None:
    """One hop inside the node: the smallest measured all-reduce over its hops, else NCCL's figure for the
    link.
    """
    times = all_reduces(measurements, "collective_time_s", ranks)
    if times and ranks > 1:
        value = times[0].median / (2 * (ranks - 1))
        return Figure(
            value=value,
            basis="measured",
            source=f"benchmark collectives, all-reduce over {ranks} ranks, smallest size",
        )
    gpus = facts.gpus if known(facts.gpus) else ()
    if not gpus:
        return None
    row = "nvlink_hop_s" if _joined_by_nvlink(facts) else "pcie_hop_s"
    return Figure(value=constant(row), basis="modelled", source="NCCL's tuner, per hop")


def inter_bandwidth(facts: MachineFacts) -> Figure | None:
    """Return the bus bandwidth between nodes: all training ports together, or TCP over the interface of the
    default route.

    None where the training ports or their rates are unknown.
    """
    ports = training_ports(facts)
    if isinstance(ports, Unknown):
        return None
    rates = [port.rate_gbps for port in ports if known(port.rate_gbps)]
    if len(rates) < len(ports):
        return None
    if rates:
        value = sum(rates) / 8 * 1e9 * constant("rdma_fraction")
        source = f"{len(rates)} x {rates[0]:g} Gb/s RDMA x {constant('rdma_fraction'):g}"
        return Figure(value=value, basis="modelled", source=source)
    interface = meeting_interface(facts)
    if interface is None or not known(interface.speed_gbps) or interface.speed_gbps <= 0:
        return None
    value = interface.speed_gbps / 8 * 1e9 * constant("tcp_fraction")
    return Figure(
        value=value,
        basis="modelled",
        source=f"TCP over {interface.name}, {interface.speed_gbps:g} Gb/s x {constant('tcp_fraction'):g}",
    )


def inter_latency() -> Figure:
    """One hop between nodes."""
    return Figure(value=constant("network_hop_s"), basis="modelled", source="NCCL's tuner, per hop")
