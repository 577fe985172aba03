"""Measure the user's own training step (contract: `assistant/docs/own_step.md`).

The metrics are `step_time_s`, `peak_memory_bytes`, `peak_reserved_bytes`, and `tokens_per_s`, `images_per_s`
or `samples_per_s` over all ranks if the step reports its work.
"""

from probes.base.units import plural
from probes.bench.answers import StepWork, failure_of, slowest_rank, step_figures
from probes.bench.bench_requests import BenchContext, BenchRequest, LinesByRank, Outcome
from probes.facts.measurements import Measurement

_BUDGET_S = 20.0


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one rank alone, then all local ranks together; nothing without `--step`."""
    if not context.settings.step:
        return ()
    return tuple(
        BenchRequest(
            bench_id="own-step",
            title=f"your step {context.settings.step} on {plural(ranks, 'rank')}",
            device=context.device,
            backend=context.backend,
            ranks=ranks,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S,
            cases=({"step": context.settings.step},),
            settings={"folder": context.settings.folder},
        )
        for ranks in sorted({1, context.ranks_per_node})
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the step time of the slowest rank, and the largest peak memory."""
    measurements: list[Measurement] = []
    for answer in slowest_rank(request, lines_by_rank):
        figures = answer.sample.figures
        parameters = {**answer.case, "world_size": request.ranks}
        if figures.get("micro_batch"):
            parameters["micro_batch"] = int(figures["micro_batch"])
        measurements += step_figures(answer, parameters, StepWork(items=figures))
    return tuple(measurements) or failure_of(request, lines_by_rank)
