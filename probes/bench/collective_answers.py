"""Time, algorithm bandwidth and bus bandwidth of collectives by nccl-tests' definitions, whichever benchmark
ran them.

Algorithm bandwidth is bytes over time. Bus bandwidth is that times the share of the bytes that each rank must
send (and receive), so that it compares with a link's rate whatever the number of ranks: 2 (n - 1) / n for
all-reduce, (n - 1) / n for all-gather, reduce-scatter and all-to-all, 1 for broadcast and send/receive
(nccl-tests, doc/PERFORMANCE.md). The factors assume rings; NVLink SHARP reduces in the switch, so its
all-reduce may exceed the link's rate.

`bytes` is what nccl-tests prints as size (`*GetCollByteCount` in its src/*.cu): the buffer of each rank for
all-reduce and broadcast, what a rank has afterwards for all-gather, what it had before for reduce-scatter,
what it sends for all-to-all (its own part included) and for send/receive, which goes round a ring.
"""

from __future__ import annotations

from collections.abc import Mapping

from probes.bench.answers import measurement, slowest_rank
from probes.bench.bench_requests import BenchRequest, Case
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import Measurement, Parameter

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
ELEMENT_BYTES = 4
"""Of fp32, which the workers send."""
_IN_PARTS = ("all_gather", "reduce_scatter", "all_to_all")


def bus_bandwidth_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth. Raises ValueError for a collective that has none here."""
    if collective not in COLLECTIVES:
        raise ValueError(f"no bus bandwidth is defined for {collective!r}")
    if collective in ("broadcast", "send_recv"):
        return 1.0
    return (2 if collective == "all_reduce" else 1) * (ranks - 1) / ranks


def whole_parts(collective: str, size_bytes: int, ranks: int) -> int:
    """The size nearest below `size_bytes` that gives each rank an equal part of whole elements, and at least
    one.
    """
    step = ELEMENT_BYTES * (ranks if collective in _IN_PARTS else 1)
    return max(1, size_bytes // step) * step


def collective_cases(sizes: Mapping[str, tuple[int, ...]], ranks: int) -> tuple[Case, ...]:
    """Cases {collective, bytes} by ascending size: what does not fit the time or the memory is then the
    last.
    """
    wanted = [(size, COLLECTIVES.index(name), name) for name, of_one in sizes.items() for size in of_one]
    return tuple(
        {"collective": name, "bytes": whole_parts(name, size, ranks)} for size, _, name in sorted(wanted)
    )


def collective_measurements(
    request: BenchRequest, lines_by_rank: LinesByRank, identity: Mapping[str, Parameter] | None = None
) -> tuple[Measurement, ...]:
    """`collective_time_s`, `algorithm_bandwidth_bytes_per_s` and `bus_bandwidth_bytes_per_s` of every case
    that has a collective.

    A sample takes as long as its slowest rank. `identity` is added to the parameters: what tells this request
    from others.
    """
    measurements: list[Measurement] = []
    for start, case, durations_s, _ in slowest_rank(request, lines_by_rank):
        if "collective" not in case:
            continue
        parameters: dict[str, Parameter] = {
            **case,
            "world_size": request.ranks,
            "backend": request.backend,
            **(identity or {}),
        }
        size_bytes, factor = (
            float(case["bytes"]),
            bus_bandwidth_factor(str(case["collective"]), request.ranks),
        )
        rates = tuple(size_bytes / duration_s for duration_s in durations_s)
        for metric, unit, samples in (
            ("collective_time_s", "s", durations_s),
            ("algorithm_bandwidth_bytes_per_s", "byte/s", rates),
            ("bus_bandwidth_bytes_per_s", "byte/s", tuple(factor * rate for rate in rates)),
        ):
            measurements.append(measurement(request, start, parameters, metric, unit=unit, samples=samples))
    return tuple(measurements)
