"""Test `rigtune plan` for whole runs and other machines: JSON conforms, and wrong questions are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from assistant.cli.options import NODES
from assistant.formats.schemas import schema_for

ROOT = Path(__file__).resolve().parents[2]
HERE = ("llama-3-8b", "--machine", "dgx-h100")
PARTS = ("llama-3-8b", "--gpu", "A100", "--gpus", "8")


def rigtune(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder), "COLUMNS": "100"}
    argv = [sys.executable, "-m", "assistant", "plan", *arguments]
    return subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def answer(*arguments: str, folder: Path, schema: str = "plan") -> Any:
    done = rigtune(*arguments, "--format", "json", folder=folder)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    jsonschema.validate(data, json.loads(schema_for(schema)))
    return data


def test_plan_states_hours_cost_and_the_fastest_program(tmp_path: Path) -> None:
    plan = answer(*HERE, "--tokens", "15T", "--price", "2.5", folder=tmp_path)
    run, step = plan["run"], plan["chosen"]["predicted"]["step_time_s"]["total"]
    assert run["length_from"] == "tokens"
    assert run["tokens"] >= 15e12 > run["tokens"] - plan["chosen"]["global_batch"] * 8192
    assert run["hours"] == pytest.approx(run["steps"] * step / 3600)
    assert run["gpu_hours"] == pytest.approx(8 * run["hours"])
    assert run["cost"] == pytest.approx(2.5 * 8 * (run["hours"] + run["lost_hours"]))
    fastest = plan["fastest_program"]
    assert fastest["speed_up"] == pytest.approx(step / fastest["step_time_s"] - 1)
    assert plan["objective"] == "throughput"


def test_named_program_is_not_compared(tmp_path: Path) -> None:
    plan = answer(*HERE, "--program", "torchtitan", "--samples", "2M", folder=tmp_path)
    assert plan["fastest_program"] is None
    assert (plan["run"]["length_from"], plan["run"]["samples"]) == ("samples", 2_000_384)


@pytest.mark.parametrize("objective", ["throughput", "time", "cost", "fewest-gpus"])
def test_objectives_conform(objective: str, tmp_path: Path) -> None:
    plan = answer(*PARTS, "--nodes", "2", "--objective", objective, "--price", "1", folder=tmp_path)
    assert plan["objective"] == objective
    gpus = plan["cluster"]["nodes"] * plan["cluster"]["ranks_per_node"]
    degrees = plan["chosen"]["degrees"]
    assert gpus == degrees["dp"] * degrees["fsdp"] * degrees["tp"] * degrees["pp"] * degrees["cp"]


def test_scaling_curve_conforms(tmp_path: Path) -> None:
    curve = answer(*HERE, "--nodes", "1,2,...,8", folder=tmp_path, schema="plan-nodes")
    assert [point["nodes"] for point in curve["points"]] == [1, 2, 4, 8]
    assert curve["points"][0]["efficiency"] == 1.0
    assert all(0 < point["efficiency"] <= 1.2 for point in curve["points"])


def test_sensitivity_conforms(tmp_path: Path) -> None:
    effects = answer(*HERE, "--nodes", "2", "--sensitivity", folder=tmp_path, schema="plan-sensitivity")
    names = [change["name"] for change in effects["changes"]]
    assert names[0] == "matrix rate"
    assert "network bandwidth" in names
    assert effects["best_change"] in names


def test_sensitivity_rounds_a_batch_that_fewer_gpus_cannot_share(tmp_path: Path) -> None:
    arguments = (*HERE, "--global-batch", "512", "--sensitivity")
    effects = answer(*arguments, folder=tmp_path, schema="plan-sensitivity")
    fewer = effects["changes"][-1]["more"]
    assert (fewer["gpus"], fewer["global_batch"] % 7) == (7, 0)


def test_pinned_ranks_allow_one_gpu_fewer(tmp_path: Path) -> None:
    arguments = (*HERE, "--ranks-per-node", "4", "--sensitivity")
    effects = answer(*arguments, folder=tmp_path, schema="plan-sensitivity")
    assert effects["changes"][-1]["more"]["gpus"] == 3


def test_comparison_conforms(tmp_path: Path) -> None:
    arguments = (*HERE, "--compare", "H200", "--compare", "dgx-b200")
    compared = answer(*arguments, folder=tmp_path, schema="plan-compare")
    assert [row["label"] for row in compared["answers"]] == ["dgx-h100", "H200", "dgx-b200"]
    assert compared["speed"][0] == 1.0
    assert compared["speed"][2] > compared["speed"][1] > 1.0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((*HERE, "--nodes", "1,2", "--sensitivity"), 2, "are two questions"),
        ((*HERE, "--sensitivity", "-o", "r.toml"), 2, "are two questions"),
        ((*HERE, "--compare", "abacus"), 2, "names no machine and no GPU"),
        ((*HERE, "--objective", "cost"), 2, "--price"),
        ((*HERE, "--price", "-1"), 2, "--price"),
        ((*HERE, "--price", "nan"), 2, "--price"),
        ((*HERE, "--tokens", "1B", "--steps", "3"), 2, "both state the length"),
        ((*HERE, "--tokens", "1B", "--samples", "3"), 2, "both state the length"),
        ((*HERE, "--samples", "none"), 2, "--samples"),
        ((*HERE, "--nodes", "0,1"), 2, "--nodes is 0"),
        ((*HERE, "--nodes", "1,200000"), 2, "--nodes is 200000"),
        ((*HERE, "--nodes", "1,...,8"), 2, "--nodes"),
        ((*HERE, "--nodes", "4,2,...,8"), 2, "--nodes"),
        ((*HERE, "--nodes", "1,2,3,...,4096"), 2, "too many"),
        ((*HERE, "--nodes", "...,2"), 2, "--nodes"),
        ((*HERE, "--nodes", "1,2,..."), 2, "--nodes"),
        (("llama-3.1-405b", "--machine", "rtx4090-2", "--sensitivity"), 5, "does not fit"),
        (("llama-3.1-405b", "--machine", "rtx4090-2", "--compare", "L4"), 5, "does not fit"),
    ],
)
def test_wrong_questions_are_refused(
    arguments: tuple[str, ...], code: int, words: str, tmp_path: Path
) -> None:
    done = rigtune(*arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("4", (4,)),
        ("1,2,4", (1, 2, 4)),
        ("1,2,4,...,64", (1, 2, 4, 8, 16, 32, 64)),
        ("1, 2, 3, ..., 6", (1, 2, 3, 4, 5, 6)),
        ("2,4,...,100", (2, 4, 8, 16, 32, 64, 100)),
        ("8,1,8", (1, 8)),
    ],
)
def test_numbers_of_nodes(text: str, counts: tuple[int, ...]) -> None:
    assert NODES.convert(text, None, None) == counts
