"""Test the user's step, which needs a setting and is measured in the unit that it reports."""

from __future__ import annotations

import pytest

from probes.bench.bench_requests import BenchSettings
from probes.bench.own_step import interpret, requests
from tests.support.bench_answers import bench_context, lines_of, sample, the_one

SETTINGS = BenchSettings(step="train.py:make", folder="/home/u")


def test_the_users_step_is_measured_only_if_a_setting_names_it():
    assert requests(bench_context()) == ()
    asked = requests(bench_context(ranks=4, settings=SETTINGS))
    assert [(request.ranks, request.cases, request.settings) for request in asked] == [
        (ranks, ({"step": "train.py:make"},), {"folder": "/home/u"}) for ranks in (1, 4)
    ]


@pytest.mark.parametrize(
    ("items", "metric", "unit"),
    [
        ("tokens", "tokens_per_s", "token/s"),
        ("images", "images_per_s", "image/s"),
        ("samples", "samples_per_s", "sample/s"),
    ],
)
def test_the_rate_is_that_of_what_all_ranks_trained_on(items, metric, unit):
    request = requests(bench_context(ranks=2, settings=SETTINGS))[-1]
    figures = {"tokens": 0.0, "images": 0.0, "samples": 0.0, items: 64.0, "micro_batch": 8.0}
    lines = {
        rank: lines_of(request, sample(request.cases[0], (0.25 * (rank + 1),), **figures), rank=rank)
        for rank in range(2)
    }
    measured = interpret(request, lines)
    rate = the_one(measured, metric)
    assert (rate.samples, rate.unit) == ((128.0,), unit)
    assert rate.parameters == {"step": "train.py:make", "world_size": 2, "micro_batch": 8}
    assert {m.metric for m in measured} == {metric, "step_time_s"}


def test_a_step_that_counts_no_samples_has_a_time_and_a_memory():
    request = requests(bench_context(ranks=1, settings=SETTINGS))[0]
    nothing = {"tokens": 0.0, "images": 0.0, "samples": 0.0}
    measured = interpret(
        request, {0: lines_of(request, sample(request.cases[0], (0.5,), **nothing, peak_memory_bytes=5.0))}
    )
    assert {m.metric: m.median for m in measured} == {"step_time_s": 0.5, "peak_memory_bytes": 5.0}
    assert the_one(measured, "step_time_s").parameters == {"step": "train.py:make", "world_size": 1}
