"""How long `rigtune plan` takes as the number of GPUs grows: the whole command on one core, search included.

    python tests/benchmarks/plan_of_many_gpus.py [--program NAME] [--repeats 5]

Prints the CPU seconds and the seconds of the fastest of some runs, beside the bar of the sizes that have one.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIZES = (
    ("llama-3-8b", 1, 0.4),
    ("llama-3-8b", 8, None),
    ("llama-3-70b", 128, 1.0),
    ("mixtral-8x7b", 128, 1.0),
    ("llama-3.1-405b", 2048, None),
    ("llama-3.1-405b", 16384, 3.0),
)
"""Model, nodes of 8 GPUs, and the most seconds that a plan may take."""


def measure(argv: list[str]) -> tuple[float, float, int]:
    """Return the CPU seconds, the seconds and the exit code of one run on one core."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        argv,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - started, done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="", help="plan for this program alone")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    named = ("--program", options.program) if options.program else ()
    print(f"{'model':16} {'GPUs':>7} {'CPU s':>7} {'s':>7} {'bar':>5}  exit code")
    for model, nodes, bar in SIZES:
        argv = [sys.executable, "-m", "assistant", "plan", model, "--machine", "dgx-h100"]
        argv += ["--nodes", str(nodes), "--format", "json", *named]
        runs = [measure(argv) for _ in range(options.repeats)]
        cpu, wall = min(run[0] for run in runs), min(run[1] for run in runs)
        print(f"{model:16} {8 * nodes:7} {cpu:7.2f} {wall:7.2f} {bar or '-':>5}  {runs[0][2]}", flush=True)


if __name__ == "__main__":
    main()
