"""The memory model against peaks that others published, and against runs that ran out of memory."""

from __future__ import annotations

import statistics

import pytest

from tests.calibration.fit_memory import measured_peaks, right_about_fitting, transformer_rows
from tests.calibration.runs import OPEN

pytestmark = pytest.mark.skipif(not OPEN.is_file(), reason=f"{OPEN} is absent; set RIGTUNE_SHARED")


def test_published_peaks_are_met():
    peaks = measured_peaks(transformer_rows(OPEN))
    errors = [abs(item.predicted() / item.measured - 1) for item in peaks]
    assert len(errors) > 300
    assert statistics.median(errors) < 0.09
    assert sum(error < 0.2 for error in errors) > 0.75 * len(errors)


def test_runs_that_ran_are_reported_to_fit_and_those_that_did_not_are_not():
    said = right_about_fitting(transformer_rows(OPEN))
    assert sum(said[True]) > 0.98 * len(said[True])
    assert sum(said[False]) > 0.8 * len(said[False])
