"""Copy bandwidth: `memory_bandwidth_bytes_per_s` within the device's memory and between device and pinned host memory."""

from __future__ import annotations

from probes.bench.answers import per_rank
from probes.benching import BenchContext, BenchRequest, Case
from probes.measurements import BenchFailure, Measurement
from probes.parsers.worker_lines import LinesByRank
from probes.units import MIB

_DIRECTIONS = {"cuda": ("device_to_device", "host_to_device", "device_to_host"), "cpu": ("device_to_device",)}
_BYTES = {"cuda": 512 * MIB, "cpu": 256 * MIB}
"""Far larger than any cache; on a GPU the size that nvbandwidth uses."""
_BUDGET_S = {"cuda": 8.0, "cpu": 3.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """One request in which all ranks copy at the same time, so that host memory and PCIe switches are shared as in training."""
    return (
        BenchRequest(
            bench_id="memory-copy",
            title="memory copy",
            device=context.device,
            backend="gloo",
            ranks=context.ranks_per_node,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S[context.device],
            cases=tuple({"direction": name, "bytes": _BYTES[context.device]} for name in _DIRECTIONS[context.device]),
            subjects=context.subjects,
        ),
    )


def _moved_bytes(case: Case) -> float:
    """A copy within one memory reads and writes each byte; across the bus each byte travels once."""
    return float(case["bytes"]) * (2 if case["direction"] == "device_to_device" else 1)


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """The bandwidth of every rank and direction."""
    return per_rank(request, lines_by_rank, "memory_bandwidth_bytes_per_s", "byte/s", _moved_bytes)
