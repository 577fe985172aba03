"""Measure causal scaled-dot-product attention, forward and backward, with the kernel that torch chooses."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ..cases import each_case, refuse_overrun, together
from ..product import DTYPES
from ..protocol import Answer, CaseError
from ..timing import FEWEST_SAMPLES, time_calls

FEWEST_CALLS = FEWEST_SAMPLES + 2
"""Fewest calls of a case, including a warm-up of two."""
UNKNOWN_KERNEL = -1
CHECKED = 16
"""Number of compared queries of one head."""
TOLERANCE = 0.05
"""Largest error of an output, a mean of standard normal values, with intermediate rounding to bf16."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {pass, dtype, batch, heads, sequence_length, head_dim}, shortest sequence first.

    A case that would far exceed its time share, judged by the previous case of the same pass, is skipped. The
    time grows at most with the square of the sequence length.
    """
    seconds: dict[str, tuple[int, float]] = {}

    def prepare(case: dict[str, Any], budget_s: float) -> Callable[[], None]:
        length, phase = case["sequence_length"], case["pass"]
        known_length, known_s = seconds.get(phase, (length, 0.0))
        refuse_overrun(known_s * (length / known_length) ** 2 * FEWEST_CALLS, budget_s)
        inputs = [random_heads(case, device) for _ in range(3)]
        kernel = chosen_kernel(*inputs)
        call = action(phase, *inputs)
        call()

        def measure() -> None:
            timing = time_calls(call, device, budget_s=budget_s, agree=together())
            seconds[phase] = (length, min(timing.durations_s))
            answer.sample(case, timing, kernel=kernel)

        return measure

    each_case(request, answer, device, prepare)


def random_heads(case: dict[str, Any], device: torch.device) -> Tensor:
    """Return random queries, keys or values [B, H, S, D]."""
    shape = (case["batch"], case["heads"], case["sequence_length"], case["head_dim"])
    return torch.randn(shape, device=device, dtype=DTYPES[case["dtype"]]).requires_grad_(
        case["pass"] == "backward"
    )


def action(phase: str, q: Tensor, k: Tensor, v: Tensor) -> Callable[[], object]:
    """Return the call to time, after a check of its result."""
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    check(q, k, v, out)
    if phase == "forward":
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)


@torch.no_grad()
def check(q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> None:
    """Compare some queries of the last head with attention in fp64. Raises CaseError (wrong_result)."""
    length, width = q.shape[-2:]
    step = max(1, length // CHECKED)
    queries, keys, values = q[-1, -1, ::step].double(), k[-1, -1].double(), v[-1, -1].double()
    places = torch.arange(length, device=q.device)
    scores = (queries @ keys.t() / math.sqrt(width)).masked_fill(places > places[::step, None], -math.inf)
    wrong = float((out[-1, -1, ::step].double() - scores.softmax(-1) @ values).abs().max())
    if not wrong <= TOLERANCE:
        raise CaseError(
            "wrong_result", f"an output of attention is off by {wrong:.2g}: silent data corruption"
        )


def chosen_kernel(q: Tensor, k: Tensor, v: Tensor) -> int:
    """Return the `torch.nn.attention.SDPBackend` that torch chooses; UNKNOWN_KERNEL if not available."""
    choose = getattr(torch, "_fused_sdp_choice", None)
    if choose is None:
        return UNKNOWN_KERNEL
    try:
        return int(choose(q, k, v, is_causal=True))
    except (RuntimeError, TypeError):
        return UNKNOWN_KERNEL
