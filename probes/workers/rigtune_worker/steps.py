"""Build and time one training step, for all training benchmarks."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import torch
import torch.distributed as dist

from .cnn import CnnShape, CnnTrainer
from .model import ModelShape
from .own import CountedStep, OwnStep
from .parallel import agreed, cases_within_budget
from .peak_memory import PeakMemory
from .protocol import Answer, SetupError, Timing, is_out_of_memory
from .rigtune_helper import agree
from .timing import time_calls
from .trainer import TrainConfig, Trainer

Step = Callable[[], object]
"""Function that runs one optimizer step."""


def time_step(
    make: Callable[[], Step], device: torch.device, budget_s: float
) -> tuple[Timing, dict[str, float]]:
    """Return the durations of the step that `make` builds, and the peak memory including its construction.

    The first step creates the optimizer's states and is not timed. Later steps use these states, so that the
    peak contains both.
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
    """Return the reference transformer's step. `case` contains the fields of a `TrainConfig`."""
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


def time_own_step(
    own: OwnStep, device: torch.device, budget_s: float, micro_batch: int | None = None
) -> tuple[Timing, dict[str, float], list[float]]:
    """Return the durations and figures of the user's step, and its tokens, images and samples per step."""
    built: list[CountedStep] = []

    def make() -> CountedStep:
        built.append(own.build(device, micro_batch))
        return built[0]

    timing, figures = time_step(make, device, budget_s)
    return timing, figures, built[0].per_step()


def cnn_step(case: dict[str, Any], model: dict[str, Any], device: torch.device) -> Step:
    """Return the residual network's step. `case` contains micro_batch, image_size and precision."""
    trainer = CnnTrainer(
        CnnShape.from_dict(model),
        micro_batch=case["micro_batch"],
        image_size=case["image_size"],
        precision=case["precision"],
        device=device,
        world_size=dist.get_world_size(),
    )
    return lambda: agree(device, trainer.step())


def measure_cases(
    request: dict[str, Any],
    answer: Answer,
    device: torch.device,
    make_step: Callable[[dict[str, Any], dict[str, Any], torch.device], Step],
    *,
    variant: tuple[str, ...],
) -> None:
    """Time `make_step(case, model, device)` for every case.

    Cases with equal `variant` fields differ only in size.

    A case that this torch does not support is reported. On one rank, running out of memory ends the larger
    cases of the same variant; on several ranks it ends the worker, because the other ranks wait in a
    collective.
    """
    too_large = set()
    for case, share_s in cases_within_budget(request, answer, device):
        kind = tuple(case[name] for name in variant)
        if kind in too_large:
            answer.skipped(case, "a smaller micro-batch did not fit")
            continue
        try:
            timing, figures = time_step(
                lambda case=case: make_step(case, request["model"], device), device, share_s
            )
            answer.sample(case, timing, **figures)
        except SetupError as error:
            answer.failure("unsupported", str(error), case)
        except (RuntimeError, MemoryError) as error:
            if dist.get_world_size() > 1 or not is_out_of_memory(error):
                raise
            answer.failure("out_of_memory", f"out of memory with micro-batch {case['micro_batch']}", case)
            too_large.add(kind)
