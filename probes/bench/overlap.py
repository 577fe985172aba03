"""How much of a step's communication hides behind its backward pass.

Three durations of the reference model under DDP: computation alone (gradients are not exchanged),
communication alone (the same buckets, nothing else), and both as in training:

    overlap_fraction                 (computation + communication - both) / min(computation, communication)
    exposed_communication_fraction   (both - computation) / communication

The first is 1 where the shorter of the two hides behind the longer, 0 where they run one after the other, and
negative where they get in each other's way. The second is the share of the communication that the step waits
for; above 1 the communication also slows the computation down, as it does where both need the same cores or
multiprocessors. Where repeated computations differ by more than the communication takes, neither can be told,
and neither is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from probes.base.statistics import quantile
from probes.bench.answers import failure_of, measurement, slowest_rank
from probes.bench.bench_requests import BenchContext, BenchRequest
from probes.bench.worker_answers import LinesByRank, StartLine
from probes.facts.measurements import BenchFailure, Measurement, Parameter

_BUDGET_S = {"cuda": 15.0, "cpu": 10.0}
_TOO_NOISY = "not told: repeated computations differ by more than the communication takes"
_PARTS = ("computation", "communication", "both")


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """One request with one sequence per rank, where communication is hardest to hide; none for a single
    rank.
    """
    if context.ranks_per_node < 2:
        return ()
    model = context.model
    return (
        BenchRequest(
            bench_id="overlap",
            title=f"communication behind computation on {context.ranks_per_node} ranks",
            device=context.device,
            backend=context.backend,
            ranks=context.ranks_per_node,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S[context.device],
            cases=tuple(
                {
                    "part": part,
                    "micro_batch": 1,
                    "sequence_length": model.shape["sequence_length"],
                    "precision": model.precision,
                }
                for part in _PARTS
            ),
            model=model.shape,
        ),
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """The two fractions, and `pass_time_s` of each part: forward and backward, or the exchange. The slowest
    rank counts.
    """
    parts: dict[str, tuple[StartLine, dict[str, Parameter], tuple[float, ...]]] = {}
    for start, case, durations_s, _ in slowest_rank(request, lines_by_rank):
        parameters = {name: value for name, value in case.items() if name != "part"}
        of_model = {
            "model": request.model.get("id", ""),
            **parameters,
            "world_size": request.ranks,
            "backend": request.backend,
        }
        parts[str(case.get("part"))] = (start, of_model, durations_s)
    if any(part not in parts for part in _PARTS):
        return failure_of(request, lines_by_rank)
    start, parameters, _ = parts["both"]
    rows = tuple(_together([parts[part][2] for part in _PARTS]))
    figures: tuple[tuple[str, Callable[[float, float, float], float]], ...] = (
        ("overlap_fraction", overlap_fraction),
        ("exposed_communication_fraction", exposed_fraction),
    )
    can_be_told = _can_be_told(parts["computation"][2], parts["communication"][2])
    found = []
    for metric, of in figures if can_be_told else ():
        samples = tuple(of(*row) for row in rows)
        found.append(measurement(request, start, parameters, metric, unit="1", samples=samples))
    for part in _PARTS:
        identity = {**parameters, "part": part}
        found.append(measurement(request, start, identity, "pass_time_s", unit="s", samples=parts[part][2]))
    told: dict[str, Parameter] = {} if can_be_told else {"overlap": _TOO_NOISY}
    return tuple(msgspec.structs.replace(one, conditions={**one.conditions, **told}) for one in found)


def overlap_fraction(computation_s: float, communication_s: float, both_s: float) -> float:
    """1: the shorter is hidden. 0: one after the other."""
    return (computation_s + communication_s - both_s) / min(computation_s, communication_s)


def exposed_fraction(computation_s: float, communication_s: float, both_s: float) -> float:
    """The share of the communication that the step waits for; not below 0, which only noise gives."""
    return max(0.0, both_s - computation_s) / communication_s


def _can_be_told(computation_s: tuple[float, ...], communication_s: tuple[float, ...]) -> bool:
    """True where the middle half of the computations differs by less than a communication takes."""
    return quantile(computation_s, 0.75) - quantile(computation_s, 0.25) < quantile(communication_s, 0.5)


def _together(parts: list[tuple[float, ...]]) -> Iterator[tuple[float, float, float]]:
    """Samples of the three parts by turn; they were taken in the same order and number."""
    computation_s, communication_s, both_s = parts
    yield from zip(computation_s, communication_s, both_s, strict=False)
