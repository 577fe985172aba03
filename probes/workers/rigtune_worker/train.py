"""Run the reference training program: a real job on synthetic data, on one CPU or on many GPU nodes.

    torchrun --nproc-per-node 2 -m rigtune_worker.train --config workload.json
    python -m rigtune_worker.train --config workload.json --steps 10 --report report.jsonl

The report has one JSON object per line, each with `event`: `start`, then `step` for every optimizer step,
then `done`, or `failed` with `kind` and `message`. SIGTERM, SIGUSR1 and SIGINT end the job after the current
step.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any, TextIO

import torch
import torch.distributed as dist

from .parallel import choose_device, largest, process_group
from .peak_memory import PeakMemory
from .protocol import SetupError, dump_line, is_out_of_memory
from .rank_conditions import cpu_name
from .rigtune_helper import StopRequest, agree
from .trainer import TrainConfig, Trainer
from .worker_process import die_with_parent, run_and_leave

WARMUP_STEPS = 3
"""Number of first steps that the median step time excludes if at least as many further steps follow; else
only the first step is excluded.

Allocators, kernels and links are not yet in their steady state.
"""


class Report:
    """The report file of rank 0; other ranks, and jobs without `--report`, write nothing."""

    def __init__(self, path: str | None) -> None:
        # The file stays open as long as the job runs.
        self.file: TextIO | None = open(path, "w", encoding="utf-8") if path else None  # noqa: SIM115

    def write(self, event: str, **fields: Any) -> None:
        if self.file is not None:
            dump_line(self.file, {"event": event, **fields})


def median_step_time(durations_s: list[float]) -> float:
    left_out = WARMUP_STEPS if len(durations_s) >= 2 * WARMUP_STEPS else 1
    return statistics.median(durations_s[left_out:] or durations_s)


def train(config: TrainConfig, device: torch.device, steps: int, report: Report) -> None:
    """Train for `steps` steps; rank 0 prints and reports."""
    stop = StopRequest()
    memory = PeakMemory(device)
    trainer = Trainer(config, device)
    leads = trainer.rank == 0
    if leads:
        parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
        print(
            f"world size {trainer.world_size}, backend {dist.get_backend()}, strategy {config.strategy}, "
            f"device {device.type}, "
            f"model {config.model.id} with {parameters / 1e6:.1f} M parameters, {config.precision}, "
            f"micro-batch {config.micro_batch} x accumulation {config.grad_accum} x "
            f"{config.model.sequence_length} tokens",
            flush=True,
        )
        report.write(
            "start",
            world_size=trainer.world_size,
            backend=dist.get_backend(),
            strategy=config.strategy,
            device=device.type,
            device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name(),
            torch_version=torch.__version__,
            parameters=parameters,
            steps=steps,
            tokens_per_step=trainer.tokens_per_step,
        )
    losses: list[float] = []
    durations_s: list[float] = []
    asked = False
    while len(losses) < steps and not asked:
        started = time.perf_counter()
        share = trainer.step(len(losses))
        loss, asked = agree(device, share, stop=stop.asked)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        durations_s.append(time.perf_counter() - started)
        losses.append(loss)
        if leads:
            timing = (
                f"step_time {durations_s[-1]:.3f} s  "
                f"tokens/s {trainer.tokens_per_step / durations_s[-1]:,.0f}"
            )
            print(f"step {len(losses)}/{steps}  loss {loss:.3f}  {timing}", flush=True)
            report.write("step", step=len(losses), loss=loss, duration_s=durations_s[-1])
    allocated, reserved = (
        int(value) for value in largest(device, memory.allocated_bytes, memory.reserved_bytes)
    )
    if leads:
        if asked:
            print(f"stopped after step {len(losses)}, because of a signal", flush=True)
        median_s = median_step_time(durations_s)
        print(
            f"done: loss {losses[0]:.3f} -> {losses[-1]:.3f}, median step time {median_s:.4f} s, "
            f"peak memory {allocated / 2**30:.2f} GiB allocated, "
            f"{reserved / 2**30:.2f} GiB reserved per rank",
            flush=True,
        )
        report.write(
            "done",
            steps=len(losses),
            interrupted=asked,
            median_step_time_s=median_s,
            peak_memory_bytes=allocated,
            peak_reserved_bytes=reserved,
            loss_first=losses[0],
            loss_last=losses[-1],
        )


def read_config(path: str) -> TrainConfig:
    """Return the job in a JSON file. Raises SetupError."""
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
    except (OSError, ValueError) as error:
        raise SetupError(f"cannot read {path}: {error}") from None
    if not isinstance(values, dict):
        raise SetupError(f"{path}: not a JSON object")
    try:
        return TrainConfig.from_dict(values)
    except ValueError as error:
        raise SetupError(f"{path}: {error}") from None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rigtune_worker.train", description="Train the reference workload."
    )
    parser.add_argument(
        "--config", required=True, help="JSON with model, parallelism, convergence and resources"
    )
    parser.add_argument(
        "--steps",
        type=int,
        help="stop after this number of steps; the learning rate schedule of the config does not change",
    )
    parser.add_argument("--report", help="write start, steps and result as JSON lines to this file")
    options = parser.parse_args(arguments)
    die_with_parent()
    report = Report(options.report if os.environ.get("RANK", "0") == "0" else None)
    micro_batch = "?"
    try:
        config = read_config(options.config)
        micro_batch = str(config.micro_batch)
        steps = options.steps if options.steps is not None else config.steps
        if steps < 1:
            raise SetupError(f"--steps must be at least 1, not {steps}")
        device = choose_device(config.device)
        with process_group(config.backend, device):
            train(config, device, steps, report)
    except (SetupError, ValueError) as error:
        return failed(report, "setup", str(error))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        advice = "lower micro_batch, turn activation checkpointing on, or shard with fsdp"
        return failed(report, "out_of_memory", f"out of memory with micro-batch {micro_batch}: {advice}")
    return 0


def failed(report: Report, kind: str, message: str) -> int:
    print(f"rigtune_worker: error: {message}", file=sys.stderr, flush=True)
    report.write("failed", kind=kind, message=message)
    return 1


if __name__ == "__main__":
    run_and_leave(main)
