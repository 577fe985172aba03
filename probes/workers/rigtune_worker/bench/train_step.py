"""One training step of the reference workload: how long, and how much memory at the peak."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.distributed as dist

from ..memory import PeakMemory
from ..model import ModelShape
from ..parallel import agree, largest, shared_share
from ..protocol import Answer, is_out_of_memory
from ..timing import Budget, time_calls
from ..trainer import TrainConfig, Trainer


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {strategy, micro_batch, sequence_length, precision}, smallest first.

    Alone, running out of memory ends the list; together, it ends the worker, because the other ranks wait in a collective.
    """
    budget = Budget(request["budget_s"], len(request["cases"]))
    for case in request["cases"]:
        share_s = shared_share(budget, device)
        try:
            measure(case, request["model"], answer, device, share_s)
        except (RuntimeError, MemoryError) as error:
            if dist.get_world_size() > 1 or not is_out_of_memory(error):
                raise
            answer.failure("out_of_memory", f"out of memory with micro-batch {case['micro_batch']}", case)
            return


def measure(case: dict[str, Any], model: dict[str, Any], answer: Answer, device: torch.device, budget_s: float) -> None:
    shape = dataclasses.replace(ModelShape.from_dict(model), sequence_length=case["sequence_length"])
    config = TrainConfig(
        model=shape,
        strategy=case["strategy"],
        micro_batch=case["micro_batch"],
        precision=case["precision"],
        device=device.type,
        backend=dist.get_backend(),
    )
    memory = PeakMemory(device)
    trainer = Trainer(config, device)
    # The loss is averaged and read in every step, as the training loop does.
    timing = time_calls(
        lambda: agree(device, trainer.step(0)),
        device,
        budget_s=budget_s,
        sample_s=0.0,
        agree=lambda duration_s: largest(device, duration_s)[0],
    )
    answer.sample(case, timing, peak_memory_bytes=memory.allocated_bytes, peak_reserved_bytes=memory.reserved_bytes)
