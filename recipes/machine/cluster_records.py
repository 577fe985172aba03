"""The machine as the models use it, its measurements, and the description that it is built from.

A description states the parts of a machine. Rates and bandwidths follow in `recipes.machine.cluster` alone.
"""

from __future__ import annotations

from typing import Literal

from probes.base.record import Record
from probes.bench.latency_bandwidth import Fit
from probes.catalogue.hardware import GpuModel
from recipes.job.candidate import ActivationCheckpointing

Basis = Literal["measured", "modelled", "rule", "user"]
"""`measured` on this machine, `modelled` from formulas and catalogue rows, `rule` of the field, or pinned by
the `user`.
"""

Fabric = Literal["nvswitch", "nvlink", "pcie", "xgmi", "host", "unknown"]
"""Link between the ranks of a node: a switch of NVLinks, single NVLinks, PCIe, AMD's links, or a CPU's
memory.
"""
Transport = Literal["infiniband", "roce", "efa", "tcpxo", "ethernet", "unknown"]
"""Transport between nodes: RDMA over InfiniBand or Ethernet, the transports of AWS and Google, or TCP."""


class Figure(Record, kw_only=True):
    """A number that a prediction rests on, with its source."""

    value: float
    basis: Basis
    source: str


class StepAnchor(Record, kw_only=True):
    """A training step measured on this machine.

    Predictions of other steps are scaled by its ratio to the model.
    """

    model: str
    """Id of the preset that was trained."""
    strategy: str
    micro_batch: int
    grad_accum: int
    sequence_length: int
    precision: str
    world_size: int
    activation_checkpointing: ActivationCheckpointing
    threads: int = 0
    """Threads of each rank's CPU work; 0 if unknown."""
    step_time_s: float
    low_s: float
    high_s: float
    source: str


class ImageAnchor(Record, kw_only=True):
    """A training step of the reference network on images, measured on this machine with data parallelism."""

    model: str
    micro_batch: int
    image_size: int
    precision: str
    world_size: int
    threads: int = 0
    step_time_s: float
    source: str


class AttentionRate(Record, kw_only=True):
    """Rate of fused causal attention measured on this machine.

    The benchmark `attention` defines which FLOPs count.
    """

    precision: str
    backward: bool
    sequence_length: int
    head_dim: int
    flops_per_s: float


class Cluster(Record, kw_only=True):
    """The machine as the models see it.

    Rates are per rank; one rank drives one GPU, or a share of the CPU.
    """

    title: str
    device: Literal["cuda", "cpu"]
    device_name: str
    gpu: str = ""
    """Id of the catalogue row; empty if there is none."""
    architecture: str = ""
    """Architecture from the catalogue row, such as `hopper`."""
    fabric: Fabric = "unknown"
    domain_ranks: int | None = None
    """Ranks of an NVLink domain that spans nodes (72); None if the domain ends with the node."""
    transport: Transport = "unknown"
    nodes: int
    ranks_per_node: int
    memory_bytes_per_rank: Figure | None
    """Memory that one rank may fill."""
    flops_per_s: dict[str, Figure] = {}
    """Achievable GEMM rate by precision."""
    peak_flops_per_s: dict[str, Figure] = {}
    """Datasheet rate by precision, for MFU alone."""
    memory_bandwidth_bytes_per_s: Figure | None = None
    attention_rates: tuple[AttentionRate, ...] = ()
    hidden_communication: Figure | None = None
    """Part of the gradients' reduction that was measured to run beside the backward pass.

    Negative if both slow down.
    """
    intra_bus_bandwidth_bytes_per_s: Figure | None = None
    """All-reduce bus bandwidth within a node, for large messages."""
    intra_latency_s: Figure | None = None
    collective_fits: dict[str, Fit] = {}
    """Duration of each collective over all ranks of a node by its size, as measured here."""
    inter_bus_bandwidth_bytes_per_s: Figure | None = None
    """All-reduce bus bandwidth across nodes, per node, if every rank of the node takes part."""
    inter_latency_s: Figure | None = None
    noise_scale_sequences: Figure | None = None
    """Measured gradient noise scale of the user's own training step."""
    data_loader_workers: Figure | None = None
    """DataLoader workers per rank that were measured to be enough with as many ranks per node."""
    reads_per_s: Figure | None = None
    """Requests of 128 KiB at random places that the data's storage answers to one node."""
    loaded_samples_per_s: Figure | None = None
    """Samples per second that one rank's DataLoader workers were measured to deliver, with as many ranks per
    node.
    """
    physical_cores_per_rank: int | None = None
    has_bf16: bool = False
    """The device multiplies bf16 natively (compute capability 8.0 or newer); False if this is unknown."""
    anchors: tuple[StepAnchor, ...] = ()
    image_anchors: tuple[ImageAnchor, ...] = ()
    warnings: tuple[str, ...] = ()
    """Facts that the description of the machine leaves out or averages away."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node


def modelled(value: float, source: str) -> Figure:
    """Return a figure that follows from a formula or a catalogue row."""
    return Figure(value=value, basis="modelled", source=source)


class Device(Record, kw_only=True):
    """Processor of each rank: GPUs of catalogue rows, a GPU with stated rates, or a share of the CPU."""

    kind: Literal["cuda", "cpu"]
    name: str
    rows: tuple[GpuModel, ...] = ()
    """One row for each kind of GPU; empty if the catalogue lacks one of them."""
    peak_flops_per_s: dict[str, Figure] = {}
    """Stated rates of a GPU without a row."""
    memory_bandwidth_bytes_per_s: Figure | None = None
    """Stated bandwidth of a GPU without a row."""
    memory: Figure | None
    """Memory of the smallest GPU, with what the driver keeps; on a CPU the memory that one rank may fill."""
    has_bf16: bool
    cores_per_rank: int | None = None

    @property
    def row(self) -> GpuModel | None:
        """The catalogue row, if all GPUs are of one kind and it has one."""
        return self.rows[0] if len(self.rows) == 1 else None


class PcieSlot(Record, kw_only=True):
    """A PCIe slot."""

    generation: int
    width: int


class NodeLinks(Record, kw_only=True):
    """Links between the ranks of one node."""

    fabric: Fabric
    links: int = 0
    """NVLinks, or links like them, of one GPU that a ring over the ranks uses."""
    is_switched: bool = False
    """Whether a switch leads these links to every other GPU."""
    slot: PcieSlot | None = None
    """The slowest slot of a GPU; None if unknown."""
    crosses_sockets: bool = False
    """Whether some GPUs reach each other only through the link between the CPU sockets."""
    assumed_bandwidth: Figure | None = None
    """Bus bandwidth of a ring of GPUs whose links are unknown."""
    domain_ranks: int | None = None
    """Ranks of an NVLink domain that spans nodes."""


class Network(Record, kw_only=True):
    """Network between nodes."""

    transport: Transport = "unknown"
    line_rate_bytes_per_s: float | None = None
    """Line rate of all training ports of a node together, one direction."""
    uses_tcp: bool = False
    """Whether sockets carry the traffic, because there is no RDMA port with a known rate."""
    source: str = ""


class MachineDescription(Record, kw_only=True):
    """A number of like machines, and how many ranks each has."""

    title: str
    device: Device
    nodes: int
    ranks_per_node: int
    links: NodeLinks
    network: Network
    warnings: tuple[str, ...] = ()
    """Facts that the description leaves out or averages away."""
