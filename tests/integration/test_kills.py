"""End random commands at random moments: no process is left, every file is whole, no traceback is printed.

RIGTUNE_KILLS is the number of signals; RIGTUNE_KILLS_SEED gives other commands, signals and moments.
"""

from __future__ import annotations

import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.test_auto_killed import assert_whole

ROOT = Path(__file__).resolve().parents[2]
FEW = 24
SEED = 20261122
LONGEST_END_S = 20.0
"""Largest number of seconds from the signal to the end of all processes; workers get five to end cleanly."""
MACHINE = ("--machine", "dgx-h100")
CASES = ROOT / "tests/quantities/cases.csv"


class Kill(NamedTuple):
    """A command, and its rough duration in seconds."""

    arguments: tuple[str, ...]
    takes_s: float


PLAIN = (
    Kill(("auto", *MACHINE, "--out", "run"), 1.2),
    Kill(("probe", "--record", "node.json"), 0.6),
    Kill(("check", "--format", "json", "-o", "check.json"), 0.4),
    Kill(("check", *MACHINE, "--learn", "site.toml"), 0.4),
    Kill(("check", "--mode", "monitor"), 0.4),
    Kill(("capture", "-o", "capture.json"), 1.0),
    Kill(("diff", "live", "machine:dgx-h100"), 0.6),
    Kill(("plan", "llama-3-8b", *MACHINE, "-o", "plan.toml"), 0.7),
    Kill(("export", "recipe.toml", "--out", "launch"), 0.5),
    Kill(("export", "--provision", "slurm-health", "--expect-gpus", "8", "--out", "health"), 0.5),
    Kill(("predict", str(CASES), "-o", "cases.csv"), 0.8),
    Kill(("explain", "big.log"), 1.5),
    Kill(("explain", "-f", "big.log"), 2.0),
    Kill(("lint", str(ROOT / "tests/lint"), "--format", "json", "-o", "lint.json"), 2.5),
    Kill(("list", "checks"), 0.3),
    Kill(("advise", "install", "--gpu", "h100-sxm"), 0.4),
)
WITH_TORCH = (
    Kill(("bench", "--force", "-o", "bench.json"), 25.0),
    Kill(("auto", "--out", "run"), 25.0),
    Kill(("verify", "here.toml", "--steps", "3"), 20.0),
    Kill(("run", "here.toml"), 20.0),
    Kill(("tune", "here.toml", "--steps", "3", "--out", "state/tune", "-o", "tuned.toml"), 40.0),
    Kill(("plan", "-o", "plan.toml"), 3.0),
)


def environment(folder: Path, torch_python: str) -> dict[str, str]:
    state = {
        "XDG_STATE_HOME": str(folder / "state"),
        "PATH": f"{Path(torch_python).parent}:{os.environ['PATH']}",
    }
    return {**os.environ, **state, "PYTHONPATH": str(ROOT)}


def marked_processes(mark: str) -> list[str]:
    """Return the command lines of all processes that inherited the mark, except zombies."""
    left = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                left.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return left


def prepare(folder: Path, torch_python: str) -> None:
    """Write the inputs of the commands to `folder`."""
    line = (
        "node1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.1.0.1<40000> with status=12 opcode=0\n"
    )
    (folder / "big.log").write_text("".join(f"{number}: {line}" for number in range(20_000)))
    for name, *words in (("recipe.toml", "llama-3-8b", *MACHINE), ("here.toml", "--steps", "50")):
        subprocess.run(
            [sys.executable, "-m", "assistant", "plan", *words, "-q", "-o", name],
            cwd=folder, env=environment(folder, torch_python), check=True, capture_output=True, timeout=120,
        )  # fmt: skip


def kill_at_a_moment(folder: Path, row: Kill, number: int, moment_s: float, torch_python: str) -> list[str]:
    """Start the command, send the signal after `moment_s`, and return what is wrong afterwards."""
    mark = f"RIGTUNE_TEST_{uuid.uuid4().hex}"
    process = subprocess.Popen(
        [sys.executable, "-m", "assistant", *row.arguments],
        cwd=folder, env={**environment(folder, torch_python), mark: "1"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(moment_s)
    process.send_signal(number)
    sent = time.monotonic()
    wrong = []
    try:
        _, words = process.communicate(timeout=LONGEST_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        _, words = process.communicate()
        wrong.append(f"did not end within {LONGEST_END_S:.0f} s")
    while (left := marked_processes(mark)) and time.monotonic() < sent + LONGEST_END_S:
        time.sleep(0.1)
    wrong += [f"left running: {command}" for command in left]
    # Python may print a traceback of its own while it starts, and torchrun one when it is interrupted
    if "Traceback" in words and str(ROOT / "assistant" / "cli") in words:
        wrong.append(words[-2000:])
    return wrong + broken_files(folder)


def broken_files(folder: Path) -> list[str]:
    try:
        for part in ("run", "launch", "health", "state"):
            assert_whole(folder / part)
        assert_whole_tables(folder)
    except (AssertionError, ValueError, SyntaxError) as error:
        return [f"a broken file: {type(error).__name__}: {error}"]
    return []


def assert_whole_tables(folder: Path) -> None:
    table = folder / "cases.csv"
    if table.exists():
        with table.open(newline="") as file, CASES.open(newline="") as given:
            assert sum(1 for _ in csv.reader(file)) == sum(1 for _ in csv.reader(given)), "half a table"
    parts = folder / "whole"
    parts.mkdir(exist_ok=True)
    for path in (*folder.glob("*.json"), *folder.glob("*.toml")):
        shutil.copy(path, parts)
    assert_whole(parts)


@pytest.mark.slow
@pytest.mark.long
def test_random_kills(tmp_path: Path, torch_python: str) -> None:
    seed = int(os.environ.get("RIGTUNE_KILLS_SEED", SEED))
    rng = random.Random(seed)  # noqa: S311 - it only has to repeat
    prepare(tmp_path, torch_python)
    wrong = []
    for number in range(int(os.environ.get("RIGTUNE_KILLS", FEW))):
        row = rng.choice(WITH_TORCH if number % 4 == 0 else PLAIN)
        signal_number = rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
        moment_s = rng.uniform(0.0, row.takes_s)
        case = f"kill {number} of seed {seed}: {row.arguments} after {moment_s:.2f} s by {signal_number.name}"
        for fault in kill_at_a_moment(tmp_path, row, signal_number, moment_s, torch_python):
            wrong.append(f"{case}: {fault}")
    assert not wrong, "\n".join(wrong)
