"""Build and time one training step, for all training benchmarks."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import torch
import torch.distributed as dist

from .cnn import CnnShape, CnnTrainer
from .model import ModelShape
from .parallel import agree, agreed
from .peak_memory import PeakMemory
from .protocol import Timing
from .timing import time_calls
from .trainer import TrainConfig, Trainer

Step = Callable[[], object]
"""Function that runs one optimizer step."""


def time_step(
    make: Callable[[], Step], device: torch.device, budget_s: float
) -> tuple[Timing, dict[str, float]]:
    """Return the durations of the step that `make` builds, and the peak memory including its construction.

    The first step creates the optimizer's states and is not timed; later steps use them, so that the peak
    covers both.
    """
    memory = PeakMemory(device)
    step = make()
    step()
    timing = time_calls(step, device, budget_s=budget_s, sample_s=0.0, agree=agreed(device))
    timing = timing._replace(warmup_calls=timing.warmup_calls + 1)
    figures = {"peak_memory_bytes": memory.allocated_bytes}
    if device.type == "cuda":  # a CPU has no separate reservation
        figures["peak_reserved_bytes"] = memory.reserved_bytes
    return timing, figures


def reference_step(case: dict[str, Any], model: dict[str, Any], device: torch.device) -> Step:
    """Return the reference transformer's step. `case` holds the fields of a `TrainConfig`."""
    trainer = reference_trainer(case, model, device)
    # Like the training loop, average and read the loss in every step.
    return lambda: agree(device, trainer.step(0))


def reference_trainer(case: dict[str, Any], model: dict[str, Any], device: torch.device) -> Trainer:
    config = TrainConfig(
        model=dataclasses.replace(ModelShape.from_dict(model), sequence_length=case["sequence_length"]),
        strategy=case["strategy"],
        micro_batch=case["micro_batch"],
        grad_accum=case.get("grad_accum", 1),
        activation_checkpointing=case["activation_checkpointing"],
        precision=case["precision"],
        device=device.type,
        backend=dist.get_backend(),
    )
    return Trainer(config, device)


def cnn_step(case: dict[str, Any], model: dict[str, Any], device: torch.device) -> Step:
    """Return the residual network's step. `case` holds micro_batch, image_size and precision."""
    trainer = CnnTrainer(
        CnnShape.from_dict(model),
        micro_batch=case["micro_batch"],
        image_size=case["image_size"],
        precision=case["precision"],
        device=device,
        world_size=dist.get_world_size(),
    )
    return lambda: agree(device, trainer.step())
