"""A program that saves after each step, ends after USR1 or TERM, and resumes: resumable.py FOLDER STEPS.

Rank 0 writes a line with the number of the start, the step, the loss and the Slurm job to FOLDER/losses.
In its first start the program waits after half of the steps, until a signal or an accident ends it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

folder, steps = Path(sys.argv[1]), int(sys.argv[2])
checkpoint = folder / "checkpoint.pt"
signals: list[int] = []
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda number, _frame: signals.append(number))

dist.init_process_group("gloo")
rank = dist.get_rank()


def mean(value: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(value)
    return value / dist.get_world_size()


def is_stopped() -> bool:
    """Agree on a stop, because signals reach the ranks at different times."""
    return bool(mean(torch.tensor([float(bool(signals))])) > 0)


is_first = not checkpoint.exists()
dist.barrier()
state = {"step": 0, "weight": torch.tensor([10.0], dtype=torch.float64)}
if not is_first:
    state = torch.load(checkpoint)
starts = len(list(folder.glob("start-*")))
dist.barrier()
if rank == 0:
    (folder / f"start-{starts}-{dist.get_world_size()}").touch()

stopped = is_stopped()
while state["step"] < steps and not stopped:
    error = state["weight"] - rank
    loss = mean(error**2)
    state = {"step": state["step"] + 1, "weight": state["weight"] - 0.1 * mean(2 * error)}
    if rank == 0:
        torch.save(state, folder / "new.pt")
        (folder / "new.pt").rename(checkpoint)
        with (folder / "losses").open("a") as file:
            file.write(f"{starts} {state['step']} {loss.item()!r} {os.environ.get('SLURM_JOB_ID', '')}\n")
    stopped = is_stopped()
    while is_first and state["step"] == steps // 2 and not stopped:
        if rank == 0:
            (folder / "waiting").touch()
        stopped = is_stopped()
dist.destroy_process_group()
