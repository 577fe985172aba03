"""Test a fresh clone: `make run` without a terminal prints the path of a script that trains."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from probes.bench.benchmark_table import BENCHMARKS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_make_run_ends_in_a_script_that_trains(tmp_path: Path, torch_python: str) -> None:
    if shutil.which("make") is None or not (ROOT / ".git").exists():
        pytest.skip("needs make and a git checkout")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    # The variables that `activate` sets: as root, rigtune starts the interpreter of an active environment
    # only if its folder is on the PATH.
    environment = {
        **os.environ,
        "VIRTUAL_ENV": str(Path(torch_python).parents[1]),
        "PATH": os.pathsep.join((str(Path(torch_python).parent), os.environ["PATH"])),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }

    done = subprocess.run(
        ["make", "run"],
        cwd=clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    script = re.search(r"^Start training:  (\S+)$", done.stdout, re.MULTILINE)
    assert script is not None, done.stdout
    launch = Path(script[1])
    run = launch.parents[1]
    assert {"facts.json", "findings.json", "measurements.json", "plan.json", "recipe.toml"} <= {
        path.name for path in run.iterdir()
    }
    measured = json.loads((run / "measurements.json").read_text())
    on_cpus = {row.id for row in BENCHMARKS if "quick" in row.suites and "GPUs" not in row.applies}
    assert {row["bench_id"] for row in measured["measurements"]} == on_cpus
    assert measured["failures"] == []

    report = tmp_path / "report.jsonl"
    trained = subprocess.run(
        [launch, "--", "--steps", "15", "--report", report],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert trained.returncode == 0, trained.stderr
    events = [json.loads(line) for line in report.read_text().splitlines()]
    assert (events[0]["event"], events[0]["world_size"]) == ("start", 2)
    assert (events[-1]["event"], events[-1]["steps"]) == ("done", 15)
    assert events[-1]["loss_last"] < events[-1]["loss_first"] - 1
