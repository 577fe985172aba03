"""Measure memory bandwidth by NUMA node: `memory_bandwidth_bytes_per_s` of a node's cores together.

The cores use the memory of their own node and of the other nodes. Bytes are counted as in STREAM: a copy
reads and writes each byte, a triad reads two arrays and writes one. A cache that reads a line before a write
moves more bytes than are counted.
"""

from probes.bench.answers import case_answers, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome
from probes.bench.numa_nodes import most_threads, node_distances, node_indices, numa_cpus
from probes.facts import MachineFacts

_ARRAYS = {"copy": 2, "triad": 3}
"""Number of arrays that one pass reads or writes (www.cs.virginia.edu/stream/ref.html, counting)."""
_CASE_S = {"quick": 1.2, "full": 1.5}
_PLACE_S = 0.5
"""Seconds for the first touch of a node's memory."""
_MOST_S = {"quick": 4.0, "full": 15.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request of one rank.

    The cases are ordered by the node of their memory, because memory is allocated once per node.
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
    """Return a copy case with the distance that the firmware reports; it is smaller within a socket."""
    case: Case = {"operation": "copy", "numa_node": node, "memory_node": memory_node}
    distance = node_distances(facts).get(node, {}).get(memory_node)
    return case if distance is None else {**case, "distance": distance}


def _subject(case: Case) -> str:
    """Return `NUMA node 0` for a node's own memory, `NUMA node 0-NUMA node 1` for another node's memory."""
    return "-".join(dict.fromkeys(f"NUMA node {case[end]}" for end in ("numa_node", "memory_node")))


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the bandwidth of every operation and pair of cores and memory."""
    measurements = []
    for answer in case_answers(request, lines_by_rank):
        size_bytes = answer.sample.figures.get("array_bytes", 0.0)
        measurements.append(
            answer.measurement(
                "memory_bandwidth_bytes_per_s",
                "byte/s",
                answer.rates(_ARRAYS[str(answer.case["operation"])] * size_bytes),
                {
                    **answer.case,
                    "threads": int(answer.sample.figures.get("threads", 0)),
                    "bytes": int(size_bytes),
                },
                subject=_subject(answer.case),
            )
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)
