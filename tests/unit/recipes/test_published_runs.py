"""The models against training runs that others published; see tests/benchmarks/score_training.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.benchmarks.score_training import median_error, score

RUNS = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "data" / "training_open.csv"


@pytest.mark.skipif(not RUNS.is_file(), reason=f"{RUNS} is absent; set RIGTUNE_SHARED")
def test_step_times_of_published_runs_are_met():
    ratios = [ratio for group in score(RUNS)["time"].values() for ratio in group]
    assert len(ratios) > 100
    assert median_error(ratios) < 0.12
