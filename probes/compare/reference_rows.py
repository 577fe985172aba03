"""Published results of healthy hardware: rows of `bench_references.toml` and `tool_references.toml`.

A row about GPU models applies only to these models. Hardware without a row is compared only with equal
devices and with earlier runs.
"""

import functools
from typing import Literal

import msgspec

from probes.base.rows import read_rows
from probes.base.versions import at_least
from probes.catalogue.hardware import GpuModel
from probes.catalogue.thresholds import Cited

Algorithm = Literal["ring", "NVLS", ""]


class GemmShapes(Cited, kw_only=True):
    """The smallest dimension of matrix products that are compared with a reference."""

    least_dimension: int


class GpuReference(Cited, kw_only=True):
    """A row that applies to some GPU models."""

    gpus: tuple[str, ...]
    """Catalogue ids of the GPUs."""
    firm: bool = True
    """False if the result depends on more than the GPUs: a lower value then causes a warning at most."""


class GemmReference(GpuReference, kw_only=True):
    """Matrix products of a few large shapes."""

    dtypes: tuple[str, ...]
    value: float
    """Operations per second."""


class MemoryReference(GpuReference, kw_only=True):
    """Copies within GPU memory."""

    value: float
    """Bytes read plus bytes written, per second."""


class AttentionReference(GpuReference, kw_only=True):
    """Attention in bf16 or fp16."""

    phase: Literal["forward", "backward"] = msgspec.field(name="pass")
    head_dimension: int
    least_sequence: int
    value: float
    """Operations per second."""


class CollectiveReference(GpuReference, kw_only=True):
    """Collectives within one machine."""

    ranks: int
    bytes: int
    """Size of the smallest message to which the row applies."""
    algorithm: Algorithm = ""
    """Algorithm of NCCL; empty if the source does not state it."""
    nccl_first: str = ""
    """First NCCL version with this algorithm."""
    rates: dict[str, float]
    """Bus bandwidth in bytes per second by collective."""


class AcrossNodesReference(Cited, kw_only=True):
    """Collectives across machines."""

    collective: str
    fraction: float
    """Share of the line rate of all training ports of a machine."""
    bytes: int
    """Size of the smallest message to which the row applies."""


class NicOnlyReference(Cited, kw_only=True):
    """All-reduce within one machine over only the NICs."""

    fraction: float
    """Share of the line rate of a port."""
    bytes: int
    """Size of the smallest message to which the row applies."""


class BenchReferences(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All rows of `bench_references.toml`."""

    gemm_shapes: GemmShapes
    gemm: tuple[GemmReference, ...]
    memory: tuple[MemoryReference, ...]
    attention: tuple[AttentionReference, ...]
    collective: tuple[CollectiveReference, ...]
    across_nodes: tuple[AcrossNodesReference, ...]
    nic_only: NicOnlyReference

    def gemm_rate(self, gpu: str, dtype: str) -> GemmReference | None:
        """Return the row for a GPU id and a dtype."""
        return next((row for row in self.gemm if gpu in row.gpus and dtype in row.dtypes), None)

    def memory_rate(self, gpu: str) -> MemoryReference | None:
        """Return the row for a GPU id."""
        return next((row for row in self.memory if gpu in row.gpus), None)

    def attention_rate(
        self, gpu: str, phase: str, head_dimension: int, sequence: int
    ) -> AttentionReference | None:
        """Return the row for a GPU id, a pass, a head dimension and a sequence length."""
        return next(
            (
                row
                for row in self.attention
                if gpu in row.gpus
                and (row.phase, row.head_dimension) == (phase, head_dimension)
                and sequence >= row.least_sequence
            ),
            None,
        )

    def collective_rates(
        self, gpu: str, collective: str, ranks: int, message_bytes: int, nccl_version: str
    ) -> dict[Algorithm, CollectiveReference]:
        """Return the applicable rows by algorithm.

        For each algorithm, the row with the largest size that is not above `message_bytes` applies. An empty
        `nccl_version` means an unknown version, which is assumed to be new enough.
        """
        best: dict[Algorithm, CollectiveReference] = {}
        for row in self.collective:
            if (
                gpu not in row.gpus
                or row.ranks != ranks
                or collective not in row.rates
                or message_bytes < row.bytes
            ):
                continue
            if row.nccl_first and nccl_version and not at_least(nccl_version, row.nccl_first):
                continue
            if row.algorithm not in best or row.bytes > best[row.algorithm].bytes:
                best[row.algorithm] = row
        return best

    def across(self, collective: str, message_bytes: int) -> AcrossNodesReference | None:
        """Return the row for a collective across machines."""
        return next(
            (row for row in self.across_nodes if row.collective == collective and message_bytes >= row.bytes),
            None,
        )


@functools.lru_cache(maxsize=1)
def load_bench_references() -> BenchReferences:
    """Return the rows that ship with rigtune."""
    return msgspec.convert(read_rows("bench_references"), BenchReferences)


class Collapse(Cited, kw_only=True):
    """Shares of the best rate of smaller messages, below which a larger message fails or causes a warning."""

    fail_fraction: float
    warn_fraction: float
    smallest_bytes: int
    """Smallest message whose rate depends on bandwidth rather than latency."""


class Saturating(Cited, kw_only=True):
    """Message sizes that saturate a link."""

    collective_bytes: int
    network_bytes: int


class NetworkReference(Cited, kw_only=True):
    """Rates and latencies that RDMA achieves."""

    fraction: float
    """Share of the port's rate."""
    latency_s: float
    latency_largest_bytes: int


class HostReference(Cited, kw_only=True):
    """Copies between host and GPU over 16 lanes, in bytes per second."""

    pcie_generation: int
    rate: float


class NvlinkReference(Cited, kw_only=True):
    """Rate of an NVLink in one direction, in bytes per second."""

    architecture: str
    rate: float


class SwitchReference(Cited, kw_only=True):
    """Number of NVSwitches on a board with these GPUs."""

    gpus: tuple[str, ...]
    gpu_count: int
    count: int


class ToolReferences(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All rows of `tool_references.toml`."""

    collapse: Collapse
    saturating: Saturating
    network: NetworkReference
    host: tuple[HostReference, ...]
    nvlink: tuple[NvlinkReference, ...]
    switches: tuple[SwitchReference, ...]

    def host_rate(self, generation: int) -> HostReference | None:
        """Return the row for a PCIe generation."""
        return next((row for row in self.host if row.pcie_generation == generation), None)

    def nvlink_rate(self, model: GpuModel) -> NvlinkReference | None:
        """Return the row for a GPU architecture."""
        return next((row for row in self.nvlink if row.architecture == model.architecture), None)

    def board(self, model: GpuModel, gpu_count: int) -> SwitchReference | None:
        """Return the row for a board with `gpu_count` GPUs of a model."""
        return next(
            (row for row in self.switches if model.id in row.gpus and row.gpu_count == gpu_count), None
        )


@functools.lru_cache(maxsize=1)
def load_references() -> ToolReferences:
    """Return the rows that ship with rigtune."""
    return msgspec.convert(read_rows("tool_references"), ToolReferences)
