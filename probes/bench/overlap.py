"""Measure how much of a step's communication is hidden behind its backward pass.

The reference model under DDP has three durations: computation alone (gradients are not exchanged),
communication alone (the same buckets, nothing else), and both like in training:

    overlap_fraction                 (computation + communication - both) / min(computation, communication)
    exposed_communication_fraction   (both - computation) / communication

The first is 1 if the shorter of the two is hidden behind the longer, 0 if they run in turn, and negative if
they slow each other down. The second is the share of the communication that the step waits for. Above 1 the
communication also slows the computation down, as when both need the same cores or multiprocessors. If
repeated computations differ by more than the communication takes, both fractions are unknown and not
reported.
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
_TOO_NOISY = "unknown: repeated computations differ by more than the communication takes"
_PARTS = ("computation", "communication", "both")


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request with one sequence per rank, whose communication is hardest to hide.

    None for one rank.
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
    """Return the two fractions, and `pass_time_s` of each part. The slowest rank counts.

    A part is forward and backward, the exchange of gradients, or both.
    """
    parts: dict[str, tuple[StartLine, dict[str, Parameter], tuple[float, ...]]] = {}
    for start, case, durations_s, _ in slowest_rank(request, lines_by_rank):
        parameters = {name: value for name, value in case.items() if name != "part"}
        identity_of_model = {
            "model": request.model.get("id", ""),
            **parameters,
            "world_size": request.ranks,
            "backend": request.backend,
        }
        parts[str(case.get("part"))] = (start, identity_of_model, durations_s)
    if any(part not in parts for part in _PARTS):
        return failure_of(request, lines_by_rank)
    start, parameters, _ = parts["both"]
    rows = tuple(_together([parts[part][2] for part in _PARTS]))
    figures: tuple[tuple[str, Callable[[float, float, float], float]], ...] = (
        ("overlap_fraction", overlap_fraction),
        ("exposed_communication_fraction", exposed_fraction),
    )
    is_measurable = _is_measurable(parts["computation"][2], parts["communication"][2])
    measurements = []
    for metric, fraction_of in figures if is_measurable else ():
        samples = tuple(fraction_of(*row) for row in rows)
        measurements.append(measurement(request, start, parameters, metric, unit="1", samples=samples))
    for part in _PARTS:
        identity = {**parameters, "part": part}
        measurements.append(
            measurement(request, start, identity, "pass_time_s", unit="s", samples=parts[part][2])
        )
    conditions: dict[str, Parameter] = {} if is_measurable else {"overlap": _TOO_NOISY}
    return tuple(
        msgspec.structs.replace(row, conditions={**row.conditions, **conditions}) for row in measurements
    )


def overlap_fraction(computation_s: float, communication_s: float, both_s: float) -> float:
    """Return the hidden share of the shorter part: 1 if it is hidden, 0 if both run in turn."""
    return (computation_s + communication_s - both_s) / min(computation_s, communication_s)


def exposed_fraction(computation_s: float, communication_s: float, both_s: float) -> float:
    """Return the share of the communication that the step waits for; noise below 0 counts as 0."""
    return max(0.0, both_s - computation_s) / communication_s


def _is_measurable(computation_s: tuple[float, ...], communication_s: tuple[float, ...]) -> bool:
    """Return whether the middle half of the computations differs by less than a communication takes."""
    return quantile(computation_s, 0.75) - quantile(computation_s, 0.25) < quantile(communication_s, 0.5)


def _together(parts: list[tuple[float, ...]]) -> Iterator[tuple[float, float, float]]:
    """Yield the samples of the three parts in turn; they have the same order and number."""
    computation_s, communication_s, both_s = parts
    yield from zip(computation_s, communication_s, both_s, strict=False)
