"""Measure bandwidth within the device's memory: `memory_bandwidth_bytes_per_s` of copy and triad.

Both the bytes that are read and the bytes that are written are counted, as in STREAM: two arrays for a copy
(a = b) and three for a triad (a = b + s c) (McCalpin, STREAM, 'Counting Bytes and FLOPS'). A CPU that reads a
line before overwriting it moves more bytes.
"""

from probes.base.record import known
from probes.base.units import GIB, MIB
from probes.bench.answers import per_rank
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome

_BYTES = {
    ("cuda", "quick"): (512 * MIB,),
    ("cuda", "full"): (256 * MIB, 512 * MIB, GIB, 4 * GIB),
    ("cpu", "quick"): (256 * MIB,),
    ("cpu", "full"): (128 * MIB, 256 * MIB, 512 * MIB),
}
"""Size of an array, larger than all caches; nvbandwidth copies 512 MiB."""
_ARRAYS = {"copy": 2, "triad": 3}
_HELD = 5
"""Number of arrays in memory at a time, including the arrays for the check of the result."""
_BUDGET_S = {("cuda", "quick"): 2.0, ("cuda", "full"): 6.0, ("cpu", "quick"): 5.0, ("cpu", "full"): 10.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request, or none if no array fits.

    Arrays that would take more than half of the GPU's memory or of the free host memory are left out.
    """
    cases: tuple[Case, ...] = tuple(
        {"operation": operation, "direction": "device_to_device", "bytes": size}
        for size in _BYTES[context.device, context.suite]
        if _fits(context, size)
        for operation in _ARRAYS
    )
    if not cases:
        return ()
    return (
        context.on_every_device(
            "memory-copy", "memory bandwidth", budget_s=_BUDGET_S[context.device, context.suite], cases=cases
        ),
    )


def _fits(context: BenchContext, size_bytes: int) -> bool:
    if context.device == "cuda":
        sizes = [gpu.memory_bytes for gpu in context.gpus if known(gpu.memory_bytes)]
        return all(_HELD * size_bytes <= memory_bytes / 2 for memory_bytes in sizes)
    free = context.facts.memory.available_bytes
    return not known(free) or context.ranks_per_node * _HELD * size_bytes <= free / 2


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the bandwidth of every rank and case."""
    return per_rank(
        request,
        lines_by_rank,
        "memory_bandwidth_bytes_per_s",
        "byte/s",
        lambda case: float(case["bytes"]) * _ARRAYS[str(case["operation"])],
    )
