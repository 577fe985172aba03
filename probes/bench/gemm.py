"""Matrix multiplication rate by dtype and shape: `gemm_flops_per_s` with 2 m n k floating-point operations
per product.

The best achievable rate of a dtype is the largest median over shapes; the square products give the curve of
the rate by size.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from probes.bench.answers import per_rank
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.local import on_every_device
from probes.bench.worker_answers import LinesByRank
from probes.facts.measurements import BenchFailure, Measurement, Parameter

_DTYPES = {"cuda": ("fp32", "tf32", "bf16", "fp16", "fp8"), "cpu": ("fp32", "bf16")}
"""No fp16 on CPUs: without instructions for it one product takes minutes. A GPU without one of the types
skips it.
"""
_SQUARES = {
    ("cuda", "quick"): (2048, 4096, 8192),
    ("cuda", "full"): (256, 512, 1024, 2048, 4096, 8192, 16384),
    ("cpu", "quick"): (256, 1024, 2048),
    ("cpu", "full"): (64, 128, 256, 512, 1024, 2048, 4096),
}
"""Ascending, so that the small ones tell whether the large ones are affordable. 8192 is what the field
screens GPUs with (AMD PRM's gate, mamf-finder).
"""
_BUDGET_S = {("cuda", "quick"): 8.0, ("cuda", "full"): 45.0, ("cpu", "quick"): 7.0, ("cpu", "full"): 40.0}
_SIZES = ("hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "vocab", "sequence_length")

Shape = tuple[int, int, int]
"""m, n, k."""


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """One request with the squares, the model's products and those of the settings, in every dtype.

    The quick suite has the model's products in the precision that it trains in, and all others in every
    dtype.
    """
    squares = [(size, size, size) for size in _SQUARES[context.device, context.suite]]
    model = list(model_products(context))
    cases: list[Case] = []
    for dtype in _DTYPES[context.device]:
        trained = context.suite == "full" or dtype == context.model.precision
        shapes = {*squares, *context.settings.shapes, *(model if trained else ())}
        cases += [
            {"dtype": dtype, "m": m, "n": n, "k": k}
            for m, n, k in sorted(shapes, key=lambda shape: (_flops(shape), shape))
        ]
    budget_s = _BUDGET_S[context.device, context.suite]
    settings: dict[str, Parameter] = {
        "asked": " ".join("x".join(map(str, shape)) for shape in context.settings.shapes)
    }
    return (
        on_every_device(
            context, "gemm", "matrix multiply", budget_s=budget_s, cases=tuple(cases), settings=settings
        ),
    )


def model_products(context: BenchContext) -> Iterator[Shape]:
    """The products of one layer and of the head, forward, for the tokens of the largest micro-batch, of the
    user's model or else the reference model.

    In the order of the layer: queries, keys and values as one, attention's output, up (or gate), down, head.
    """
    shape = context.settings.model or context.model.shape
    if not all(isinstance(shape.get(name), int) for name in _SIZES):
        return
    hidden, heads, kv_heads, head_dim, ffn_hidden, vocab, sequence_length = (
        int(shape[name]) for name in _SIZES
    )
    tokens = max(context.model.micro_batches, default=1) * sequence_length
    for n, k in (
        ((heads + 2 * kv_heads) * head_dim, hidden),
        (hidden, heads * head_dim),
        (ffn_hidden, hidden),
        (hidden, ffn_hidden),
        (vocab, hidden),
    ):
        yield tokens, n, k


def _flops(shape: Shape) -> float:
    m, n, k = shape
    return 2.0 * m * n * k


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] | BenchFailure:
    """The rate of every rank and case; the condition `asked` tells those that the user wanted to see."""
    found = per_rank(
        request,
        lines_by_rank,
        "gemm_flops_per_s",
        "flop/s",
        lambda case: _flops((int(case["m"]), int(case["n"]), int(case["k"]))),
    )
    if isinstance(found, BenchFailure):
        return found
    asked = str(request.settings.get("asked", "")).split()
    return tuple(
        msgspec.structs.replace(one, conditions={**one.conditions, "asked": True})
        if "x".join(str(one.parameters[side]) for side in "mnk") in asked
        else one
        for one in found
    )
