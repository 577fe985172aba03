"""Test the priors of the calibration fits against the figures that they fit."""

from __future__ import annotations

import pytest

from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.predict.job_prediction import time_for
from recipes.predict.parameters import load_parameters, parameter
from tests.calibration.priors import load_priors, recording_reads, trying
from tests.unit.recipes.cases.test_case_prediction import LLAMA

SHARE = "gemm.max_fraction.sm90"


def step_s() -> float:
    return time_for(resolve(case_of_row({**LLAMA, "micro_batch": "1"})).job).total


def test_every_prior_is_of_a_figure_of_the_product() -> None:
    assert load_priors().keys() <= load_parameters().keys()
    assert all(row.spread > 0 for row in load_priors().values())


def test_fractions_lie_between_nothing_and_all() -> None:
    fractions = [row for row in load_priors().values() if row.scale == "fraction"]
    assert fractions
    assert all(0 < row.prior < 1 and 0 < row.value < 1 for row in fractions)


def test_a_fit_tries_other_values_and_leaves_nothing_behind() -> None:
    """Values that earlier predictions keep in caches, such as a GPU's rates, follow the tried value too."""
    before = step_s()
    with trying({SHARE: parameter(SHARE) / 2}):
        assert step_s() > 1.2 * before
    assert step_s() == before
    with pytest.raises(KeyError), trying({"time.nothing": 1.0}):
        pass


def test_a_fit_learns_which_figures_a_prediction_reads() -> None:
    step_s()
    with recording_reads() as reads:
        step_s()
    assert {SHARE, "time.backward_launches"} <= reads
    assert not any(name.startswith("vision.") for name in reads)
    with recording_reads() as reads:
        pass
    assert reads == set()
