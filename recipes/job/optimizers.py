"""What optimizers keep, move and need for a while."""

from __future__ import annotations

from recipes.job.workload import Optimizer, Workload

STATE_BYTES: dict[Optimizer, float] = {
    "adamw": 8.0,
    "adamw-8bit": 2.0,
    "adamw-4bit": 1.06,
    "adam-mini": 4.0,
    "sgd": 4.0,
    "adafactor": 0.05,
    "lion": 4.0,
    "lion-8bit": 1.0,
    "lamb": 8.0,
    "lars": 4.0,
    "muon": 4.0,
    "galore": 2.7,
    "galore-8bit": 0.9,
    "lomo": 0.0,
}
"""Bytes per parameter with fp32 states: two moments of Adam and LAMB, one of momentum, Lion and Muon (whose tables and norms
have two), rows and columns of Adafactor (arXiv 1804.04235), two quantised moments of 8-bit Adam (arXiv 2110.02861) and of 4-bit
Adam with a scale for each 128 (arXiv 2309.01507), one moment and a number per block of Adam-mini (arXiv 2406.16793), projections
and two moments of a quarter of the rank (GaLore, arXiv 2403.03507, table 2: a third of Adam's), none of LOMO (arXiv
2306.09782).
"""

QUANTISED: frozenset[Optimizer] = frozenset(("adamw-8bit", "adamw-4bit", "lion-8bit", "galore-8bit"))
"""Their states are as large beside 16-bit weights."""

_BY_TENSOR: frozenset[Optimizer] = QUANTISED | {"adafactor", "adam-mini", "galore", "lomo"}
"""Each tensor is stepped by itself, so that no temporaries are as large as the model (bitsandbytes, torchao,
transformers).
"""


def steps_all_at_once(workload: Workload) -> bool:
    """Return whether the optimizer's step goes over all tensors, after the backward pass, instead of one
    tensor after the other.
    """
    return workload.optimizer_step == "after" and workload.optimizer not in _BY_TENSOR


_ADAMW_BYTES = 12.0 + 2.0 * 8.0


def traffic_share(optimizer: Optimizer, *, pure: bool = False) -> float:
    """Return bytes that a step reads and writes per parameter, over those of AdamW all in fp32.

    Weight and gradient are read, the weight is written, and states are read and written; half of it where all
    is 16 bits.
    """
    states, weights = STATE_BYTES[optimizer], 12.0
    if pure:
        weights /= 2.0
        states /= 1.0 if optimizer in QUANTISED else 2.0
    return (weights + 2.0 * states) / _ADAMW_BYTES


WITHOUT_MASTERS: frozenset[Optimizer] = frozenset({"lomo"})
"""Those that update 16-bit weights themselves: nothing but weights and one layer's gradient is held (arXiv
2306.09782, 3.1).
"""
