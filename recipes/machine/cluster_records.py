"""Records of a machine: its parts (`MachineDescription`), and the rates that predictions use (`Cluster`).

Only `recipes.machine.cluster` derives rates and bandwidths from the description of the parts.
"""

from typing import Literal

import msgspec

from probes.base.record import Record
from probes.bench.latency_bandwidth import Fit
from probes.catalogue.hardware import GpuModel, Vendor
from recipes.job.candidate import ActivationCheckpointing

Basis = Literal["measured", "modelled", "published", "borrowed", "rule", "user"]
"""Origin of a value: `measured` on this machine, `modelled` from formulas and catalogue rows, `published` for
this model, `borrowed` from another model, taken from a `rule` of thumb, or fixed by the `user`.
"""

Fabric = Literal["nvswitch", "nvlink", "pcie", "xgmi", "host", "unknown"]
"""Link between the ranks of a node. `nvswitch`: a switch of NVLinks. `nvlink`: direct NVLinks. `xgmi`: AMD's
links. `host`: the memory of a CPU.
"""
Transport = Literal["infiniband", "roce", "efa", "tcpxo", "ethernet", "unknown"]
"""Transport between nodes. `infiniband` and `roce`: RDMA over InfiniBand or Ethernet. `efa` and `tcpxo`: the
transports of AWS and Google. `ethernet`: TCP.
"""


class Figure(Record, kw_only=True):
    """A number from which predictions are computed, with its source."""

    value: float
    basis: Basis
    source: str

    def times(self, factor: float) -> "Figure":
        """Return the figure with `factor` times its value."""
        return msgspec.structs.replace(self, value=self.value * factor)


class StepAnchor(Record, kw_only=True):
    """A training step measured on this machine.

    Predictions of other steps are scaled by the ratio of this step's measured time to its modelled time.
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
    """Number of threads of each rank's CPU work; 0 if unknown."""
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
    """The machine in the form from which time and memory are predicted.

    Rates are per rank; one rank drives one GPU, or a share of the CPU.
    """

    title: str
    host: str = ""
    """Host name of the machine; if it is unknown, the title of the source of its facts or `this machine`.

    The name is empty if options such as `--gpu` describe the machine.
    """
    device: Literal["cuda", "cpu"]
    device_name: str
    gpu: str = ""
    """Id of the catalogue row; empty on a CPU, for GPUs of several kinds, and if the catalogue has no row."""
    vendor: Vendor = "nvidia"
    """Vendor from the catalogue row; a GPU without a row is treated as NVIDIA's, whose tools describe it."""
    architecture: str = ""
    """Architecture from the catalogue row, such as `hopper`; empty if `gpu` is."""
    fabric: Fabric = "unknown"
    domain_ranks: int | None = None
    """Number of ranks of an NVLink domain that spans nodes (72); None if no domain spans nodes."""
    transport: Transport = "unknown"
    nodes: int
    ranks_per_node: int
    memory_bytes_per_rank: Figure | None = None
    """Memory that one rank may fill."""
    flops_per_s: dict[str, Figure] = {}
    """Achievable GEMM rate by precision."""
    peak_flops_per_s: dict[str, Figure] = {}
    """Datasheet or stated rate by precision, the basis of modelled rates and of the MFU (model FLOPs
    utilization).
    """
    memory_bandwidth_bytes_per_s: Figure | None = None
    attention_rates: tuple[AttentionRate, ...] = ()
    attention_factor: float = 1.0
    """Factor on the rate of attention; only what-if questions change it."""
    hidden_communication: Figure | None = None
    """Measured overlap of the gradients' reduction and the computation, as a fraction of the shorter of the
    two times.

    The value is negative if running both at the same time takes longer than running them one after the other.
    """
    intra_bus_bandwidth_bytes_per_s: Figure | None = None
    """All-reduce bus bandwidth within a node, for large messages."""
    intra_latency_s: Figure | None = None
    collective_fits: dict[str, Fit] = {}
    """Duration of each collective over all ranks of a node as a function of its size, measured on this
    machine.
    """
    inter_bus_bandwidth_bytes_per_s: Figure | None = None
    """All-reduce bus bandwidth across nodes, per node, if every rank of the node takes part."""
    inter_latency_s: Figure | None = None
    noise_scale_sequences: Figure | None = None
    """Measured gradient noise scale of the user's own training step."""
    data_loader_workers: Figure | None = None
    """Measured number of DataLoader workers per rank that is enough at the cluster's ranks per node."""
    reads_per_s: Figure | None = None
    """Random reads of 128 KiB per second that the data's storage delivers to one node."""
    write_bytes_per_s: Figure | None = None
    """Measured rate at which one node writes large files to the data's storage."""
    loaded_samples_per_s: Figure | None = None
    """Measured samples per second of one rank's DataLoader workers, at the cluster's ranks per node."""
    physical_cores_per_rank: int | None = None
    has_bf16: bool = False
    """True if all GPUs multiply bf16 natively (compute capability 8.0 or newer; assumed for a GPU with stated
    rates), or if a CPU was measured to be faster in bf16 than in fp32; False if unknown.
    """
    anchors: tuple[StepAnchor, ...] = ()
    image_anchors: tuple[ImageAnchor, ...] = ()
    warnings: tuple[str, ...] = ()
    """Assumptions about the machine, its slow or missing parts, and disturbed measurements."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node


def modelled(value: float, source: str) -> Figure:
    """Return a figure that comes from a formula, a catalogue row or a row of a table of cases."""
    return Figure(value=value, basis="modelled", source=source)


class Device(Record, kw_only=True):
    """Processor of each rank: GPUs of catalogue rows, a GPU with stated rates, or a share of the CPU."""

    kind: Literal["cuda", "cpu"]
    name: str
    rows: tuple[GpuModel, ...] = ()
    """One row for each kind of GPU; empty on a CPU, and if the catalogue lacks a kind."""
    peak_flops_per_s: dict[str, Figure] = {}
    """Stated rates of a GPU without a row."""
    memory_bandwidth_bytes_per_s: Figure | None = None
    """Stated bandwidth of a GPU without a row."""
    memory: Figure | None
    """Memory of the smallest GPU, including the driver's part; on a CPU the memory that one rank may fill."""
    has_bf16: bool
    cores_per_rank: int | None = None

    @property
    def row(self) -> GpuModel | None:
        """The catalogue row, if all GPUs are of one kind and the catalogue has this kind."""
        return self.rows[0] if len(self.rows) == 1 else None


class PcieSlot(Record, kw_only=True):
    """A PCIe slot."""

    generation: int
    width: int


class NodeLinks(Record, kw_only=True):
    """Links between the ranks of one node."""

    fabric: Fabric
    links: int = 0
    """Number of a GPU's NVLinks (or similar links) that a ring over the ranks uses."""
    is_switched: bool = False
    """True if a switch connects these links to every other GPU."""
    rate_share: float = 1.0
    """Rate of the slowest NVLink divided by its usual rate; 1 if no link is below the checks' limit."""
    slot: PcieSlot | None = None
    """The slowest slot among the GPUs; None if unknown."""
    crosses_sockets: bool = False
    """True if some GPUs reach each other only through the link between the CPU sockets."""
    assumed_bandwidth: Figure | None = None
    """Bus bandwidth of a ring of GPUs whose links are unknown."""
    domain_ranks: int | None = None
    """Number of ranks of an NVLink domain that spans nodes."""


class Network(Record, kw_only=True):
    """Network between nodes."""

    transport: Transport = "unknown"
    line_rate_bytes_per_s: float | None = None
    """Total line rate of the training ports of a node, in one direction."""
    uses_tcp: bool = False
    """True if the traffic uses TCP sockets, because no RDMA port carries it."""
    source: str = ""


class MachineDescription(Record, kw_only=True):
    """A number of equal machines, and the number of ranks of each machine."""

    title: str
    host: str = ""
    device: Device
    nodes: int
    ranks_per_node: int
    links: NodeLinks
    network: Network
    warnings: tuple[str, ...] = ()
    """Assumptions about the machine, and its slow or missing parts."""
