"""Kill and resume `rigtune tune` with real workers: each trial is in the journal exactly once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recipes.launch.recipe_file import dump_recipe, load_recipe
from tests.integration.test_kills import marked_processes
from tests.support.clusters import cpu_cluster

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600


def trials_in(journal: Path) -> list[dict[str, object]]:
    """Return the trials of the complete lines."""
    lines = journal.read_bytes().split(b"\n")[1:-1] if journal.exists() else []
    return [json.loads(line)["trial"] for line in lines]


@pytest.fixture
def folder(make_recipe, tmp_path):
    """Return a folder with a recipe whose steps are slow, because its micro-batch is one."""
    layout = {"micro_batch": 1, "grad_accum": 4}
    recipe = make_recipe(machine=cpu_cluster(), parallelism=layout)
    (tmp_path / "recipe.toml").write_text(dump_recipe(recipe))
    return tmp_path


def start(folder: Path, python: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (
            *(sys.executable, "-m", "assistant", "tune", "recipe.toml", "--python", python, "--steps", "6"),
            *("--candidates", "1", "--budget", "1h", "--format", "json", *words),
        ),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RIGTUNE_TEST_TUNE": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_trials(job: subprocess.Popen[str], journal: Path, count: int) -> None:
    ends = time.monotonic() + LIMIT_S
    while len(trials_in(journal)) < count and job.poll() is None and time.monotonic() < ends:
        time.sleep(0.05)
    assert job.poll() is None, job.communicate()
    assert len(trials_in(journal)) >= count


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_tune_resumes_without_repeating_a_trial(folder, torch_python, number):
    journal = folder / "tune-recipe" / "journal.jsonl"
    job = start(folder, torch_python)
    wait_for_trials(job, journal, 2)
    job.send_signal(number)
    output, words = job.communicate(timeout=LIMIT_S)
    if number == signal.SIGINT:
        assert job.returncode == 130, words
        assert "--resume continues" in words
        assert json.loads(output)["trials"] >= 2
    ends = time.monotonic() + 30
    while (left := marked_processes(f"RIGTUNE_TEST_TUNE={folder}")) and time.monotonic() < ends:
        time.sleep(0.1)
    assert not left
    kept = trials_in(journal)
    with journal.open("ab") as file:
        file.write(b'{"event":"trial","sta')  # as a kill in the middle of a write would leave it

    job = start(folder, torch_python, "--resume")
    output, words = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 0, words
    trials = trials_in(journal)
    assert trials[: len(kept)] == kept
    runs = [(trial["round"], trial["candidate"]) for trial in trials]
    assert len(set(runs)) == len(runs) > len(kept)
    result = json.loads(output)
    assert (result["trials"], result["is_complete"]) == (len(runs), True)
    assert all(trial["outcome"] == "measured" for trial in trials), trials
    recipe = load_recipe((folder / "recipe.toml").read_text(), "recipe.toml")
    changed = {setting["name"]: setting["value"] for setting in result["changes"]}
    assert changed.get("micro_batch", "1") == str(recipe.parallelism.micro_batch)
