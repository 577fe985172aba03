"""Test `rigtune list`: checks, benchmarks, models and programs."""

from __future__ import annotations

import json

import pytest

from assistant.cli import command_line
from assistant.cli.table_commands import KINDS
from probes.bench.benchmark_table import BENCHMARKS
from probes.judging.check_table import CHECKS
from recipes.launch.program_table import WRITTEN
from recipes.planning.programs import load_programs


def test_checks_as_json(capsysbinary: pytest.CaptureFixture) -> None:
    assert command_line(["list", "checks", "--format", "json"]) == 0
    rows = {row["id"]: row for row in json.loads(capsysbinary.readouterr().out)["checks"]}
    assert list(rows) == [row.id for row in CHECKS]
    assert rows["nvlink-active"] == {
        "id": "nvlink-active",
        "title": "All NVLinks are up",
        "group": "fabric",
        "tier": "quick",
        "required": True,
        "needs": ["gpus"],
    }
    assert rows["sensors"]["tier"] == "deep"


def test_benchmarks_say_what_they_cost_and_occupy(capsysbinary: pytest.CaptureFixture) -> None:
    assert command_line(["list", "benchmarks", "--format", "json"]) == 0
    rows = {row["id"]: row for row in json.loads(capsysbinary.readouterr().out)["benchmarks"]}
    assert list(rows) == [row.id for row in BENCHMARKS]
    assert set(rows["gemm"]) == {"id", "title", "suites", "cost_s", "full_cost_s", "occupies", "applies"}
    assert command_line(["list", "benchmarks"]) == 0
    lines = {line.split()[0]: line for line in capsysbinary.readouterr().out.decode().splitlines()}
    assert "quick, full" in lines["gemm"]
    assert "needs --step" in lines["own-step"]


def test_checks_as_text(capsysbinary: pytest.CaptureFixture) -> None:
    assert command_line(["list", "checks"]) == 0
    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert len(lines) == len(CHECKS)
    wanted = [
        "nvlink-active",
        "fabric",
        "quick",
        "required",
        "All",
        "NVLinks",
        "are",
        "up",
        "(needs",
        "gpus)",
    ]
    assert wanted in [line.split() for line in lines]


def test_models_of_language_and_of_images_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["list", "models"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert {"llama-3-8b", "resnet50"} <= listed


def test_programs_are_listed_with_what_they_can_do(capsysbinary) -> None:
    assert command_line(["list", "programs", "--format", "json"]) == 0
    rows = {row["id"]: row for row in json.loads(capsysbinary.readouterr().out)["programs"]}
    assert list(rows) == list(load_programs())
    assert rows["megatron"]["divides"] == ["tp", "pp", "vp", "cp", "ep"]
    assert [name for name, row in rows.items() if row["writes_files"]] == [
        name for name in rows if name in WRITTEN
    ]
    assert not rows["nanotron"]["writes_files"]


def test_the_help_names_every_table(capsys):
    assert command_line(["list", "--help"]) == 0
    text = capsys.readouterr().out
    assert "list [OPTIONS] TABLE\n" in text
    assert [kind for kind in KINDS if kind not in text] == []
