"""Compare predictions with the collected runs that are part of the repository."""

from __future__ import annotations

import csv
import statistics

from tests.calibration import fit_memory, fit_time, fit_vision
from tests.calibration.fitting import Item
from tests.calibration.runs import OWN, resolved_rows


def _errors(items: list[Item]) -> list[float]:
    pairs = ((item.predicted(), item.measured) for item in items)
    return [abs(value / measured - 1) for value, measured in pairs if value is not None]


def test_each_run_has_an_address_and_a_name_of_its_own() -> None:
    with OWN.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len({row["case_id"] for row in rows}) == len(rows)
    assert all(row["source_url"].startswith("https://") for row in rows)
    assert len({row["source_id"] for row in rows}) > 80


def test_nearly_all_are_predicted() -> None:
    with OWN.open(newline="", encoding="utf-8") as file:
        rows = sum(1 for _ in csv.DictReader(file))
    assert sum(1 for _ in resolved_rows(OWN)) > 0.98 * rows


def test_speed_of_transformers() -> None:
    errors = _errors(fit_time.items(OWN))
    assert len(errors) > 250
    assert statistics.median(errors) < 0.16
    assert sum(error < 0.5 for error in errors) > 0.88 * len(errors)


def test_speed_of_image_models() -> None:
    errors = _errors(fit_vision.items(OWN))
    assert len(errors) > 80
    assert statistics.median(errors) < 0.15
    assert sum(error < 0.35 for error in errors) > 0.88 * len(errors)


def test_peaks() -> None:
    errors = _errors(fit_memory.measured_peaks(fit_memory.transformer_rows(OWN)))
    assert len(errors) > 180
    assert statistics.median(errors) < 0.15
    assert sum(error < 0.5 for error in errors) > 0.85 * len(errors)


def test_runs_that_ran_are_reported_to_fit() -> None:
    said = fit_memory.right_about_fitting(fit_memory.transformer_rows(OWN))
    assert sum(said[True]) > 0.95 * len(said[True])
