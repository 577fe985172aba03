"""Measure a forward and backward pass with and without the exchange of gradients, and the exchange alone,
one after the other.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable

import torch
import torch.distributed as dist

from ..parallel import barrier, largest
from ..protocol import Answer
from ..rigtune_helper import BUCKET_CAP_MB
from ..steps import reference_trainer
from ..timing import elapsed_s
from ..trainer import synthetic_batch

MOST_SAMPLES = 50
FEWEST_SAMPLES = 3
WARMUP_ROUNDS = 3
"""Number of first rounds that are left out: DDP rebuilds its buckets after the first backward pass."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure the cases {part, micro_batch, sequence_length, precision} for computation, communication, both.

    The parts take turns, so that changes over time (clocks, other programs) affect all three alike.
    """
    cases = request["cases"]
    calls = parts_of(cases[0], request["model"], device)
    durations_s: dict[str, list[float]] = {case["part"]: [] for case in cases}

    ends = time.monotonic() + request["budget_s"]
    for turn in range(WARMUP_ROUNDS + MOST_SAMPLES):
        for part, samples in durations_s.items():
            barrier()
            duration_s = elapsed_s(calls[part], device, 1)
            if turn >= WARMUP_ROUNDS:
                samples.append(duration_s)
        if largest(device, time.monotonic() - ends)[0] > 0 and turn >= WARMUP_ROUNDS + FEWEST_SAMPLES - 1:
            break
    for case in cases:
        answer.sample(case, durations_s[case["part"]])


def parts_of(
    case: dict[str, Any], model: dict[str, Any], device: torch.device
) -> dict[str, Callable[[], object]]:
    """Return the call to time for each part.

    The forward pass belongs to the computation, because every backward pass needs a new forward pass.
    """
    settings = {**case, "strategy": "ddp", "activation_checkpointing": "none"}
    trainer = reference_trainer(settings, model, device)
    shape = trainer.config.model
    inputs, targets = synthetic_batch(0, case["micro_batch"], shape.sequence_length, shape.vocab, device)
    buckets = bucket_tensors(trainer.model, device)

    def backward(*, exchange: bool) -> None:
        with contextlib.nullcontext() if exchange else trainer.model.no_sync():
            trainer.loss(inputs, targets).backward()

    def communicate() -> None:
        for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
            work.wait()

    return {
        "computation": lambda: backward(exchange=False),
        "communication": communicate,
        "both": lambda: backward(exchange=True),
    }


def bucket_tensors(model: torch.nn.Module, device: torch.device) -> list[torch.Tensor]:
    """Return tensors of about the sizes in which DDP sends the gradients: full buckets, and the remainder."""
    left = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    most = BUCKET_CAP_MB * 1024**2 // 4
    sizes = [most] * (left // most) + ([left % most] if left % most else [])
    return [torch.zeros(size, device=device) for size in sizes]
