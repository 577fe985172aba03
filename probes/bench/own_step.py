"""Measure the user's own training step (contract: `assistant/docs/own_step.md`).

The metrics are `step_time_s`, `peak_memory_bytes`, `peak_reserved_bytes`, and `tokens_per_s`, `images_per_s`
or `samples_per_s` over all ranks if the step reports its work.
"""

from __future__ import annotations

from probes.bench.answers import failure_of, slowest_rank
from probes.bench.bench_requests import BenchContext, BenchRequest
from probes.bench.step_figures import StepWork, step_figures
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement, Parameter

_BUDGET_S = 20.0


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one rank alone, then all local ranks together; nothing without `--step`."""
    if not context.settings.step:
        return ()
    return tuple(
        BenchRequest(
            bench_id="own-step",
            title=f"your step {context.settings.step} on {ranks} rank{'s' if ranks > 1 else ''}",
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


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return the step time of the slowest rank, and the largest peak memory."""
    measurements: list[Measurement] = []
    for start, case, durations_s, figures in slowest_rank(request, lines_by_rank):
        parameters: dict[str, Parameter] = {**case, "world_size": request.ranks}
        if figures.get("micro_batch"):
            parameters["micro_batch"] = int(figures["micro_batch"])
        work = StepWork(items=dict(figures))
        measurements += step_figures(
            request, start, parameters, work, durations_s=durations_s, figures=figures
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)
