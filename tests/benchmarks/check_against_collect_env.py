"""`rigtune check` beside `python -m torch.utils.collect_env`, in one run: prints the ratio of their wall times.

python tests/benchmarks/check_against_collect_env.py [PYTHON_WITH_TORCH] [ROUNDS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

# A user's first run leaves bytecode behind.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def wall_time_s(argv: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


def main() -> None:
    torch_python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    commands = {
        "rigtune check": [str(Path(sys.executable).with_name("rigtune")), "check"],
        "collect_env": [torch_python, "-m", "torch.utils.collect_env"],
    }
    for argv in commands.values():
        wall_time_s(argv)
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):  # interleaved, so that a busy moment hits both
        for name, argv in commands.items():
            samples[name].append(wall_time_s(argv))
    medians = {name: statistics.median(values) for name, values in samples.items()}
    for name, median in medians.items():
        print(f"{name:<14} median {median * 1e3:7.1f} ms  ({min(samples[name]) * 1e3:.1f} .. {max(samples[name]) * 1e3:.1f})")
    print(f"ratio {medians['rigtune check'] / medians['collect_env']:.3f}  (bar 0.100)")


if __name__ == "__main__":
    main()
