"""Measure copies between host and GPU: `memory_bandwidth_bytes_per_s` by direction, page lock and NUMA node.

Each copy is measured alone and while the other GPUs copy too. Each byte crosses the bus once; for `both`
simultaneous directions the bytes are added. `near` memory is on the GPU's own NUMA node, far memory on the
node with the largest distance according to the firmware. If the node of any GPU is unknown, every node is
measured for all GPUs, and the fastest node of a GPU is assumed to be its near node.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from probes.base.record import known
from probes.base.units import MIB
from probes.bench.answers import case_answers, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome
from probes.bench.numa_nodes import node_distances, numa_cpus
from probes.facts import Gpu
from probes.facts.measurements import Parameter

_BYTES = 256 * MIB
"""Size of a copy: 5 ms at the rate of PCIe 5 x16.

Sizes beyond 64 MiB give the same rate (deepspeedai/DeepSpeed#8283, H200).
"""
_BUDGET_S = {"quick": 3.0, "full": 25.0}


class Places(NamedTuple):
    """The NUMA nodes of near and far memory of a GPU."""

    near: int
    far: int | None


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request; none without GPUs.

    The quick suite omits far and pageable memory and, with several GPUs, both directions of one GPU alone.
    """
    if context.device != "cuda":
        return ()
    cpus = numa_cpus(context.facts)
    # Only a node with CPUs can write its memory.
    nodes = {node: far for node, far in node_distances(context.facts).items() if str(node) in cpus}
    places = {f"GPU{gpu.index}": _places(gpu, nodes) for gpu in context.gpus}
    known_places = {gpu: place for gpu, place in places.items() if place is not None}
    if len(known_places) < len(places):
        known_places = {}
    settings: dict[str, Parameter] = {f"near {gpu}": place.near for gpu, place in known_places.items()}
    settings |= {f"far {gpu}": place.far for gpu, place in known_places.items() if place.far is not None}
    return (
        context.on_every_device(
            "host-device",
            "copies between host and GPU",
            budget_s=_BUDGET_S[context.suite],
            cases=tuple(_cases(context, _memory(known_places, nodes, context.suite))),
            settings=settings,
            numa_cpus=cpus,
        ),
    )


def _memory(places: Mapping[str, Places], nodes: Iterable[int], suite: str) -> list[Case]:
    """Return the places of host memory: near and far if every GPU's node is known, otherwise every node.

    If no nodes are known, the only place is empty, and the kernel chooses the node.
    """
    if not places:
        return [{"numa_node": number} for number in nodes] or [{}]
    far = suite == "full" and any(place.far is not None for place in places.values())
    return [{"near": True}, {"near": False}] if far else [{"near": True}]


def _cases(context: BenchContext, memory: list[Case]) -> Iterator[Case]:
    several, full = context.ranks_per_node > 1, context.suite == "full"
    for concurrent in (False, True) if several else (False,):
        for pinned in (True, False) if full else (True,):
            for place in memory:
                # Pageable copies block the CPU, so one thread cannot run two copies at the same time.
                both = pinned and (full or concurrent or not several)
                for direction in ("host_to_device", "device_to_host", *(("both",) if both else ())):
                    yield {
                        "direction": direction,
                        "pinned": pinned,
                        "concurrent": concurrent,
                        "bytes": _BYTES,
                        **place,
                    }


def _places(gpu: Gpu, nodes: Mapping[int, Mapping[int, int]]) -> Places | None:
    """Return the near and far node of a GPU; None if there are several nodes and the GPU's node is unknown.

    The far node is the first of equally far nodes.
    """
    if len(nodes) == 1:
        return Places(near=next(iter(nodes)), far=None)
    near = gpu.numa_node
    if not known(near) or near is None or near not in nodes:
        return None
    return Places(
        near=near,
        far=max([node for node in nodes if node != near], key=lambda node: nodes[near].get(node, 0)),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the bandwidth of every GPU and case, with the NUMA node of its memory."""
    measurements = []
    for answer in case_answers(request, lines_by_rank):
        rates = answer.rates(float(answer.case["bytes"]) * (2 if answer.case["direction"] == "both" else 1))
        node = answer.sample.figures.get("numa_node")
        place: Case = {} if node is None or not node.is_integer() else {"numa_node": int(node)}
        measurements.append(
            answer.measurement("memory_bandwidth_bytes_per_s", "byte/s", rates, {**answer.case, **place})
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)
