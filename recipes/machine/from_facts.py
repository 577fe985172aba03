"""The description of a machine that was probed, or of a catalogue machine, which has the same kind of facts.

If a machine has different kinds of GPUs, the plan uses the lowest figures of all kinds. GPUs that MIG splits
are left out.
"""

import msgspec

from probes.base.errors import UsageError
from probes.base.record import Unknown, items_of, known, value_or
from probes.base.units import plural
from probes.catalogue.hardware import Catalogue, GpuModel
from probes.facts import Gpu, MachineFacts
from probes.facts.measurements import Measurement
from probes.judging.rails import candidate_interfaces, meeting_interface, training_ports
from probes.judging.reporting import accelerator_words
from recipes.machine.cluster import build_cluster, network_fraction, slot_bytes_per_s
from recipes.machine.cluster_records import (
    Cluster,
    Device,
    Fabric,
    Figure,
    MachineDescription,
    Network,
    NodeLinks,
    PcieSlot,
    Transport,
)
from recipes.machine.degraded import lanes_warning, missing_links, slow_links, slow_ports
from recipes.machine.from_words import load_designs
from recipes.machine.ranks import cores_per_rank, default_ranks, training_gpus

_PAIR = 2
_BF16_CAPABILITY = (8, 0)
"""Ampere, the first NVIDIA architecture with bf16 tensor cores."""


def cluster_from_facts(
    facts: MachineFacts,
    measurements: tuple[Measurement, ...],
    catalogue: Catalogue,
    *,
    nodes: int = 1,
    ranks_per_node: int | None = None,
) -> Cluster:
    """Return a cluster of `nodes` machines equal to this machine, with the measurements on this machine.

    Raises UsageError for a number of nodes or ranks that the machine cannot have.
    """
    return build_cluster(
        describe_facts(facts, catalogue, nodes=nodes, ranks_per_node=ranks_per_node), measurements
    )


def describe_facts(
    facts: MachineFacts, catalogue: Catalogue, *, nodes: int = 1, ranks_per_node: int | None = None
) -> MachineDescription:
    """Describe `nodes` machines equal to this machine: one rank per GPU, or per share of the CPU.

    Raises UsageError for a number of nodes or ranks that the machine cannot have.
    """
    ranks = default_ranks(facts) if ranks_per_node is None else ranks_per_node
    for count, what in ((nodes, "nodes"), (ranks, "ranks per node")):
        if count < 1:
            raise UsageError(f"{count} {what} are too few", "give at least 1")
    gpus = training_gpus(facts)
    if gpus and ranks > len(gpus):
        raise UsageError(
            f"{plural(ranks, 'rank')} per node, but the machine has {plural(len(gpus), 'usable GPU')}",
            f"give at most {len(gpus)}",
        )
    host = facts.hostname if known(facts.hostname) and facts.hostname else facts.source or "this machine"
    device = _gpu_device(facts, gpus, ranks, catalogue) if gpus else _cpu_device(facts, ranks)
    network, from_network = _limited(network_of(facts), facts, gpus)
    links, from_links = (
        _gpu_links(facts, gpus, ranks, device.rows) if gpus else (NodeLinks(fabric="host"), ())
    )
    warnings = (*_gpu_warnings(facts, gpus, catalogue), *from_links) if gpus else _cpu_warnings(facts)
    ranks_words = f"{ranks} x {device.name}" if gpus else f"{plural(ranks, 'CPU rank')}, {device.name}"
    return MachineDescription(
        title=f"{nodes} x {host}: {ranks_words}" if nodes > 1 else f"{host}: {ranks_words}",
        host=host,
        device=device,
        nodes=nodes,
        ranks_per_node=ranks,
        links=links,
        network=network,
        warnings=(*warnings, *(from_network if nodes > 1 else ())),
    )


def _names(gpus: tuple[Gpu, ...]) -> list[str]:
    return sorted({gpu.name if known(gpu.name) else "unknown GPU" for gpu in gpus})


def _gpu_device(facts: MachineFacts, gpus: tuple[Gpu, ...], ranks: int, catalogue: Catalogue) -> Device:
    rows = tuple(row for name in _names(gpus) if (row := catalogue.gpu(name)) is not None)
    memory = [gpu.memory_bytes for gpu in gpus if known(gpu.memory_bytes)]
    source = "GPU memory that the driver reports, minus the driver's own part"
    return Device(
        kind="cuda",
        name=" / ".join(_names(gpus)),
        rows=rows if len(rows) == len(_names(gpus)) else (),
        memory=Figure(value=min(memory), basis="measured", source=source)
        if len(memory) == len(gpus)
        else None,
        has_bf16=all(has_bf16(gpu, catalogue) for gpu in gpus),
        cores_per_rank=_known_cores(facts, ranks),
    )


def _gpu_warnings(facts: MachineFacts, gpus: tuple[Gpu, ...], catalogue: Catalogue) -> list[str]:
    names, split = _names(gpus), len(items_of(facts.gpus)) - len(gpus)
    unknown = [name for name in names if catalogue.gpu(name) is None]
    warnings = (
        (
            len(names) > 1,
            f"GPUs of different kinds ({', '.join(names)}): planned with the lowest figures of all kinds",
        ),
        (
            split > 0,
            f"the plan omits {plural(split, 'GPU')} in MIG mode: ranks cannot communicate between slices",
        ),
        (
            unknown,
            f"{', '.join(unknown)} is not in the catalogue: without `rigtune bench` there is no step time",
        ),
    )
    return [words for holds, words in warnings if holds]


def _cpu_device(facts: MachineFacts, ranks: int) -> Device:
    return Device(
        kind="cpu",
        name=str(facts.cpu.model) if known(facts.cpu.model) else "CPU",
        memory=_host_memory_per_rank(facts, ranks),
        has_bf16=False,
        cores_per_rank=_known_cores(facts, ranks),
    )


def _cpu_warnings(facts: MachineFacts) -> list[str]:
    if others := accelerator_words(facts):
        return [f"{others} cannot be used: rigtune plans only for NVIDIA GPUs, so this plan is for the CPU"]
    if isinstance(facts.gpus, Unknown):
        return [f"GPUs are {facts.gpus}: planned for the CPU"]
    split = "all GPUs are in MIG mode, and ranks cannot communicate between slices: planned for the CPU"
    return [split] if facts.gpus else []


def _host_memory_per_rank(facts: MachineFacts, ranks: int) -> Figure | None:
    """Return one rank's equal share of the free memory, or of the cgroup's limit if the limit is lower."""
    memory = facts.memory
    available = value_or(memory.available_bytes, value_or(memory.total_bytes, None))
    bounds = [float(bound) for bound in (available, value_or(memory.limit_bytes, None)) if bound is not None]
    if not bounds:
        return None
    source = f"available host memory or its limit, over {plural(ranks, 'rank')}"
    return Figure(value=min(bounds) / ranks, basis="measured", source=source)


def _known_cores(facts: MachineFacts, ranks: int) -> int | None:
    """Return the physical cores for each rank; None if neither cores nor CPUs are known."""
    is_counted = known(facts.cpu.physical_cores) or known(facts.cpu.logical_cpus)
    return cores_per_rank(facts, ranks) if is_counted else None


def has_bf16(gpu: Gpu, catalogue: Catalogue) -> bool:
    """Return whether the GPU multiplies bf16; False if neither the driver nor the catalogue states it."""
    row = catalogue.gpu(gpu.name) if known(gpu.name) else None
    major, _, minor = value_or(gpu.compute_capability, "").partition(".")
    if major.isdigit() and minor.isdigit():
        return (int(major), int(minor)) >= _BF16_CAPABILITY
    return row is not None and "bf16" in row.peak_flops_per_s


def _gpu_links(
    facts: MachineFacts, gpus: tuple[Gpu, ...], ranks: int, rows: tuple[GpuModel, ...]
) -> tuple[NodeLinks, tuple[str, ...]]:
    """Return the links between the GPUs, and warnings about links that are slow or missing."""
    pairs = _gpu_pairs(facts)
    fewest = min((count for _, count in pairs if count), default=0)
    all_links = min((row.nvlink_count for row in rows), default=0)
    row = rows[0] if len(rows) == 1 else None
    slow = slow_links(gpus, row)
    links = fewest or all_links
    fabric = "pcie" if slow.links == 0 else _fabric(pairs, fewest, rows, len(gpus))
    # Without a switch, each pair has its own links. If a GPU has too few links for this, they lead to a
    # switch.
    is_switched = fabric == "nvswitch" or links * (len(gpus) - 1) > all_links
    if is_switched and slow.links is not None:
        links = min(links, slow.links)
    # A listing of the PCI bus shows no NVLinks.
    sees = any(link.sees_nvlink or link.kind == "NVLINK" for link in items_of(facts.links))
    design = load_designs().get(row.design) if sees and row is not None else None
    is_usual = design is not None and design.fabric == "nvswitch"
    # A single GPU sends nothing to others.
    lanes = lanes_warning(gpus) if len(gpus) > 1 else ""
    warnings = (lanes, *slow.warnings, missing_links(pairs, row, is_usual=is_usual))
    described = NodeLinks(
        fabric=fabric,
        links=min(links, all_links) if is_switched else links * max(1, ranks - 1),
        is_switched=is_switched,
        rate_share=slow.rate_share,
        slot=_slowest_slot(gpus, row),
        crosses_sockets=any(kind == "SYS" for kind, _ in pairs),
    )
    return described, tuple(words for words in warnings if words)


def _gpu_pairs(facts: MachineFacts) -> list[tuple[str, int]]:
    """Return the kind of every connection between two GPUs, and its number of NVLinks."""
    links = facts.links if known(facts.links) else ()
    between = [link for link in links if link.a.startswith("GPU") and link.b.startswith("GPU")]
    return [(link.kind if known(link.kind) else "", link.nvlink_count or 0) for link in between]


def _fabric(pairs: list[tuple[str, int]], fewest: int, rows: tuple[GpuModel, ...], gpus: int) -> Fabric:
    """Return the kind of links: a switch if the GPUs have too few links for each pair to have its own.

    A machine with two GPUs has a switch if all links join the two and are not bridges. If a pair of GPUs has
    no NVLink, a ring over the GPUs must use PCIe.
    """
    if not pairs or any(kind != "NVLINK" for kind, _ in pairs):
        return "pcie"
    if any(row.link_kind == "xgmi" for row in rows):
        return "xgmi"
    is_switched = rows and all(
        not row.nvlink_bridge and 0 < row.nvlink_count < fewest * (gpus - 1) + (gpus == _PAIR) for row in rows
    )
    return "nvswitch" if is_switched else "nvlink"


def _slowest_slot(gpus: tuple[Gpu, ...], row: GpuModel | None) -> PcieSlot | None:
    """Return the slowest slot among the GPUs; None if a slot is unknown both to the facts and to the
    catalogue.
    """
    slots = []
    for gpu in gpus:
        generation = value_or(gpu.pcie.generation_max, row.pcie_generation if row else None)
        width = value_or(gpu.pcie.width, row.pcie_width if row else None)
        if generation is None or not width:
            return None
        slots.append(PcieSlot(generation=generation, width=width))
    return min(slots, key=slot_bytes_per_s)


def _limited(network: Network, facts: MachineFacts, gpus: tuple[Gpu, ...]) -> tuple[Network, tuple[str, ...]]:
    """Return the network with the limits that missing PCIe lanes set, and warnings about slow ports."""
    slow, rate = slow_ports(facts, gpus), network.line_rate_bytes_per_s
    ports = items_of(training_ports(facts))
    if rate is None:
        return network, slow.warnings
    limits = (
        slow.node_limit_bytes_per_s,
        slow.port_limit_bytes_per_s and slow.port_limit_bytes_per_s * len(ports),
    )
    limit = min((each for each in limits if each), default=rate)
    if limit >= rate or network.uses_tcp:
        return network, slow.warnings
    source = f"{network.source}, at most {limit * 8 / 1e9:.4g} Gb/s over the PCIe lanes in use"
    return msgspec.structs.replace(network, line_rate_bytes_per_s=limit, source=source), slow.warnings


def network_of(facts: MachineFacts) -> Network:
    """Describe the network that training uses between nodes: all training ports, or sockets over one
    interface.
    """
    ports, interfaces = training_ports(facts), candidate_interfaces(facts)
    if isinstance(ports, Unknown):
        return Network(transport="unknown")
    layers = {port.link_layer for port in ports}
    transport: Transport = "unknown"
    if ports and all(port.device_type == "efa" for port in ports):
        transport = "efa"
    elif layers and all(known(layer) for layer in layers):
        transport = "infiniband" if layers == {"InfiniBand"} else "roce"
    elif not layers and items_of(interfaces):
        transport = "ethernet"
    rates = [port.rate_gbps for port in ports if known(port.rate_gbps)]
    if len(rates) < len(ports):
        return Network(transport=transport)
    if rates:
        source = f"{len(rates)} x {rates[0]:g} Gb/s RDMA x {network_fraction(uses_tcp=False):g}"
        return Network(transport=transport, line_rate_bytes_per_s=sum(rates) / 8 * 1e9, source=source)
    interface = meeting_interface(facts)
    if interface is None or not known(interface.speed_gbps) or interface.speed_gbps <= 0:
        return Network(transport=transport)
    fraction = network_fraction(uses_tcp=True)
    return Network(
        transport=transport,
        line_rate_bytes_per_s=interface.speed_gbps / 8 * 1e9,
        uses_tcp=True,
        source=f"TCP over {interface.name}, {interface.speed_gbps:g} Gb/s x {fraction:g}",
    )
