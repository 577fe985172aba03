"""The description of a machine from words in a row of a table or in options of a command line.

Properties that are not stated are taken from the usual machine with these GPUs.
"""

import functools
from typing import NamedTuple

from probes.base.errors import UsageError
from probes.base.record import StrictRecord, quoted
from probes.base.rows import load_rows
from probes.catalogue.gpu_names import parts_of
from probes.catalogue.hardware import Catalogue, GpuModel
from recipes.machine.cluster import assumed_ring, build_cluster, mesh_links, slot_bytes_per_s
from recipes.machine.cluster_records import (
    Cluster,
    Device,
    Fabric,
    MachineDescription,
    Network,
    NodeLinks,
    PcieSlot,
    Transport,
    modelled,
)
from recipes.machine.link_words import (
    domain_of,
    fabric_of,
    inter_bandwidth_of,
    pcie_generation_of,
    transport_of,
)

USUAL_NETWORK = "usual network"
"""First words of the source that is given for an assumed network rate."""
_BRIDGED = 2
"""Number of cards that one NVLink bridge joins."""
_BOARD_WITHOUT_SWITCH = 4
"""Number of SXM modules on a board where NVLinks connect each module with each other module."""
_USUAL_GPUS_PER_NODE = 8
_SAME = 1.15
"""Ratio up to which two sizes of memory are considered equal.

They may differ because of units (GB and GiB), or because one includes the memory that the driver uses.
"""
_NAMED_SAME = 1.1
"""The same for a size in a name, which is the product's: products state 16 GB for 15.0 GiB."""
_LEAST_PORT_GBPS = 100.0
"""Rate of one port in Gb/s, which is assumed if neither the words nor a usual machine state the network."""
_STATED_PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4")
"""Precisions to which a stated peak rate applies."""
_LONGEST_NAME = 60


class Design(StrictRecord, kw_only=True):
    """The machine in which a GPU is usually installed."""

    id: str
    title: str
    fabric: Fabric
    gpus_per_node: int
    domain_gpus: int | None = None
    """Number of GPUs of an NVLink domain that spans nodes."""
    network_gbps: float
    """Total rate of all ports of a node, in one direction."""
    network_ports: int
    transport: Transport
    source: str
    date: str


class NamedGpu(NamedTuple):
    """The GPU that a name means, and its usual machine."""

    row: GpuModel
    design: Design


@functools.lru_cache(maxsize=1)
def load_designs() -> dict[str, Design]:
    """Return all usual machines by id."""
    return {row.id: row for row in load_rows("recipes", "designs", Design)}


@functools.lru_cache(maxsize=4096)
def gpu_named(name: str, memory_gb: float | None, catalogue: Catalogue) -> NamedGpu | None:
    """Return the GPU with this name and its usual machine; None if no row has the name."""
    row = catalogue.gpu_named(name, memory_gb)
    return None if row is None else NamedGpu(row, load_designs()[row.design])


class MachineWords(NamedTuple):
    """Stated properties of a machine; None and blank values are filled from the GPU's usual machine."""

    gpu: str
    gpus: int
    """Total number of GPUs of all nodes."""
    gpus_per_node: int | None = None
    intra: str = ""
    """Link between the GPUs of a node: `NVLink4 NVSwitch`."""
    inter: str = ""
    """The network of a node: `8x NDR InfiniBand`."""
    memory_gb: float | None = None
    peak_tflops: float | None = None
    """Dense matrix rate of a GPU that the catalogue does not know."""
    bandwidth_gb_per_s: float | None = None
    """Memory bandwidth of a GPU that the catalogue does not know, in 1e9 bytes per second."""


@functools.lru_cache(maxsize=2048)
def cluster_from_words(words: MachineWords, catalogue: Catalogue) -> Cluster:
    """Return the machine that the words describe. Raises UsageError as `describe_words` does."""
    return build_cluster(describe_words(words, catalogue))


def describe_words(words: MachineWords, catalogue: Catalogue) -> MachineDescription:
    """Describe the machine that the words state.

    Raises UsageError if the GPU is blank, or in no catalogue row, unless its memory, peak rate and bandwidth
    are stated.
    """
    if not words.gpu.strip():
        raise UsageError("gpu is blank", "give the GPU's name, such as `H100-SXM-80GB`")
    named = gpu_named(words.gpu, words.memory_gb, catalogue)
    if named is None:
        return _stated_machine(words)
    row, design = named
    per_node = min(words.gpus, words.gpus_per_node or design.gpus_per_node)
    return MachineDescription(
        title=f"{words.gpus} x {row.title}",
        device=Device(
            kind="cuda",
            name=row.title,
            rows=(row,),
            memory=modelled(_memory_bytes(words, row), f"catalogue: {row.id}"),
            has_bf16="bf16" in row.peak_flops_per_s,
        ),
        nodes=-(-words.gpus // per_node),
        ranks_per_node=per_node,
        links=_links(words, row, design, per_node),
        network=_network(words, per_node, row, design),
        warnings=_other_memory(words, row),
    )


def _other_memory(words: MachineWords, row: GpuModel) -> tuple[str, ...]:
    """Return a warning if the GPU's name states a memory that no row of this GPU has."""
    stated = parts_of(words.gpu).memory_gb
    if stated is None or 1 / _NAMED_SAME < stated * 1024**3 / row.memory_bytes < _NAMED_SAME:
        return ()
    return (f"gpu {quoted(words.gpu)}: the catalogue has none with {stated:g} GB, {row.title} is assumed",)


def _stated_machine(words: MachineWords) -> MachineDescription:
    """Describe machines with a GPU that only the words describe."""
    peak, bandwidth, memory = words.peak_tflops, words.bandwidth_gb_per_s, words.memory_gb
    if not (peak and bandwidth and memory):
        columns = {"gpu_peak_tflops": peak, "gpu_memory_bandwidth_gb_per_s": bandwidth, "gpu_mem_gb": memory}
        missing = ", ".join(name for name, value in columns.items() if not value)
        raise UsageError(f"gpu {quoted(words.gpu)} is not in the catalogue", f"give {missing}")
    per_node = min(words.gpus, words.gpus_per_node or _USUAL_GPUS_PER_NODE)
    fabric = fabric_of(words.intra) or "pcie"
    rate = modelled(peak * 1e12, "gpu_peak_tflops of the case")
    return MachineDescription(
        title=f"{words.gpus} x {words.gpu[:_LONGEST_NAME]}",
        device=Device(
            kind="cuda",
            name=words.gpu[:_LONGEST_NAME],
            peak_flops_per_s=dict.fromkeys(_STATED_PRECISIONS, rate),
            memory_bandwidth_bytes_per_s=modelled(
                bandwidth * 1e9, "gpu_memory_bandwidth_gb_per_s of the case"
            ),
            memory=modelled(memory * 1024**3, "gpu_mem_gb of the case"),
            has_bf16=True,
        ),
        nodes=-(-words.gpus // per_node),
        ranks_per_node=per_node,
        links=NodeLinks(
            fabric=fabric,
            domain_ranks=domain_of(words.intra),
            assumed_bandwidth=assumed_ring(bandwidth * 1e9, fabric),
        ),
        network=_network(words, per_node),
    )


def _memory_bytes(words: MachineWords, row: GpuModel) -> float:
    """Return the row's memory size, unless another size is stated.

    For a GPU that is one of two dies, a stated size is ignored: some tables give the memory of both dies.
    """
    stated = (words.memory_gb or 0.0) * 1024**3
    if not stated or 1 / _SAME < stated / row.memory_bytes < _SAME or " one of " in row.title:
        return float(row.memory_bytes)
    return stated


def _links(words: MachineWords, row: GpuModel, design: Design, per_node: int) -> NodeLinks:
    fabric = _fabric(words, row, design, per_node)
    links = row.nvlink_count
    if fabric != "nvswitch" and per_node > 1 and not row.nvlink_bridge:
        # Links connect each GPU directly with each other GPU; links to GPUs that are not used are idle.
        links = mesh_links(row, per_node - 1, max(per_node, words.gpus_per_node or design.gpus_per_node) - 1)
    stated = pcie_generation_of(words.intra)
    generation = min(row.pcie_generation, stated) if stated else row.pcie_generation
    return NodeLinks(
        fabric=fabric,
        links=links,
        is_switched=fabric == "nvswitch",
        slot=PcieSlot(generation=generation, width=row.pcie_width),
        domain_ranks=domain_of(words.intra) or design.domain_gpus,
    )


def _fabric(words: MachineWords, row: GpuModel, design: Design, per_node: int) -> Fabric:
    if not row.nvlink_count:
        return "pcie"
    stated = fabric_of(words.intra)
    if stated == "nvswitch":
        return stated
    if stated in ("nvlink", "xgmi") and row.nvlink_bridge:
        # A bridge joins two cards; a ring over more cards must also use PCIe.
        joins_four = per_node <= _BOARD_WITHOUT_SWITCH and "4-way" in words.intra
        return stated if per_node <= _BRIDGED or joins_four else "pcie"
    is_small_board = words.gpus_per_node == _BOARD_WITHOUT_SWITCH and design.domain_gpus is None
    return "nvlink" if design.fabric == "nvswitch" and is_small_board else design.fabric


def _network(
    words: MachineWords, per_node: int, row: GpuModel | None = None, design: Design | None = None
) -> Network:
    """Return the stated network of a node, else the network of the usual machine, else one port."""
    transport = transport_of(words.inter)
    ports, usual_gbps, usual = 1, _LEAST_PORT_GBPS, "one port"
    if design is not None:
        # A node with fewer GPUs than the usual machine has proportionally fewer ports.
        share = round(design.network_ports * per_node / design.gpus_per_node)
        ports = min(design.network_ports, max(1, share))
        usual_gbps, usual = design.network_gbps * ports / design.network_ports, design.title
        if transport == "ethernet" != design.transport:
            # Ethernet without RDMA is not the compute network of a usual machine with these GPUs.
            usual_gbps, usual = min(usual_gbps, _LEAST_PORT_GBPS), "one port of Ethernet"
        transport = design.transport if transport == "unknown" else transport
    whole = words.gpus_per_node or (design.gpus_per_node if design is not None else per_node)
    line_rate, source = inter_bandwidth_of(words.inter, whole, ports), "network, stated"
    if line_rate is None:
        line_rate, source = usual_gbps / 8 * 1e9, f"{USUAL_NETWORK}, {usual}"
    if row is not None and design is not None and per_node < design.gpus_per_node:
        # The limit of each GPU is its part of the usual ports, or its slot if the slot is faster.
        slot = slot_bytes_per_s(PcieSlot(generation=row.pcie_generation, width=row.pcie_width))
        line_rate = min(line_rate, per_node * max(slot, design.network_gbps / design.gpus_per_node / 8 * 1e9))
    return Network(
        transport=transport,
        line_rate_bytes_per_s=line_rate,
        uses_tcp=transport == "ethernet",
        source=f"{source}: {line_rate * 8 / 1e9:g} Gb/s",
    )
