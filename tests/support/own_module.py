"""Answers of the worker that counts a module of the user's own."""

from __future__ import annotations

from typing import Any


def counted_answer(**changes: object) -> dict[str, Any]:
    """Return the answer for one sample of a small network; `changes` replace fields of the answer."""
    each = {
        "forward_flops": 2e9,
        "dense_flops": 6e9,
        "grouped_flops": 0.0,
        "convolution_elements": 4e7,
        "matrix_elements": 1e6,
        "depthwise_elements": 0.0,
        "pointwise_elements": 6e7,
        "saved_elements": 2e7,
    }
    answer = {
        "event": "counted",
        "parameters": {"float32": 600, "bfloat16": 400},
        "trainable_parameters": 1000,
        "operators": 60.0,
        "micro_batch": 2,
        "takes_micro_batch": True,
        "per_sample": each,
    }
    return {**answer, **changes}
