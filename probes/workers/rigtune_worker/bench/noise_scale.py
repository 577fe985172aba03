"""Measure squared norms of gradients of small and of large batches, for the gradient noise scale."""

from __future__ import annotations

import math
import time
from typing import Any, Callable, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ..own import OwnStep, items_in, users_errors
from ..parallel import largest
from ..protocol import Answer, CaseError
from ..steps import reference_trainer
from ..trainer import synthetic_batch

FEWEST_STEPS = 8
MOST_STEPS = 200
WARMUP_STEPS = 20
"""Number of steps in which the reference transformer's learning rate grows linearly to its peak."""


class Subject(NamedTuple):
    """The trained object whose gradients are measured."""

    parameters: list[torch.nn.Parameter]
    backward: Callable[[int], float]
    """Function that leaves the mean gradient of a small batch in the parameters' `grad` and returns the
    batch's number of sequences.
    """
    update: Callable[[list[Tensor]], object]
    """Function that makes one optimizer step with the mean gradient of the large batch."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Train the case {micro_batch, accumulation ...} within the budget.

    The small batch is one micro-batch of one rank. The large batch contains all micro-batches of all ranks.
    The answer contains for every step the mean squared norm of the small batches' gradients, and the squared
    norm of the large batch's gradient.
    """
    case, settings = request["cases"][0], request["settings"]
    if "step" in case:
        subject = own_subject(OwnStep(case["step"], str(settings.get("folder", ""))), device)
    else:
        subject = reference_subject(case, request["model"], device)
    ends = time.monotonic() + request["budget_s"]
    durations_s: list[float] = []
    series: dict[str, list[float]] = {"small_squared_norm": [], "large_squared_norm": []}
    sequences = 0.0
    while len(durations_s) < MOST_STEPS:
        began = time.monotonic()
        is_late = largest(device, float(began > ends))[0] > 0
        if is_late and len(durations_s) >= FEWEST_STEPS:
            break
        small, large, sequences = one_step(subject, len(durations_s), case["accumulation"], device)
        if not (math.isfinite(small) and math.isfinite(large)):
            raise CaseError(
                "wrong_result",
                f"the gradients of step {len(durations_s) + 1} are not finite: training diverged",
            )
        series["small_squared_norm"].append(small)
        series["large_squared_norm"].append(large)
        durations_s.append(largest(device, time.monotonic() - began)[0])
    ranks = dist.get_world_size()
    answer.sample(
        case,
        durations_s,
        series,
        small_batch=sequences,
        large_batch=sequences * case["accumulation"] * ranks,
        world_size=ranks,
    )


def one_step(
    subject: Subject, index: int, accumulation: int, device: torch.device
) -> tuple[float, float, float]:
    """Make one step; return the squared norms of the small gradients (mean) and of the large gradient.

    The third value is the number of sequences per small batch.
    """
    ranks = dist.get_world_size()
    totals = [torch.zeros_like(parameter) for parameter in subject.parameters]
    small, sequences = torch.zeros((), dtype=torch.float64, device=device), 0.0
    for number in range(accumulation):
        sequences = subject.backward((index * ranks + dist.get_rank()) * accumulation + number)
        gradients = [parameter.grad for parameter in subject.parameters]
        small += squared_norm([gradient for gradient in gradients if gradient is not None])
        for total, parameter in zip(totals, subject.parameters):
            if parameter.grad is not None:
                total.add_(parameter.grad)
                parameter.grad = None
    for total in totals:
        if ranks > 1:
            dist.all_reduce(total)
        total.div_(accumulation * ranks)
    dist.all_reduce(small)
    large = squared_norm(totals)
    subject.update(totals)
    return float(small) / (accumulation * ranks), float(large), sequences


def squared_norm(gradients: list[Tensor]) -> Tensor:
    return torch.stack(
        [torch.linalg.vector_norm(gradient.detach()).double() ** 2 for gradient in gradients]
    ).sum()


def reference_subject(case: dict[str, Any], model: dict[str, Any], device: torch.device) -> Subject:
    """Return the reference transformer on its synthetic sequences, each used once."""
    trainer = reference_trainer(
        {**case, "strategy": "ddp", "activation_checkpointing": "none"}, model, device
    )
    shape, micro_batch = trainer.config.model, case["micro_batch"]
    parameters = list(trainer.model.parameters())
    steps = 0

    def backward(number: int) -> float:
        inputs, targets = synthetic_batch(
            number * micro_batch, micro_batch, shape.sequence_length, shape.vocab, device
        )
        with trainer.reduction(last=False):  # the gradient of each rank is needed separately
            trainer.loss(inputs, targets).backward()
        return micro_batch

    def update(mean: list[Tensor]) -> None:
        nonlocal steps
        steps += 1
        for group in trainer.optimizer.param_groups:
            group["lr"] = trainer.config.learning_rate * min(1.0, steps / WARMUP_STEPS)
        for parameter, gradient in zip(parameters, mean):
            parameter.grad = gradient
        trainer.optimizer.step()
        trainer.optimizer.zero_grad(set_to_none=True)

    return Subject(parameters, backward, update)


def own_subject(own: OwnStep, device: torch.device) -> Subject:
    """Return the user's step as a subject.

    The step must have `model` and `backward`, and it updates the weights. Raises CaseError.
    """
    counted = own.build(device)
    step, target = counted.inner, own.target
    model, forward_backward = getattr(step, "model", None), getattr(step, "backward", None)
    if not isinstance(model, torch.nn.Module) or not callable(forward_backward):
        raise CaseError(
            "unsupported", f"the step of {target} has no `model` and `backward`, which the noise scale needs"
        )
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def backward(_number: int) -> float:
        with users_errors(target):
            report = forward_backward()
        report = items_in(report, f"`backward` of {target}")
        sequences = report.get("samples") or report.get("images") or counted.micro_batch
        if not sequences:
            raise CaseError(
                "unsupported", f'`backward` of {target} must return {{"samples": N}} or take micro_batch'
            )
        if all(parameter.grad is None for parameter in parameters):
            raise CaseError("unsupported", f"`backward` of {target} left no gradients in `model`")
        return float(sequences)

    def update(_mean: list[Tensor]) -> None:
        counted()
        model.zero_grad(set_to_none=True)

    model.zero_grad(set_to_none=True)
    return Subject(parameters, backward, update)
