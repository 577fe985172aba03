"""Run gradient compression and local SGD over a link that `tc` limits. Needs root and torch."""

from __future__ import annotations

import statistics

import pytest

from tests.benchmarks.compression_on_a_slow_network import cluster_of, compared, gains, measure, situation_on
from tests.support.slow_link import refusal

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("kind", ["tbf", "htb"])
def test_strategies_win_where_the_link_dominates(kind: str, torch_python: str) -> None:
    if why := refusal(kind):
        pytest.skip(f"tc {kind}: {why}")
    measured = measure(torch_python, kind, "100mbit", rounds=1)
    assert not measured["refused"]
    here = situation_on(cluster_of(measured))
    assert here.exposed_s > 0.5 * float(here.total_s)  # type: ignore[arg-type]
    for way, won, predicted in compared(measured):
        assert predicted > 0.2, way
        assert statistics.median(won) > 0.1, way
    assert statistics.median(gains(measured, "alone")) > 0.5


def test_unknown_kind_is_refused_with_a_reason() -> None:
    assert refusal("no-such-queue")
