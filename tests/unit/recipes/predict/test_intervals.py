"""Between 70 and 95 % of the published runs of each kind lie in the interval around the prediction."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from pathlib import Path

import pytest

from recipes.cases.prediction import CasePrediction, predict_row
from recipes.predict.parameters import memory_interval, time_interval

RUNS = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "data" / "training_open.csv"
FEWEST = 30
"""Fewest runs of a kind whose share is judged."""


@pytest.mark.parametrize("kind", ["dense", "moe", "encoder", "cnn"])
def test_every_kind_has_an_interval_around_one(kind: str) -> None:
    for rates in ("catalogue", "measured"):
        interval = time_interval(kind, rates)  # type: ignore[arg-type]
        assert 0 < interval.low < 1 < interval.high


@pytest.mark.parametrize("figure", ["allocated", "reserved", "device"])
def test_every_figure_of_memory_has_an_interval_around_one(figure: str) -> None:
    interval = memory_interval(figure)
    assert 0 < interval.low < 1 < interval.high


@pytest.mark.skipif(not RUNS.is_file(), reason=f"{RUNS} is absent; set RIGTUNE_SHARED")
def test_published_runs_lie_in_their_intervals() -> None:
    inside: dict[str, list[bool]] = defaultdict(list)
    with RUNS.open(newline="") as file:
        for row in csv.DictReader(file):
            answer = predict_row(row)
            if answer.status == "predicted":
                compare(row, answer, inside)
    shares = {kind: sum(hits) / len(hits) for kind, hits in inside.items() if len(hits) >= FEWEST}
    assert {"memory", "dense", "moe", "encoder", "cnn"} <= set(shares)
    assert {kind: share for kind, share in shares.items() if not 0.7 <= share <= 0.95} == {}


def compare(row: dict[str, str], answer: CasePrediction, inside: dict[str, list[bool]]) -> None:
    """Record whether the measurements lie in the intervals around the predictions."""
    if row["peak_mem_gib"] and answer.peak_mem_low_gib is not None and answer.peak_mem_high_gib is not None:
        inside["memory"].append(
            answer.peak_mem_low_gib <= float(row["peak_mem_gib"]) <= answer.peak_mem_high_gib
        )
    ratio = measured_over_predicted_time(row, answer)
    if ratio is not None:
        kind = row["family"]
        interval = time_interval(kind, "catalogue")  # type: ignore[arg-type]
        inside[kind].append(interval.low <= ratio <= interval.high)


def measured_over_predicted_time(row: dict[str, str], answer: CasePrediction) -> float | None:
    """Return measured over predicted time by the first figure that both have: step time, tokens/s, samples/s.

    A rate is the inverse of a time.
    """
    if row["step_time_s"] and answer.step_time_s:
        return float(row["step_time_s"]) / answer.step_time_s
    for name in ("tokens_per_s_per_gpu", "samples_per_s"):
        predicted = getattr(answer, name)
        if row[name] and predicted:
            return float(predicted) / float(row[name])
    return None
