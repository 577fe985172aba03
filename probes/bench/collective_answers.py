"""Compute time, algorithm bandwidth and bus bandwidth of collectives, as defined by nccl-tests.

Algorithm bandwidth is bytes divided by time. Bus bandwidth is algorithm bandwidth times the share of the
bytes that each rank must send (and receive), so that it is comparable to a link's rate for any number of
ranks: 2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather, reduce-scatter and all-to-all, 1 for
broadcast and send/receive (nccl-tests, doc/PERFORMANCE.md). The factors assume rings. NVLink SHARP reduces in
the switch, so the bus bandwidth of its all-reduce may exceed the link's rate. `bytes` is the size that
nccl-tests prints (`*GetCollByteCount` in its src/*.cu): the buffer of each rank for all-reduce and broadcast,
the result of a rank for all-gather, the input of a rank for reduce-scatter, the data sent by a rank for
all-to-all (including its own part) and for send/receive around a ring.
"""

from collections.abc import Mapping

from probes.bench.answers import slowest_rank
from probes.bench.bench_requests import BenchRequest, Case, LinesByRank
from probes.facts.measurements import Measurement, Parameter

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
ELEMENT_BYTES = 4
"""Bytes of an fp32 element, which the workers send."""
_DIVIDED = ("all_gather", "reduce_scatter", "all_to_all")


def bus_bandwidth_factor(collective: str, ranks: int) -> float:
    """Return the ratio of bus bandwidth to algorithm bandwidth.

    Raises ValueError if no bus bandwidth is defined for the collective.
    """
    if collective not in COLLECTIVES:
        raise ValueError(f"no bus bandwidth is defined for {collective!r}")
    if collective in ("broadcast", "send_recv"):
        return 1.0
    return (2 if collective == "all_reduce" else 1) * (ranks - 1) / ranks


def whole_parts(collective: str, size_bytes: int, ranks: int) -> int:
    """Return the largest size up to `size_bytes` with a whole number of elements per rank, at least one."""
    step = ELEMENT_BYTES * (ranks if collective in _DIVIDED else 1)
    return max(1, size_bytes // step) * step


def collective_cases(sizes: Mapping[str, tuple[int, ...]], ranks: int) -> tuple[Case, ...]:
    """Return cases {collective, bytes} by ascending size, so that cases beyond time or memory come last."""
    wanted = [
        (size, COLLECTIVES.index(name)) for name, sizes_of_name in sizes.items() for size in sizes_of_name
    ]
    return tuple(
        {"collective": COLLECTIVES[index], "bytes": whole_parts(COLLECTIVES[index], size, ranks)}
        for size, index in sorted(wanted)
    )


def collective_measurements(
    request: BenchRequest, lines_by_rank: LinesByRank, identity: Mapping[str, Parameter] | None = None
) -> tuple[Measurement, ...]:
    """Return time, algorithm bandwidth and bus bandwidth of every case that has a collective.

    The metrics are `collective_time_s`, `algorithm_bandwidth_bytes_per_s` and `bus_bandwidth_bytes_per_s`. A
    sample has the duration of its slowest rank. `identity` is added to the parameters to distinguish
    requests.
    """
    measurements: list[Measurement] = []
    common = {"world_size": request.ranks, "backend": request.backend, **(identity or {})}
    for answer in slowest_rank(request, lines_by_rank):
        if "collective" not in answer.case:
            continue
        factor = bus_bandwidth_factor(str(answer.case["collective"]), request.ranks)
        rates = answer.rates(float(answer.case["bytes"]))
        bus_rates = tuple(factor * rate for rate in rates)
        parameters = {**answer.case, **common}
        measurements += [
            answer.measurement("collective_time_s", "s", answer.sample.durations_s, parameters),
            answer.measurement("algorithm_bandwidth_bytes_per_s", "byte/s", rates, parameters),
            answer.measurement("bus_bandwidth_bytes_per_s", "byte/s", bus_rates, parameters),
        ]
    return tuple(measurements)
