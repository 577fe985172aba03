"""Measure memory bandwidth by NUMA node: `memory_bandwidth_bytes_per_s` of a node's cores together.

The cores use the memory of their own node and of the others. Bytes are counted like in STREAM: a copy reads
and writes each byte, a triad reads two arrays and writes one. Reads by caches before a write are not counted.
"""

from __future__ import annotations

from probes.bench.answers import failure_of, measurement, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.numa_nodes import distance_between, most_threads, node_indices, numa_cpus
from probes.bench.worker_answers import LinesByRank
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, Measurement, Parameter

_ARRAYS = {"copy": 2, "triad": 3}
"""Arrays that one pass reads or writes (www.cs.virginia.edu/stream/ref.html, counting)."""
_CASE_S = {"quick": 1.2, "full": 1.5}
_PLACE_S = 0.5
"""Seconds for the first touch of a node's memory."""
_MOST_S = {"quick": 4.0, "full": 15.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request of one rank.

    The nodes in turn, ordered by memory, which is allocated once per node.
    """
    nodes = node_indices(context.facts)
    cases: list[Case] = []
    for memory in nodes:
        near = _case(context.facts, memory, memory)
        cases += [near, {**near, "operation": "triad"}]
        if context.suite == "full":
            cases += [_case(context.facts, node, memory) for node in nodes if node != memory]
    return (
        BenchRequest(
            bench_id="host-memory",
            title="memory bandwidth of each NUMA node",
            device="cpu",
            backend="gloo",
            ranks=1,
            threads_per_rank=most_threads(context.facts),
            budget_s=min(_MOST_S[context.suite], _CASE_S[context.suite] * len(cases) + _PLACE_S * len(nodes)),
            cases=tuple(cases),
            numa_cpus=numa_cpus(context.facts),
        ),
    )


def _case(facts: MachineFacts, node: int, memory_node: int) -> Case:
    """Return a copy with the distance that the firmware states; nodes of one socket are nearer."""
    case: Case = {"operation": "copy", "numa_node": node, "memory_node": memory_node}
    distance = distance_between(facts, node, memory_node)
    return case if distance is None else {**case, "distance": distance}


def _subject(case: Case) -> str:
    """Return `NUMA node 0` for its own memory, or `NUMA node 0-NUMA node 1` for memory of another node."""
    names = [f"NUMA node {case[end]}" for end in ("numa_node", "memory_node")]
    return "-".join(dict.fromkeys(names))


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return the bandwidth of every operation and pair of cores and memory."""
    lines = lines_by_rank.get(0, ())
    start = start_of(lines)
    if start is None:
        return failure_of(request, lines_by_rank)
    measurements = []
    for sample in samples_of(request, lines):
        case, size_bytes = sample.case, sample.figures.get("array_bytes", 0.0)
        moved_bytes = _ARRAYS[str(case["operation"])] * size_bytes
        parameters: dict[str, Parameter] = {
            **case,
            "threads": int(sample.figures.get("threads", 0)),
            "bytes": int(size_bytes),
        }
        measurements.append(
            measurement(
                request,
                start,
                parameters,
                "memory_bandwidth_bytes_per_s",
                unit="byte/s",
                samples=tuple(moved_bytes / duration_s for duration_s in sample.durations_s),
                subject=_subject(case),
            )
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)
