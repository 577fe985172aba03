"""Test that `auto`, killed at any moment, leaves only whole files, and that a rerun ends cleanly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


def _start(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "assistant", "auto", "--machine", "dgx-h100", "--out", str(directory)],
        cwd=directory.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_whole(directory: Path) -> None:
    """Read every finished file in its format; a file without a suffix is a script, too."""
    for path in directory.rglob("*"):
        # A log and a report of a worker grow line by line, and the next run replaces a temporary file.
        if not path.is_file() or path.suffix in (".log", ".jsonl", ".tmp"):
            continue
        text = path.read_text()
        if path.suffix == ".json":
            json.loads(text)
        elif path.suffix == ".toml":
            tomllib.loads(text)
        elif path.suffix == ".py":
            compile(text, path.name, "exec")
        else:
            assert path.suffix in (".sh", ".sbatch", ""), path
            ended = subprocess.run(["bash", "-n"], input=text, text=True, check=False)
            assert ended.returncode == 0, path


@pytest.mark.parametrize("lines_before", [1, 2, 3, 4, 5, 6, 8, 10])
def test_killed_after_some_lines(lines_before: int, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    process = _start(directory)
    assert process.stderr is not None
    for _ in range(lines_before):
        process.stderr.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert_whole(directory)

    again = _start(directory)
    _, words = again.communicate(timeout=120)
    assert again.returncode == 0, words
    assert_whole(directory)
    assert not list(directory.rglob(".*.tmp"))
    assert {"facts.json", "findings.json", "plan.json", "recipe.toml", "launch"} <= {
        path.name for path in directory.iterdir()
    }


def test_an_interrupted_measurement_is_kept(tmp_path: Path, torch_python: str) -> None:
    """One Ctrl-C ends the benchmarks cleanly, and what was measured before is saved."""
    rigtune = (sys.executable, "-m", "assistant")
    process = subprocess.Popen(
        [*rigtune, "auto", "--python", torch_python, "--out", str(tmp_path / "run")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert any(line.startswith("  gemm  ") for line in process.stderr)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    saved = tmp_path / "run" / "measurements.json"
    assert (process.returncode, str(saved) in words) == (130, True), words
    assert "gemm" in {row["bench_id"] for row in json.loads(saved.read_text())["measurements"]}
