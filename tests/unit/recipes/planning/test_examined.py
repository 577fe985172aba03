"""Times of candidates with a part of the pipeline's bubble."""

from __future__ import annotations

import math

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from recipes.planning.examined import seconds_of, with_bubble
from recipes.predict.breakdowns import TimeBreakdown
from tests.support.strategy_cases import situation


def _time(**parts: object) -> TimeBreakdown:
    return msgspec.structs.replace(situation("gpt2").time, **parts)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
def test_a_part_of_the_bubble_shortens_the_step_by_the_rest(share: float):
    """In a step of S seconds, the overhead O lengthens the bubble B by the factor S / (S - O)."""
    time = _time(bubble=0.01)
    total, overhead = seconds_of(time), time.overhead
    assert isinstance(overhead, float)
    assert with_bubble(time, share) == pytest.approx(total - (1 - share) * 0.01 * total / (total - overhead))
    alone = msgspec.structs.replace(time, overhead=NOT_RECORDED)
    if not math.isinf(seconds_of(alone)):
        whole = seconds_of(alone)
        assert with_bubble(alone, share) == pytest.approx(whole - (1 - share) * 0.01)


def test_an_unknown_time_stays_infinite():
    assert seconds_of(None) == seconds_of(NOT_RECORDED) == with_bubble(NOT_RECORDED, 0.5) == math.inf
    time = _time(bubble=NOT_RECORDED)
    assert with_bubble(time, 0.0) == seconds_of(time)
