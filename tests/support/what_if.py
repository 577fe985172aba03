"""Answers of what-if questions with made-up speeds."""

from __future__ import annotations

from probes.base.record import Reason, Unknown
from recipes.planning.what_if import Answer

NO_PLAN = Unknown(Reason.NOT_SUPPORTED, "there is no plan")


def timed_answer(gpus: int, speed: float, label: str = "", **changes: object) -> Answer:
    """Return the answer of a plan for nodes of eight GPUs that trains a run of 1e9 tokens."""
    hours = 1e9 / speed / 3600
    values = {
        "label": label or f"{gpus // 8} nodes",
        "machine": "test",
        "nodes": gpus // 8,
        "gpus": gpus,
        "layout": "fsdp, micro-batch 1",
        "reason": "",
        "global_batch": 512,
        "step_time_s": 512 * 4096 / speed,
        "tokens_per_s": speed,
        "hours": hours,
        "gpu_hours": hours * gpus,
        "cost": 2.0 * hours * gpus,
    }
    return Answer(**{**values, **changes})  # type: ignore[arg-type]


def refused_answer(label: str, reason: str) -> Answer:
    """Return the answer of a variant without a plan."""
    return timed_answer(
        0,
        1.0,
        label,
        layout="",
        reason=reason,
        step_time_s=NO_PLAN,
        tokens_per_s=NO_PLAN,
        hours=NO_PLAN,
        gpu_hours=NO_PLAN,
        cost=None,
    )
