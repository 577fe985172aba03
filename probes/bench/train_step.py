"""Measure an optimizer step of the reference workload: `step_time_s`, `tokens_per_s` over all ranks.

Each rank has `model_flops_per_s`, `peak_memory_bytes` (allocated) and `peak_reserved_bytes`. Model FLOPs are
6 per matmul parameter and token (2 forward, 4 backward; the embedding look-up has none) plus causal
attention, 6 layers x heads x head_dim x sequence_length per token. They come with the request, from the
planner's own formula. Recomputation by activation checkpointing is not counted.
"""

from __future__ import annotations

from probes.bench.answers import failure_of, slowest_rank
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.step_figures import StepWork, step_figures
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement

_CASE_BUDGET_S = {"cuda": 3.0, "cpu": 5.0}
_FULL = (("ddp", "none"), ("ddp", "full"), ("fsdp", "none"), ("fsdp", "full"))
"""Strategy and activation checkpointing."""


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one rank alone, then all local ranks together; they differ by the cost of communication."""
    model = context.model
    all_requests = []
    for ranks in sorted({1, context.ranks_per_node}):
        cases = _cases(context, ranks)
        request = BenchRequest(
            bench_id="train-step",
            title=f"training step on {ranks} rank{'s' if ranks > 1 else ''}",
            device=context.device,
            backend=context.backend,
            ranks=ranks,
            threads_per_rank=context.threads_per_rank,
            budget_s=_CASE_BUDGET_S[context.device] * len(cases),
            cases=cases,
            model=model.shape,
            flops_per_token=model.flops_per_token,
        )
        all_requests.append(request)
    return tuple(all_requests)


def _cases(context: BenchContext, ranks: int) -> tuple[Case, ...]:
    """Return DDP.

    The full suite adds recomputation, and sharding over several ranks. Small cases come first.
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


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Return the step time of the slowest rank, the largest peak memory, and the FLOP rate of a rank."""
    measurements: list[Measurement] = []
    for start, case, durations_s, figures in slowest_rank(request, lines_by_rank):
        tokens = float(case["micro_batch"]) * float(case["sequence_length"])
        measurements += step_figures(
            request,
            start,
            {"model": request.model["id"], **case, "world_size": request.ranks},
            StepWork(items={"tokens": tokens * request.ranks}, rank_flops=request.flops_per_token * tokens),
            durations_s=durations_s,
            figures=figures,
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)
