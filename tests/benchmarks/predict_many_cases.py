"""Measure the time and the memory of `rigtune predict` for many cases on one core.

The memory must not grow with the number of cases.

    python tests/benchmarks/predict_many_cases.py [CASES.csv] [--sizes 1000 10000 50000]

The cases are those of the table (default: `training_open.csv` of RIGTUNE_SHARED), repeated with new names and with
other batches.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("RIGTUNE_SHARED", ROOT.parent / "shared"))
SIZES = (1000, 10_000, 50_000)


def write_cases(source: Path, target: Path, size: int) -> None:
    """Write `size` rows: those of `source`, repeated with new names and with other batches each time."""
    with source.open(newline="") as rows, target.open("w", newline="") as file:
        reader = csv.DictReader(rows)
        known = list(reader)
        writer = csv.DictWriter(file, reader.fieldnames or ())
        writer.writeheader()
        for number in range(size):
            row = known[number % len(known)]
            batch = int(row["global_batch"] or 0) * (
                1 + number // len(known)
            )  # otherwise caches would answer the repeated rows
            writer.writerow({**row, "case_id": f"case-{number}", "global_batch": batch or ""})


def predict(cases: Path, output: Path) -> tuple[float, float]:
    """Return the seconds and the MiB of one run on one core."""
    core = min(os.sched_getaffinity(0))
    argv = [sys.executable, "-m", "assistant", "predict", str(cases), "-o", str(output), "-q"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    child = subprocess.Popen(argv, env=environment, preexec_fn=lambda: os.sched_setaffinity(0, {core}))  # noqa: PLW1509
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"rigtune predict ended with {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - started, memory_mib(usage)


def memory_mib(usage: resource.struct_rusage) -> float:
    return usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="?", type=Path, default=SHARED / "data" / "training_open.csv")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    arguments = parser.parse_args()
    if not arguments.cases.exists():
        sys.exit(f"{arguments.cases} does not exist: name a table of cases, or set RIGTUNE_SHARED")
    print(f"{'cases':>8}  {'time':>8}  {'per case':>9}  {'peak memory':>11}")
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.sizes:
            cases, output = Path(folder) / "cases.csv", Path(folder) / "out.csv"
            write_cases(arguments.cases, cases, size)
            seconds, mib = predict(cases, output)
            with output.open(newline="") as file:
                answered = sum(1 for _ in csv.DictReader(file))
            if answered != size:
                sys.exit(f"{answered} answers to {size} cases")
            print(f"{size:>8}  {seconds:6.2f} s  {seconds / size * 1e3:6.3f} ms  {mib:7.1f} MiB")


if __name__ == "__main__":
    main()
