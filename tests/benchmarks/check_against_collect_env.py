"""Compare the wall time of `rigtune check` with that of `python -m torch.utils.collect_env` and, with a simulated NVML
of eight GPUs, with that of `nvitop -1`. The commands take turns. The script prints the ratios of times, and the peak
memory of the check with all processes that it starts.

python tests/benchmarks/check_against_collect_env.py [--torch PYTHON] [--nvitop PROGRAM] [--rounds N]

Without nvitop or a C compiler the second comparison is left out. The exit code is 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("assistant", "probes", "recipes")
STANDIN = ROOT / "tests" / "native" / "nvml_standin.c"
CHECK = ("check", "--tier", "quick")

COLLECT_ENV_BAR = 1 / 15
NVITOP_BAR = 3.0
MEMORY_BAR_MIB = 60.0

# Commands may write bytecode, because in a user's installation it exists after the first run.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Contender(NamedTuple):
    """A command to be timed."""

    argv: tuple[str, ...]
    variables: Mapping[str, str] = {}
    folder: Path = ROOT

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv,
            env=ENVIRONMENT | dict(self.variables),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wall_time_s(self) -> float:
        started = time.perf_counter()
        self.start().wait()
        return time.perf_counter() - started

    def peak_bytes(self) -> int:
        """Return the peak memory of the process and its descendants together, sampled every millisecond.

        A library that two processes share counts for both, so the figure may be too high. A process that was
        just forked still shares its parent's memory and command line, so processes with one command line count
        once.
        """
        process = self.start()
        peak = 0
        while process.poll() is None:
            held: dict[bytes, int] = {}
            for pid in _family(process.pid):
                command, size = _command_and_size(pid)
                held[command] = max(held.get(command, 0), size)
            peak = max(peak, sum(held.values()))
            time.sleep(0.001)
        return peak


def _family(pid: int) -> list[int]:
    pids = [pid]
    for one in pids:  # the body appends descendants
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                pids += map(int, children.read_text().split())
            except OSError:
                continue
    return pids


def _command_and_size(pid: int) -> tuple[bytes, int]:
    """Return the command line and the resident bytes of a process; 0 bytes if it has ended."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return b"", 0
    return command, pages * os.sysconf("SC_PAGE_SIZE")


def eight_gpus(folder: Path) -> dict[str, str] | None:
    """Return the variables with which NVML shows eight GPUs; None without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-o", library, STANDIN], check=True
    )
    scenario = folder / "scenario.txt"
    scenario.write_text("gpu_count = 8\n")
    return {"LD_LIBRARY_PATH": str(folder), "RIGTUNE_NVML_SCENARIO": str(scenario)}


def contenders(options: argparse.Namespace, folder: Path) -> dict[str, Contender]:
    """Return all commands by name."""
    rigtune = (str(Path(sys.executable).with_name("rigtune")), *CHECK)
    bare = folder / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, bare / package, ignore=shutil.ignore_patterns("__pycache__"))
    by_name = {
        "rigtune check": Contender(rigtune),
        "rigtune check, uncompiled": Contender(
            (sys.executable, "-B", "-m", "assistant", *CHECK), folder=bare
        ),
        "collect_env": Contender((options.torch, "-m", "torch.utils.collect_env")),
    }
    gpus = eight_gpus(folder)
    if gpus is not None:
        by_name["rigtune check, 8 GPUs"] = Contender(rigtune, gpus)
        if options.nvitop is not None:
            by_name["nvitop -1, 8 GPUs"] = Contender((options.nvitop, "-1"), gpus)
    return by_name


def medians_s(commands: Mapping[str, Contender], rounds: int) -> dict[str, float]:
    """Return the median wall time of each command.

    The commands take turns, so that a busy moment affects all of them. The first round does not count.
    """
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            wall_s = command.wall_time_s()
            if number:
                samples[name].append(wall_s)
    for name, values in samples.items():
        median, least, most = (value * 1e3 for value in (statistics.median(values), min(values), max(values)))
        print(f"{name:<26} median {median:7.1f} ms  ({least:.1f} .. {most:.1f})")
    return {name: statistics.median(values) for name, values in samples.items()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--nvitop", default=shutil.which("nvitop"), metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    for package in PACKAGES:
        compileall.compile_dir(ROOT / package, quiet=2)
    with tempfile.TemporaryDirectory() as folder:
        commands = contenders(options, Path(folder))
        median_s = medians_s(commands, options.rounds)
        peak_mib = max(
            commands[name].peak_bytes() / 2**20
            for name in ("rigtune check", "rigtune check, 8 GPUs")
            for _ in range(3)
            if name in commands
        )
    ratios = {"of collect_env": (median_s["rigtune check"] / median_s["collect_env"], COLLECT_ENV_BAR)}
    if "nvitop -1, 8 GPUs" in median_s:
        ratios["of nvitop -1"] = (
            median_s["rigtune check, 8 GPUs"] / median_s["nvitop -1, 8 GPUs"],
            NVITOP_BAR,
        )
    ratios["MiB at most"] = (peak_mib, MEMORY_BAR_MIB)
    for what, (value, bar) in ratios.items():
        print(f"{value:8.3f} {what:<16} bar {bar:.3f}  {'met' if value <= bar else 'MISSED'}")
    uncompiled = median_s["rigtune check, uncompiled"] / median_s["collect_env"]
    print(f"{uncompiled:8.3f} of collect_env   where rigtune has no bytecode")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    return int(any(value > bar for value, bar in ratios.values()))


if __name__ == "__main__":
    sys.exit(main())
