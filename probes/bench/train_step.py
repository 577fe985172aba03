"""Measure an optimizer step of the reference workload: `step_time_s`, `tokens_per_s` over all ranks.

Each rank has `model_flops_per_s`, `peak_memory_bytes` (allocated) and `peak_reserved_bytes`. Model FLOPs are
6 per parameter of a matrix product and token (2 forward, 4 backward; the embedding look-up has none), plus
causal attention with 6 layers x heads x head_dim x sequence_length per token. The request contains the number
from the planner's own formula. Recomputation by activation checkpointing is not counted.
"""

from probes.base.units import plural
from probes.bench.answers import StepWork, failure_of, slowest_rank, step_figures
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome
from probes.facts.measurements import Measurement

_CASE_BUDGET_S = {"cuda": 3.0, "cpu": 5.0}
_FULL = (("ddp", "none"), ("ddp", "full"), ("fsdp", "none"), ("fsdp", "full"))
"""Strategy and activation checkpointing."""


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return a request for one rank alone, then a request for all local ranks, which communicate."""
    cases_by_ranks = {ranks: _cases(context, ranks) for ranks in sorted({1, context.ranks_per_node})}
    return tuple(
        BenchRequest(
            bench_id="train-step",
            title=f"training step on {plural(ranks, 'rank')}",
            device=context.device,
            backend=context.backend,
            ranks=ranks,
            threads_per_rank=context.threads_per_rank,
            budget_s=_CASE_BUDGET_S[context.device] * len(cases),
            cases=cases,
            model=context.model.shape,
            flops_per_token=context.model.flops_per_token,
        )
        for ranks, cases in cases_by_ranks.items()
    )


def _cases(context: BenchContext, ranks: int) -> tuple[Case, ...]:
    """Return the cases, small cases first.

    The quick suite measures DDP. The full suite adds recomputation, and FSDP on several ranks.
    """
    variants = (
        [variant for variant in _FULL if variant[0] == "ddp" or ranks > 1]
        if context.suite == "full"
        else [_FULL[0]]
    )
    return tuple(
        {
            "strategy": strategy,
            "activation_checkpointing": checkpointing,
            "micro_batch": micro_batch,
            "sequence_length": context.model.shape["sequence_length"],
            "precision": context.model.precision,
        }
        for micro_batch in context.model.micro_batches
        for strategy, checkpointing in variants
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the step time of the slowest rank, the largest peak memory, and the FLOP rate of a rank."""
    measurements: list[Measurement] = []
    for answer in slowest_rank(request, lines_by_rank):
        tokens = float(answer.case["micro_batch"]) * float(answer.case["sequence_length"])
        work = StepWork(items={"tokens": tokens * request.ranks}, rank_flops=request.flops_per_token * tokens)
        parameters = {"model": request.model["id"], **answer.case, "world_size": request.ranks}
        measurements += step_figures(answer, parameters, work)
    return tuple(measurements) or failure_of(request, lines_by_rank)
