"""Measure causal scaled-dot-product attention, forward and backward, with the kernel that torch chooses."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from ..cases import Prepared, time_each
from ..product import DTYPES
from ..protocol import Answer, CaseError

UNKNOWN_KERNEL = -1
CHECKED = 16
"""Number of compared queries of one head."""
TOLERANCE = 0.05
"""Largest allowed error of an output, which is a mean of standard normal values with intermediate rounding to
bf16.
"""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {pass, dtype, batch, heads, sequence_length, head_dim}, shortest sequence first.

    The time of each case is estimated from the previous case of the same pass. The time grows at most with
    the square of the sequence length.
    """

    def prepare(case: dict[str, Any]) -> Prepared:
        inputs = [random_heads(case, device) for _ in range(3)]
        kernel = chosen_kernel(*inputs)
        call = action(case["pass"], *inputs)
        call()
        return Prepared(call, figures={"kernel": kernel})

    time_each(
        request, answer, device, prepare, work_of=lambda case: (case["pass"], case["sequence_length"] ** 2)
    )


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
    try:
        return int(torch._fused_sdp_choice(q, k, v, is_causal=True))
    except (AttributeError, RuntimeError, TypeError):
        return UNKNOWN_KERNEL
