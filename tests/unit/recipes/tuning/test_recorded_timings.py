"""Test tunes on published timings: most come within 3 % of the best layout with a quarter of the trials."""

from __future__ import annotations

import math

import pytest

from tests.support.recorded_layouts import Table, drawing, exhaustive_trials, play, recorded_tables
from tests.support.recordings import MACHINES

REPEATED = 20
"""Contests per table, each with another baseline and another noise."""
NEAR = 1.03
SHARE = 0.25


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    folder = MACHINES.parent / "data"
    if not folder.is_dir():
        pytest.skip("needs the tables of published runs")
    return recorded_tables(folder)


@pytest.mark.parametrize(("noise", "least_near"), [(0.02, 0.98), (0.05, 0.86)])
def test_the_best_layout_at_a_quarter_of_the_trials(tables, noise, least_near):
    draw = drawing(20261123)
    near, shares = [], []
    for table in tables:
        fitting = [index for index, value in enumerate(table.seconds) if math.isfinite(value)]
        for _ in range(REPEATED):
            played = play(table.seconds, draw.choice(fitting), noise, draw)
            near.append(table.seconds[played.chosen] <= NEAR * min(table.seconds))
            rounds = played.contest.rules.most_rounds
            shares.append(len(played.contest.trials) / exhaustive_trials(table.seconds, rounds))
    part, share = sum(near) / len(near), sum(shares) / len(shares)
    summary = f"{len(tables)} tables, within 3 %: {part:.1%}, mean share of trials {share:.1%}"
    assert len(tables) >= 20
    assert part >= least_near, summary
    assert share <= SHARE, summary
