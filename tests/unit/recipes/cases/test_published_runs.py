"""Predictions against training runs that others published; the script `SCORER` computes the errors."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from recipes.cases.prediction import CasePrediction, predict_row

SHARED = Path(os.environ.get("RIGTUNE_SHARED", "../shared"))
RUNS = SHARED / "data" / "training_open.csv"
SCORER = SHARED / "tools" / "score_predictions.py"
pytestmark = pytest.mark.skipif(
    not (RUNS.is_file() and SCORER.is_file()), reason=f"{SHARED} is absent; set RIGTUNE_SHARED"
)

SCORED = (
    "case_id",
    "status",
    "reason",
    "fits",
    "step_time_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "peak_mem_gib",
)
SPEED = re.compile(r"^speed +covered (\d+)/(\d+) +median error ([\d.]+)% +p90 ([\d.]+)%", re.MULTILINE)
MEMORY = re.compile(r"^memory +covered (\d+)/(\d+) +median error ([\d.]+)% +p90 ([\d.]+)%", re.MULTILINE)
FIT = re.compile(r"ran and said to fit (\d+)/(\d+) +out of memory and said so (\d+)/(\d+)")
CHOICE = re.compile(r"^choice .* mean regret ([\d.]+)%", re.MULTILINE)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the reports of `SCORER` on `transformers` (language models and encoders) and on `images`."""
    folder = tmp_path_factory.mktemp("runs")
    with RUNS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    predicted = folder / "predicted.csv"
    with predicted.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, SCORED)
        writer.writeheader()
        writer.writerows(_cells(predict_row(row)) for row in rows)
    by_name = {}
    for name, wanted in (("transformers", {"dense", "moe", "encoder"}), ("images", {"cnn"})):
        truth = folder / f"{name}.csv"
        with truth.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(row for row in rows if row["family"] in wanted)
        command = [sys.executable, str(SCORER), str(truth), str(predicted)]
        by_name[name] = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return by_name


def _cells(answer: CasePrediction) -> dict[str, str]:
    values = msgspec.structs.asdict(answer)
    return {name: "" if values[name] is None else str(values[name]).lower() for name in SCORED} | {
        "case_id": answer.case_id
    }


def _numbers(pattern: re.Pattern[str], text: str) -> list[float]:
    result = pattern.search(text)
    assert result is not None, text
    return [float(group) for group in result.groups()]


def test_nearly_all_runs_are_predicted(report: dict[str, str]) -> None:
    covered, all_runs, *_ = _numbers(SPEED, report["transformers"])
    assert covered / all_runs >= 0.95
    covered, all_runs, *_ = _numbers(SPEED, report["images"])
    assert covered / all_runs >= 0.9


def test_speed_of_transformers_is_met(report: dict[str, str]) -> None:
    _, _, median, p90 = _numbers(SPEED, report["transformers"])
    assert median <= 15
    assert p90 <= 40


def test_speed_of_image_models_is_met(report: dict[str, str]) -> None:
    _, _, median, _ = _numbers(SPEED, report["images"])
    assert median <= 25


def test_peak_memory_is_met(report: dict[str, str]) -> None:
    _, _, median, _ = _numbers(MEMORY, report["transformers"])
    assert median <= 8


def test_runs_that_ran_fit_and_runs_that_failed_do_not(report: dict[str, str]) -> None:
    ran, all_ran, failed, all_failed = _numbers(FIT, report["transformers"])
    assert ran / all_ran >= 0.98
    assert failed / all_failed >= 0.8


def test_the_best_configuration_is_mostly_found(report: dict[str, str]) -> None:
    (regret,) = _numbers(CHOICE, report["transformers"])
    assert regret <= 5
