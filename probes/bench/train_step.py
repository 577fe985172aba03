"""One optimizer step of the reference workload: `step_time_s`, `peak_memory_bytes` and `model_flops_per_s` per rank.

Model FLOPs are 6 per matmul parameter and token (2 forward, 4 backward; the embedding look-up is none) plus causal attention,
6 layers x heads x head_dim x sequence_length per token. They come with the request, from the planner's own formula.
"""

from __future__ import annotations

from probes.bench.answers import failure_of, measurement, slowest_rank
from probes.benching import BenchContext, BenchRequest
from probes.measurements import BenchFailure, Measurement, Parameter
from probes.parsers.worker_lines import LinesByRank

_BUDGET_S = {"cuda": 12.0, "cpu": 5.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """One rank alone, then all local ranks together: the difference is what communication and sharing cost."""
    model = context.model
    return tuple(
        BenchRequest(
            bench_id="train-step",
            title=f"training step on {ranks} rank{'s' if ranks > 1 else ''}",
            device=context.device,
            backend=context.backend,
            ranks=ranks,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S[context.device],
            cases=tuple(
                {
                    "strategy": "ddp",
                    "micro_batch": micro_batch,
                    "sequence_length": model.shape["sequence_length"],
                    "precision": model.precision,
                }
                for micro_batch in model.micro_batches
            ),
            model=model.shape,
            flops_per_token=model.flops_per_token,
        )
        for ranks in sorted({1, context.ranks_per_node})
    )


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """Step time of the slowest rank, peak memory of the fullest, and the FLOP rate that a rank reaches."""
    measurements: list[Measurement] = []
    for start, case, durations_s, figures in slowest_rank(request, lines_by_rank):
        flops = request.flops_per_token * float(case["micro_batch"]) * float(case["sequence_length"])
        rates = tuple(flops / duration_s for duration_s in durations_s)
        parameters: dict[str, Parameter] = {"model": request.model["id"], **case, "world_size": request.ranks}
        measurements.append(measurement(request, start, parameters, "step_time_s", unit="s", samples=durations_s))
        if "peak_memory_bytes" in figures:
            peak = (figures["peak_memory_bytes"],)
            measurements.append(measurement(request, start, parameters, "peak_memory_bytes", unit="byte", samples=peak))
        measurements.append(measurement(request, start, parameters, "model_flops_per_s", unit="flop/s", samples=rates))
    return tuple(measurements) or failure_of(request, lines_by_rank)
