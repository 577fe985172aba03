"""Matrix multiplication rate by dtype and shape: `gemm_flops_per_s` with 2 m n k floating-point operations per product."""

from __future__ import annotations

from probes.bench.answers import per_rank
from probes.benching import BenchContext, BenchRequest, Case
from probes.measurements import BenchFailure, Measurement
from probes.parsers.worker_lines import LinesByRank

_DTYPES = {"cuda": ("fp32", "tf32", "bf16", "fp16"), "cpu": ("fp32", "bf16")}
"""No fp16 on CPUs: without instructions for it one product takes minutes."""
_SQUARES = {"cuda": (2048, 4096, 8192), "cpu": (256, 1024, 2048)}
"""Ascending, so that the small ones tell whether the large ones are affordable."""
_TOKENS = {"cuda": 8192, "cpu": 1024}
_BUDGET_S = {"cuda": 20.0, "cpu": 7.0}


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """One request in which all ranks measure at the same time, each its own device: as they will when training."""
    return (
        BenchRequest(
            bench_id="gemm",
            title="matrix multiply",
            device=context.device,
            backend="gloo",
            ranks=context.ranks_per_node,
            threads_per_rank=context.threads_per_rank,
            budget_s=_BUDGET_S[context.device],
            cases=tuple(case for dtype in _DTYPES[context.device] for case in _cases(context, dtype)),
            subjects=context.subjects,
        ),
    )


def _cases(context: BenchContext, dtype: str) -> list[Case]:
    """Square products, and those of the reference model's MLP and head for some thousand tokens."""
    squares: list[Case] = [{"dtype": dtype, "m": size, "n": size, "k": size} for size in _SQUARES[context.device]]
    shape, tokens = context.model.shape, _TOKENS[context.device]
    products = (("ffn_hidden", "hidden"), ("hidden", "ffn_hidden"), ("vocab", "hidden"))
    model: list[Case] = [{"dtype": dtype, "m": tokens, "n": shape[n], "k": shape[k]} for n, k in products]
    return sorted(squares + model, key=_flops)


def _flops(case: Case) -> float:
    return 2.0 * float(case["m"]) * float(case["n"]) * float(case["k"])


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """The rate of every rank and case."""
    return per_rank(request, lines_by_rank, "gemm_flops_per_s", "flop/s", _flops)
