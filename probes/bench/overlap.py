"""Measure how much of a step's communication is hidden behind its backward pass.

The benchmark measures three durations of the reference model under DDP: computation alone (gradients are not
exchanged), communication alone (only the same buckets), and both as in training:

    overlap_fraction                 (computation + communication - both) / min(computation, communication)
    exposed_communication_fraction   (both - computation) / communication

The first fraction is 1 if the shorter part is hidden behind the longer, 0 if both run in turn, and negative
if they slow each other down. The second fraction is the share of the communication that the step waits for.
It is above 1 if the communication also slows the computation down, for example because both need the same
cores or multiprocessors. If repeated computations differ by more than the communication takes, both fractions
are unknown and not reported.
"""

from probes.base.statistics import quantile
from probes.bench.answers import failure_of, slowest_rank, with_conditions
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome

_BUDGET_S = {"cuda": 15.0, "cpu": 10.0}
_TOO_NOISY = "unknown: repeated computations differ by more than the communication takes"
_PARTS = ("computation", "communication", "both")


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request with one sequence per rank, because the communication of small batches is hardest to
    hide.

    A single rank has no request.
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


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the two fractions and `pass_time_s` of each part, all with the times of the slowest rank.

    A part is a forward and backward pass, the exchange of gradients, or both.
    """
    parts = {str(answer.case.get("part")): answer for answer in slowest_rank(request, lines_by_rank)}
    if any(part not in parts for part in _PARTS):
        return failure_of(request, lines_by_rank)
    both = parts["both"]
    parameters: Case = {
        "model": request.model.get("id", ""),
        **{name: value for name, value in both.case.items() if name != "part"},
        "world_size": request.ranks,
        "backend": request.backend,
    }
    durations_s = [parts[part].sample.durations_s for part in _PARTS]
    # The three parts have the same number and order of samples.
    rows = tuple(zip(*durations_s, strict=False))
    computation_s, communication_s, _ = durations_s
    # The middle half of the computations must differ by less than the time of a communication.
    spread_s = quantile(computation_s, 0.75) - quantile(computation_s, 0.25)
    is_measurable = spread_s < quantile(communication_s, 0.5)
    figures = {"overlap_fraction": overlap_fraction, "exposed_communication_fraction": exposed_fraction}
    measurements = [
        both.measurement(metric, "1", tuple(fraction_of(*row) for row in rows), parameters)
        for metric, fraction_of in figures.items()
        if is_measurable
    ]
    measurements += [
        both.measurement("pass_time_s", "s", parts[part].sample.durations_s, {**parameters, "part": part})
        for part in _PARTS
    ]
    conditions: Case = {} if is_measurable else {"overlap": _TOO_NOISY}
    return tuple(with_conditions(row, conditions) for row in measurements)


def overlap_fraction(computation_s: float, communication_s: float, both_s: float) -> float:
    """Return the hidden share of the shorter part: 1 if it is fully hidden, 0 if both run one after the
    other.
    """
    return (computation_s + communication_s - both_s) / min(computation_s, communication_s)


def exposed_fraction(computation_s: float, communication_s: float, both_s: float) -> float:
    """Return the share of the communication that the step waits for; noise below 0 becomes 0."""
    return max(0.0, both_s - computation_s) / communication_s
