"""The memory and memory traffic of optimizers."""

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
"""Bytes of fp32 states per parameter.

Adam and LAMB have two moments; momentum, Lion and Muon have one (Muon's tables and norms have two). Adafactor
has rows and columns (arXiv 1804.04235), 8-bit Adam two quantised moments (arXiv 2110.02861), 4-bit Adam also
a scale for each 128 (arXiv 2309.01507), Adam-mini one moment and a number per block (arXiv 2406.16793).
GaLore has projections and two moments of a quarter of the rank, a third of Adam's (arXiv 2403.03507, table
2). LOMO has none (arXiv 2306.09782).
"""

QUANTISED: frozenset[Optimizer] = frozenset(("adamw-8bit", "adamw-4bit", "lion-8bit", "galore-8bit"))
"""Optimizers whose states have the same size beside 16-bit weights."""

_BY_TENSOR: frozenset[Optimizer] = QUANTISED | {"adafactor", "adam-mini", "galore", "lomo"}
"""Optimizers that step each tensor by itself (bitsandbytes, torchao, transformers).

Their temporaries are smaller than the model.
"""


def steps_all_at_once(workload: Workload) -> bool:
    """Return whether the optimizer steps all tensors together, after the backward pass."""
    return workload.optimizer_step == "after" and workload.optimizer not in _BY_TENSOR


_ADAMW_BYTES = 12.0 + 2.0 * 8.0


def traffic_share(optimizer: Optimizer, *, pure: bool = False) -> float:
    """Return the bytes that a step reads and writes per parameter, over those of AdamW all in fp32.

    Weight and gradient are read, the weight is written, and states are read and written; half of it if all is
    16 bits.
    """
    states, weights = STATE_BYTES[optimizer], 12.0
    if pure:
        weights /= 2.0
        states /= 1.0 if optimizer in QUANTISED else 2.0
    return (weights + 2.0 * states) / _ADAMW_BYTES


WITHOUT_MASTERS: frozenset[Optimizer] = frozenset({"lomo"})
"""Optimizers that update 16-bit weights themselves.

They need no memory but weights and one layer's gradient (arXiv 2306.09782, section 3.1).
"""
