"""Test the comparison of predictions with the measurements of a short run."""

from __future__ import annotations

import pytest

from recipes.launch.recipe import Prediction
from recipes.launch.verification import compare_peak_memory, compare_step_time, compare_worst_memory

PREDICTED = Prediction(step_time_s=2.0, step_time_low_s=1.5, step_time_high_s=3.0, peak_memory_bytes=40e9)


@pytest.mark.parametrize(
    ("measured", "error", "within"),
    [
        (2.0, 0.0, True),
        (1.5, 1 / 3, True),
        (3.0, -1 / 3, True),
        (2.5, -0.2, True),
        (1.6, 0.25, True),
        (1.0, 1.0, False),
        (4.0, -0.5, False),
    ],
)
def test_the_error_is_relative_to_the_measured_time(measured: float, error: float, within: bool) -> None:
    compared = compare_step_time(PREDICTED, measured)
    assert compared.relative_error == pytest.approx(error)
    assert compared.within_range is within


def test_memory_has_no_range() -> None:
    compared = compare_peak_memory(PREDICTED, 50e9)
    assert (compared.relative_error, compared.within_range) == (pytest.approx(-0.2), None)


def test_nothing_is_compared_with_a_time_of_zero() -> None:
    assert compare_step_time(PREDICTED, 0.0).relative_error is None


@pytest.mark.parametrize(("measured", "within"), [(50e9, True), (50e9 + 1, False)])
def test_the_worst_case_is_a_bound_without_an_error(measured: float, within: bool) -> None:
    compared = compare_worst_memory(Prediction(worst_memory_bytes=50e9), measured)
    assert (compared.relative_error, compared.within_range) == (None, within)
