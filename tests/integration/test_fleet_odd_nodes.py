"""Test a fleet of 200 local processes, five of which misbehave; interrupt the head, or fill its disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from assistant.engines.node_command import HEAD_MARGIN_S
from assistant.usecases.fleet.check_fleet import stored_run
from assistant.usecases.fleet.run_folder import OUTCOMES, RAW, ends_of

pytest.importorskip("ClusterShell")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SIZE, ODD = 200, 5
LIMIT_S = 20
LONGEST_WAIT_S = 60.0

NODE = """#!/bin/sh
exec 9>>"{claims}.lock"
flock 9
read -r number < "{claims}"
echo $((number + 1)) > "{claims}"
exec 9>&-
report='@rigtune {{"verdict": "PASS", "version": "1", "attributes": {{"driver": "1", "filler": "{filler}"}}}}'
echo "Last login: today"
case $number in
{cases}
*) echo "$report" ;;
esac
"""
MISBEHAVING = """3) sleep 3600 ;;
40) kill -9 $$ ;;
77) echo "Permission denied (publickey)." >&2; exit 255 ;;
120) echo '@rigtune }{ [31m' ;;
199) printf '%.40s' "$report"; sleep 3600 ;;"""


@pytest.fixture
def head(tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that writes the program of the nodes, and returns the command of the head."""

    def write(cases: str, nodes: int, folder: Path, *, filler: str = "", limit_s: int = LIMIT_S) -> list[str]:
        claims = tmp_path / "claims"
        claims.write_text("0\n")
        program = tmp_path / "rig tune"
        program.write_text(NODE.format(claims=claims, cases=cases, filler=filler))
        program.chmod(0o755)
        words = ("-w", f"n[001-{nodes:03}]", "--engine", "exec", "--limit", limit_s, "--rigtune", program)
        arguments = ("fleet", "check", *words, "--out", folder, "--format", "json", "-q")
        return [sys.executable, "-m", "assistant", *map(str, arguments)]

    return write


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def left_of(folder: Path) -> list[str]:
    """Return the command lines of processes that the run under this folder has left."""
    lines = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(folder / "rig tune") in line:
            lines.append(line)
    return lines


def asked(folder: Path) -> int:
    """Return how many times any node was asked."""
    return int((folder / "claims").read_text() or 0)


def test_five_odd_nodes_of_200_cost_neither_the_others_nor_the_time(head, tmp_path):
    began = time.monotonic()
    done = subprocess.run(
        head(MISBEHAVING, SIZE, tmp_path / "run"), env=environment(), capture_output=True, check=False
    )
    took_s = time.monotonic() - began
    result = json.loads(done.stdout)
    verdicts = Counter(node["verdict"] for node in result["nodes"])
    outcomes = Counter(node["outcome"] for node in result["nodes"])
    assert done.returncode == 3, done.stderr
    assert verdicts == {"PASS": SIZE - ODD, None: ODD}
    assert outcomes == {"ok": SIZE - ODD, "timed-out": 2, "exit": 3}
    assert len({node["node"] for node in result["nodes"]}) == SIZE
    details = " ".join(node["detail"] for node in result["nodes"])
    assert "Permission denied (publickey)." in details
    assert "illed" in details, details
    assert "sent something that is no report" in details
    assert not left_of(tmp_path)
    print(  # noqa: T201 - the figures of this run
        f"{SIZE} nodes, {ODD} odd: {len(result['nodes'])} outcomes, {verdicts['PASS']} verdicts, "
        f"{took_s:.1f} s with a limit of {LIMIT_S} s (goal {LIMIT_S + HEAD_MARGIN_S:g}), 0 processes left"
    )


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + LONGEST_WAIT_S
    while not condition():
        assert time.monotonic() < end, "this never became true"
        time.sleep(0.05)


def answers_in(folder: Path) -> int:
    path = folder / OUTCOMES
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_an_interrupted_head_keeps_what_came_and_asks_the_rest_again(head, tmp_path, number):
    folder = tmp_path / "run"
    hanging = "".join(f"{place}) sleep 3600 ;;\n" for place in range(20, 30))
    command = head(hanging, 30, folder, limit_s=600)
    process = subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    until(lambda: answers_in(folder) == 20 and asked(tmp_path) == 30)
    process.send_signal(number)
    _, errors = process.communicate(timeout=LONGEST_WAIT_S)
    assert process.returncode not in (0, 1, 3)
    assert "Traceback" not in errors
    until(lambda: not left_of(tmp_path))
    run = stored_run(folder)
    assert len(run.result.good) == 20
    for name in (RAW, OUTCOMES):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    done = subprocess.run(command, env=environment(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["nodes"]) == 30
    assert asked(tmp_path) == 40


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs here")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.root
def test_a_full_disk_of_the_head_keeps_what_came_and_asks_the_rest_again(head, tmp_path, small_disk):
    folder = small_disk / "run"
    command = head("", 60, folder, filler="x" * 8000, limit_s=60)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode not in (0, 1, 3)
    assert "free some space" in done.stderr
    assert "Traceback" not in done.stderr
    assert not left_of(tmp_path)
    assert 5 <= len(stored_run(folder).result.good) < 20
    answered = len(ends_of(folder))
    before = asked(tmp_path)
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["nodes"]) == 60
    assert asked(tmp_path) == before + 60 - answered
