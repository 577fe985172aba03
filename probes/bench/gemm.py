"""Measure matrix multiplication by dtype and shape: `gemm_flops_per_s`, 2 m n k operations per product.

The best achievable rate of a dtype is the largest median over shapes. The square products give the rate by
size.
"""

from collections.abc import Iterator

from probes.bench.answers import per_rank, with_conditions
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome
from probes.facts.measurements import BenchFailure

_DTYPES = {"cuda": ("fp32", "tf32", "bf16", "fp16", "fp8"), "cpu": ("fp32", "bf16")}
"""Data types by device; a GPU skips types that it does not support.

The list for CPUs has no fp16, because a product takes minutes on a CPU without instructions for fp16.
"""
_SQUARES = {
    ("cuda", "quick"): (2048, 4096, 8192),
    ("cuda", "full"): (256, 512, 1024, 2048, 4096, 8192, 16384),
    ("cpu", "quick"): (256, 1024, 2048),
    ("cpu", "full"): (64, 128, 256, 512, 1024, 2048, 4096),
}
"""Sizes in ascending order, so that the times of small products show whether large products are affordable.

Other tools test GPUs with size 8192 (AMD PRM's gate, mamf-finder).
"""
_BUDGET_S = {("cuda", "quick"): 8.0, ("cuda", "full"): 45.0, ("cpu", "quick"): 7.0, ("cpu", "full"): 40.0}
_SIZES = ("hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "vocab", "sequence_length")

Shape = tuple[int, int, int]
"""The sizes m, n, k of a product."""


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request with the square products, and the products of the model and of the settings, in
    every dtype.

    The quick suite measures the model's products only in the precision of the training.
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
    return (
        context.on_every_device(
            "gemm",
            "matrix multiply",
            budget_s=_BUDGET_S[context.device, context.suite],
            cases=tuple(cases),
            settings={"asked": " ".join("x".join(map(str, shape)) for shape in context.settings.shapes)},
        ),
    )


def model_products(context: BenchContext) -> Iterator[Shape]:
    """Yield the forward products of a layer and of the head, for the tokens of the largest micro-batch.

    The model is the user's model, or else the reference model. The products come in the order of the layer:
    queries, keys and values as one product, attention output, up (or gate), down, head.
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


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the rate of every rank and case; the condition `asked` marks the shapes of the user."""
    measurements = per_rank(
        request,
        lines_by_rank,
        "gemm_flops_per_s",
        "flop/s",
        lambda case: _flops((int(case["m"]), int(case["n"]), int(case["k"]))),
    )
    if isinstance(measurements, BenchFailure):
        return measurements
    asked = str(request.settings.get("asked", "")).split()
    return tuple(
        with_conditions(row, {"asked": True})
        if "x".join(str(row.parameters[side]) for side in "mnk") in asked
        else row
        for row in measurements
    )
