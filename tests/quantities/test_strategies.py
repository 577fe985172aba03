"""Test that doubling a figure of a strategy, or another partition, changes the verdict on the strategy."""

from __future__ import annotations

import functools
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from probes.catalogue.hardware import load_catalogue
from recipes.machine.mig_profiles import mig_model
from recipes.strategies.strategy_table import load_strategies
from recipes.strategies.verdicts import Situation, Verdict
from recipes.strategies.why_not import verdict
from tests.quantities.changing import figures
from tests.support.strategy_cases import DDP, RECOMMENDED, SLOW, situation

FIGURES = [(row.id, name) for row in load_strategies().values() for name in row.figures]
OTHER_CASES: dict[tuple[str, str], dict[str, Any]] = {
    ("data-parallel", "sent_bytes"): {"model": "gpt2"},
    ("bf16-compression", "moved_bytes"): RECOMMENDED["fp16-compression"],
    ("horovod-fusion", "cycle_s"): RECOMMENDED["horovod-cycle-time"],
    ("powersgd", "least_rate"): {"model": "smollm-135m", "nodes": 2, "network": SLOW, "pins": DDP},
}
"""Cases for figures that are not decisive where the strategy wins."""
MORE = {("powersgd", "least_rate"): 1e6}
"""Factors for figures that are limits: doubling them changes nothing."""


@functools.cache
def _situation(strategy: str, name: str) -> Situation:
    return situation(**OTHER_CASES.get((strategy, name), RECOMMENDED.get(strategy, {})))


@pytest.mark.parametrize(("strategy", "name"), FIGURES)
def test_twice_a_figure_moves_the_verdict(strategy: str, name: str) -> None:
    row, here = load_strategies()[strategy], _situation(strategy, name)
    factor = MORE.get((strategy, name), 2.0)
    changed = msgspec.structs.replace(row, figures={**row.figures, name: factor * row.figures[name]})
    assert _moves(verdict(changed, here), verdict(row, here))


@pytest.mark.parametrize("name", ["count", "slices", "memory_mib"])
def test_other_partition_moves_the_verdict(name: str) -> None:
    row, here = load_strategies()["mig"], _situation("mig", "")
    gpu = load_catalogue().gpu(here.cluster.gpu)
    model = mig_model(gpu) if gpu is not None else None
    assert model is not None
    changes = [
        msgspec.structs.replace(profile, **{name: 2 * getattr(profile, name)})
        for profile in model.profiles[:-1]
    ]
    changed = msgspec.structs.replace(model, profiles=(*changes, model.profiles[-1]))
    before = verdict(row, here)
    with patch("recipes.strategies.mig_partitions.mig_model", return_value=changed):
        assert _moves(verdict(row, here), before)


def _moves(one: Verdict, other: Verdict) -> bool:
    return figures(one) != figures(other) or one.because != other.because
