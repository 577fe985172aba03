"""The description between a `Cluster` and its sources: facts, a catalogue machine, words of a table, parts.

A description states what a machine consists of. Rates and bandwidths follow in `recipes.machine.cluster`
and `recipes.machine.links`, and nowhere else.
"""

from __future__ import annotations

from typing import Literal

from probes.base.record import Record
from probes.catalogue.hardware import GpuModel
from recipes.machine.cluster_records import Fabric, Figure, Transport


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
