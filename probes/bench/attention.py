"""Measure causal attention, forward and backward separately: `attention_flops_per_s`.

The forward pass has 4 B H S^2 D operations (two products of S x S x D per head), and half as many with a
causal mask, which removes half of the scores. The backward pass has 2.5 times as many: five products, because
flash attention computes the scores again (Dao-AILab/flash-attention,
benchmarks/benchmark_flash_attention.py). A kernel that also computes masked scores shows a lower rate.
"""

from probes.base.record import items_of
from probes.bench.answers import case_answers, failure_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case, LinesByRank, Outcome
from probes.facts import MachineFacts

_LENGTHS = {
    ("cuda", "quick"): (2048, 8192),
    ("cuda", "full"): (512, 1024, 2048, 4096, 8192),
    ("cpu", "quick"): (512, 1024),
    ("cpu", "full"): (512, 1024, 2048),
}
"""Sequence lengths.

Torch's CPU kernel uses larger tiles from 768 tokens on, so the list has shorter and longer sequences.
"""
_PASSES = {"forward": 1.0, "backward": 2.5}
"""Operations of each pass relative to the forward pass."""
_TOKENS = {"cuda": 16384, "cpu": 2048}
"""Batch times sequence length; flash attention's benchmark uses 16384 on GPUs."""
_BUDGET_S = {("cuda", "quick"): 2.0, ("cuda", "full"): 15.0, ("cpu", "quick"): 2.0, ("cpu", "full"): 15.0}
_BF16_FLAGS = {"amx_bf16", "avx512_bf16"}
"""Processor flags with which torch's bf16 is no slower than its fp32."""
_HEADS, _HEAD_DIM = 16, 64
"""Heads and head dimension of GPT-2 medium, for a model without these sizes."""
_KERNELS: dict[float, str] = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn", 4: "overrideable"}
"""Kernel names by the value of `torch.nn.attention.SDPBackend`."""


def requests(context: BenchContext) -> tuple[BenchRequest, ...]:
    """Return one request with the heads of the model, shortest sequence first."""
    dtype, shape = _dtype(context), context.model.shape
    cases: tuple[Case, ...] = tuple(
        {
            "pass": phase,
            "dtype": dtype,
            "batch": max(1, _TOKENS[context.device] // length),
            "heads": shape.get("heads", _HEADS),
            "sequence_length": length,
            "head_dim": shape.get("head_dim", _HEAD_DIM),
        }
        for length in _LENGTHS[context.device, context.suite]
        for phase in _PASSES
    )
    return (
        context.on_every_device(
            "attention", "attention", budget_s=_BUDGET_S[context.device, context.suite], cases=cases
        ),
    )


def _dtype(context: BenchContext) -> str:
    """Return half precision on GPUs, because fast kernels require it; on CPUs bf16 if they have instructions
    for it.
    """
    if context.device == "cuda":
        return "bf16" if context.model.precision == "bf16" else "fp16"
    return "bf16" if cpu_multiplies_bf16(context.facts) else "fp32"


def cpu_multiplies_bf16(facts: MachineFacts) -> bool:
    """Return whether the processor has bf16 instructions; False if unknown."""
    return not _BF16_FLAGS.isdisjoint(items_of(facts.cpu.flags))


def flops(case: Case) -> float:
    """Return the operations of one call."""
    batch, heads, length, width = (
        float(case[name]) for name in ("batch", "heads", "sequence_length", "head_dim")
    )
    return 4.0 * batch * heads * length**2 * width / 2 * _PASSES[str(case["pass"])]


def interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> Outcome:
    """Return the rate of every rank and case, with the `kernel` that torch chose."""
    measurements = []
    for answer in case_answers(request, lines_by_rank):
        kernel = _KERNELS.get(answer.sample.figures.get("kernel", -1), "unknown")
        measurements.append(
            answer.measurement(
                "attention_flops_per_s",
                "flop/s",
                answer.rates(flops(answer.case)),
                {**answer.case, "kernel": kernel},
            )
        )
    return tuple(measurements) or failure_of(request, lines_by_rank)
