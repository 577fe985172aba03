"""Rates that links achieve: rows of `tool_references.toml`."""

from __future__ import annotations

import functools

import msgspec

from probes.base.rows import read_rows
from probes.catalogue.hardware import GpuModel
from probes.catalogue.thresholds import Cited


class Collapse(Cited, kw_only=True):
    """Shares of the best rate of smaller messages below which a larger message fails or is reported."""

    fail_fraction: float
    warn_fraction: float
    smallest_bytes: int
    """Smallest message for which a rate is a bandwidth rather than a latency."""


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
    """Number of NVSwitches on a board with such GPUs."""

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
        """Return the row of a PCIe generation."""
        return next((row for row in self.host if row.pcie_generation == generation), None)

    def nvlink_rate(self, model: GpuModel) -> NvlinkReference | None:
        """Return the row of a GPU's architecture."""
        return next((row for row in self.nvlink if row.architecture == model.architecture), None)

    def board(self, model: GpuModel, gpu_count: int) -> SwitchReference | None:
        """Return the row of a board with `gpu_count` GPUs of a model."""
        return next(
            (row for row in self.switches if model.id in row.gpus and row.gpu_count == gpu_count), None
        )


@functools.lru_cache(maxsize=1)
def load_references() -> ToolReferences:
    """Return the rows that ship with rigtune."""
    return msgspec.convert(read_rows("tool_references"), ToolReferences)
