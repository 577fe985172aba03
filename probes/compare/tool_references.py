"""What links achieve: rows of `probes/data/tool_references.toml`."""

from __future__ import annotations

import functools

import msgspec

from probes.base.rows import read_rows
from probes.catalogue.hardware import GpuModel
from probes.catalogue.thresholds import Cited


class Collapse(Cited, kw_only=True):
    """Shares of the best rate of smaller messages below which a larger one fails or is told."""

    fail_fraction: float
    warn_fraction: float
    smallest_bytes: int
    """Below it rates are latencies."""


class Saturating(Cited, kw_only=True):
    """Message sizes from which on a link is full."""

    collective_bytes: int
    network_bytes: int


class NetworkReference(Cited, kw_only=True):
    """What RDMA achieves."""

    fraction: float
    """Of the port's rate."""
    latency_s: float
    latency_largest_bytes: int


class HostReference(Cited, kw_only=True):
    """Copies between host and GPU over 16 lanes, in bytes per second."""

    pcie_generation: int
    rate: float


class NvlinkReference(Cited, kw_only=True):
    """One NVLink, one direction, in bytes per second."""

    architecture: str
    rate: float


class SwitchReference(Cited, kw_only=True):
    """NVSwitches of a board with such GPUs."""

    gpus: tuple[str, ...]
    gpu_count: int
    count: int


class ToolReferences(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All rows."""

    collapse: Collapse
    saturating: Saturating
    network: NetworkReference
    host: tuple[HostReference, ...]
    nvlink: tuple[NvlinkReference, ...]
    switches: tuple[SwitchReference, ...]

    def host_rate(self, generation: int) -> HostReference | None:
        """The row of a PCIe generation."""
        return next((row for row in self.host if row.pcie_generation == generation), None)

    def nvlink_rate(self, model: GpuModel) -> NvlinkReference | None:
        """The row of a GPU's architecture."""
        return next((row for row in self.nvlink if row.architecture == model.architecture), None)

    def board(self, model: GpuModel, gpu_count: int) -> SwitchReference | None:
        """The row of a board with `gpu_count` GPUs of a model."""
        return next(
            (row for row in self.switches if model.id in row.gpus and row.gpu_count == gpu_count), None
        )


@functools.lru_cache(maxsize=1)
def load_references() -> ToolReferences:
    """The rows shipped with rigtune."""
    return msgspec.convert(read_rows("tool_references"), ToolReferences)
