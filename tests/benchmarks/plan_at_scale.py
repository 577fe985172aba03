"""Measure how long `rigtune plan` takes on one core, the whole command with its search, as the cluster grows.

    python tests/benchmarks/plan_at_scale.py [--all] [--repeats 5]

For comparison, SimuMax takes 4.8, 28 and 65 s at 8, 64 and 1 024 GPUs. The script prints the processor seconds of the
fastest of several runs, which other processes on the machine hardly change.
"""

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
GPUS_PER_NODE = 8


class Job(NamedTuple):
    """A model, and optionally the program that trains it and the global batch in sequences.

    Without a program, the command compares all programs.
    """

    model: str
    program: str = ""
    sequences: int | None = None


JOBS = {
    8: (
        Job("llama-3-8b"),
        Job("qwen3-30b-a3b", "torchtitan"),
        Job("llama-3-8b", "", 512),
        Job("llama-3-8b", "megatron", 512),
        Job("llama-3-8b", "torchtitan", 64),
    ),
    64: (
        Job("llama-3-8b"),
        Job("llama-3-70b", "megatron", 512),
        Job("mixtral-8x7b", "megatron", 512),
    ),
    1024: (
        Job("llama-3-70b"),
        Job("mixtral-8x7b"),
        Job("llama-3-70b", "", 1024),
        Job("llama-3-405b", "", 512),
        Job("llama-3-405b", "megatron", 1024),
        Job("llama-3-405b", "torchtitan", 1024),
        Job("deepseek-v3", "megatron", 4096),
        Job("deepseek-v3"),
        Job("deepseek-v3", "megatron"),
        Job("deepseek-v3", "torchtitan"),
        Job("nemotron-3-ultra-550b-a55b", "torchtitan"),
        Job("qwen3-235b-a22b", "torchtitan"),
    ),
    2048: (
        Job("deepseek-v3", "megatron", 15360),
        Job("deepseek-v3", "torchtitan", 15360),
        Job("deepseek-v3", "megatron"),
        Job("deepseek-v3", "torchtitan"),
    ),
    16384: (
        Job("llama-3.1-405b"),
        Job("llama-3-405b", "megatron", 2048),
        Job("deepseek-v3", "megatron", 16384),
    ),
    131072: (
        Job("llama-3.1-405b"),
        Job("llama-3-405b", "", 16384),
        Job("llama-3-405b", "megatron", 16384),
        Job("llama-3-405b", "torchtitan", 16384),
        Job("deepseek-v3", "megatron", 131072),
        Job("deepseek-v3"),
        Job("nemotron-3-ultra-550b-a55b"),
        Job("nemotron-3-ultra-550b-a55b", "torchtitan"),
    ),
}
"""Jobs by the number of GPUs."""
BARS_S = {8: 0.4, 1024: 1.0, 2048: 2.0, 131072: 3.0}
"""Longest time by the number of GPUs."""


def processor_seconds(job: Job, gpus: int) -> float:
    """Return the seconds that the command computes on one core."""
    core = min(os.sched_getaffinity(0))
    argv = [sys.executable, "-m", "assistant", "plan", job.model, "--gpu", "H100-SXM-80GB"]
    argv += ["--gpus", str(GPUS_PER_NODE), "--nodes", str(gpus // GPUS_PER_NODE)]
    argv += [] if job.sequences is None else ["--global-batch", str(job.sequences)]
    argv += ["--program", job.program] if job.program else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        argv,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    if ended.returncode:
        print(f"{job.model} on {gpus} GPUs: {ended.stderr.strip()[-200:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="also sizes without a bar")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each job; the fastest counts")
    options = parser.parse_args()
    print(f"{'GPUs':>7}  {'model':<26} {'program':<11} {'batch':>7} {'seconds':>7}  bar")
    missed = 0
    for gpus in (size for size in JOBS if size in BARS_S or options.all):
        for job in JOBS[gpus]:
            seconds = min(processor_seconds(job, gpus) for _ in range(options.repeats))
            bar = BARS_S.get(gpus)
            missed += bar is not None and seconds > bar
            words = "" if bar is None else f"{bar:g}" + (" MISSED" if seconds > bar else "")
            print(
                f"{gpus:7d}  {job.model:<26} {job.program or 'any':<11} {job.sequences or 'usual':>7} "
                f"{seconds:7.2f}  {words}",
                flush=True,
            )
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
