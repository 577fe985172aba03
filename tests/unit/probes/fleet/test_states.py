"""States of parts: what confirms a fault, what returns a part to service, and the brake that prevents mass
drains.
"""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.fleet.states import (
    Observation,
    PartState,
    brake_reason,
    is_lemon,
    lapsed,
    observed,
    quarantined,
    repaired,
)

START = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)


TWICE = ("pass", "fail", "pass")
"""Two passes of the check, but not in a row."""


def seen(
    number: int, result: str, hours: float, check: str = "gemm", *, is_fact: bool = False
) -> Observation:
    at = START + datetime.timedelta(hours=hours)
    return Observation(
        id=f"run-{number}",
        subject="GPU-1",
        check_id=check,
        at=at,
        result=result,
        is_fact=is_fact,
        reason="slow",
    )


def after(*observations: Observation, state: PartState | None = None) -> PartState:
    for observation in observations:
        state = observed(state, observation)
    assert state is not None
    return state


@pytest.mark.parametrize(
    ("observations", "condition"),
    [
        ([seen(1, "pass", 0)], "healthy"),
        ([seen(1, "fail", 0)], "suspect"),
        ([seen(1, "fail", 0), seen(1, "fail", 5)], "suspect"),
        ([seen(1, "fail", 0), seen(2, "fail", 0.5)], "suspect"),
        ([seen(1, "fail", 0), seen(2, "fail", 1)], "confirmed"),
        ([seen(1, "fail", 0), seen(2, "fail", 2, check="nccl")], "suspect"),
        ([seen(1, "fail", 0), seen(2, "unknown", 2)], "suspect"),
        ([seen(1, "unknown", 0)], "healthy"),
        ([seen(1, "fail", 0), seen(2, "pass", 2)], "healthy"),
        ([seen(1, "fail", 0), seen(2, "pass", 2, check="nccl")], "suspect"),
        ([seen(1, "fail", 0, is_fact=True)], "confirmed"),
        ([seen(1, "fail", 0, is_fact=True), seen(2, "pass", 2)], "confirmed"),
        ([seen(1, "fail", 0, is_fact=True), seen(2, "pass", 2), seen(3, "pass", 3)], "probation"),
        ([seen(1, "fail", 0, is_fact=True), *(seen(n, r, n) for n, r in enumerate(TWICE, 2))], "confirmed"),
        ([seen(1, "fail", 0), seen(2, "fail", 2), seen(3, "pass", 3)], "healthy"),
        ([seen(1, "fail", 0), seen(2, "fail", 24 * 29.9)], "confirmed"),
        ([seen(1, "fail", 0), seen(2, "fail", 24 * 30)], "suspect"),
        ([seen(1, "fail", 0), seen(2, "pass", 24 * 31, check="nccl")], "healthy"),
        ([seen(1, "fail", 0), seen(2, "fail", 24 * 20, "b"), seen(3, "fail", 24 * 31, "c")], "suspect"),
        ([seen(1, "fail", 0, is_fact=True), seen(2, "pass", 2, check="nccl")], "confirmed"),
        ([seen(1, "fail", 0), seen(2, "fail", 2, check="b"), seen(3, "fail", 26, check="b")], "confirmed"),
        ([seen(1, "fail", 0), seen(2, "fail", 2, check="b"), seen(3, "pass", 26)], "suspect"),
        (
            [seen(1, "fail", 0), seen(2, "fail", 2, check="b"), seen(3, "pass", 3), seen(4, "pass", 4, "b")],
            "healthy",
        ),
    ],
)
def test_the_condition_of_a_part_follows_its_observations(observations, condition):
    assert after(*observations).condition == condition


def test_a_suspicion_names_its_end_and_a_later_one_its_own():
    state = after(seen(1, "fail", 0), seen(2, "fail", 24 * 20, "b"))
    assert (state.check_id, state.expires) == ("gemm", START + datetime.timedelta(days=30))
    assert lapsed(state, START + datetime.timedelta(days=29.9)) is state
    state = lapsed(state, START + datetime.timedelta(days=30))
    assert (state.condition, state.check_id) == ("suspect", "b")
    assert state.expires == START + datetime.timedelta(days=50)
    state = lapsed(state, START + datetime.timedelta(days=50))
    assert (state.condition, state.expires, state.bad_since) == ("healthy", None, None)


def test_a_repaired_part_returns_after_its_check_passed_twice_and_a_week():
    state = repaired(after(seen(1, "fail", 0, is_fact=True)), START + datetime.timedelta(hours=1))
    state = after(seen(2, "pass", 2, check="nccl"), seen(3, "pass", 3), state=state)
    assert (state.condition, state.passed) == ("repaired", 1)
    state = after(seen(4, "pass", 4), state=state)
    assert state.condition == "probation"
    assert state.expires == START + datetime.timedelta(hours=4, days=7)
    assert after(seen(5, "pass", 100), state=state).condition == "probation"
    assert after(seen(5, "pass", 200), state=state).condition == "healthy"
    assert after(seen(5, "fail", 100), state=state).condition == "confirmed"


def test_three_confirmations_in_thirty_days_are_a_lemon():
    state = None
    for number in range(3):
        at = 24.0 * 10 * number
        state = after(seen(number, "fail", at, is_fact=True), state=state)
        last = START + datetime.timedelta(hours=at)
        assert is_lemon(state, last) == (number == 2)
        state = repaired(state, last)
    assert not is_lemon(state, START + datetime.timedelta(days=60))


results = st.sampled_from(["pass", "fail", "unknown"])


@given(st.lists(st.tuples(results, st.sampled_from(["gemm", "nccl"]), st.booleans()), max_size=12))
def test_the_same_evidence_twice_changes_nothing(history):
    observations = [
        seen(number, result, 2.0 * number, check, is_fact=is_fact)
        for number, (result, check, is_fact) in enumerate(history)
    ]
    once = None
    for observation in observations:
        once = observed(once, observation)
        assert observed(once, observation) == once
    twice = once
    for observation in observations:
        twice = observed(twice, observation)
    assert twice == once


def out(number: int, hours: float) -> PartState:
    since = START - datetime.timedelta(hours=hours)
    return PartState(subject=f"n{number}", condition="quarantined", since=since)


@pytest.mark.parametrize(
    ("size", "new", "already", "is_held"),
    [
        (100, 3, [], False),
        (100, 4, [], True),
        (10_000, 100, [], False),
        (10_000, 101, [], True),
        (10_000, 60, [out(9000 + number, 0.5) for number in range(40)], False),
        (10_000, 61, [out(9000 + number, 0.5) for number in range(40)], True),
        (10_000, 100, [out(9000 + number, 2) for number in range(40)], False),
        (100, 1, [out(90 + number, 48) for number in range(9)], False),
        (100, 2, [out(90 + number, 48) for number in range(9)], True),
        (100, 1, [out(90 + number, 48) for number in range(12)], True),
        (100, 0, [out(90 + number, 48) for number in range(12)], False),
        (20, 2, [], False),
        (4, 2, [], True),
        (1, 1, [], False),
    ],
)
def test_the_brake_holds_back_too_many_drains_at_once(size, new, already, is_held):
    reason = brake_reason(new, already, size, START)
    assert bool(reason) == is_held
    assert reason.startswith(f"{new} node" if is_held else "")


def test_after_a_repair_only_the_same_check_or_a_fact_condemns_at_once():
    state = repaired(after(seen(1, "fail", 0, is_fact=True)), START + datetime.timedelta(hours=1))
    assert after(seen(2, "fail", 2, "nccl"), state=state).condition == "repaired"
    assert after(seen(2, "fail", 2, "nccl", is_fact=True), state=state).condition == "confirmed"
    assert after(seen(2, "fail", 2), state=state).condition == "confirmed"
    again = after(seen(2, "fail", 2, "nccl"), seen(3, "fail", 3, "nccl"), state=state)
    assert (again.condition, again.check_id) == ("confirmed", "nccl")
    probation = after(seen(2, "pass", 2), seen(3, "pass", 3), seen(4, "fail", 4, "nccl"), state=state)
    assert probation.condition == "probation"
    after_another_check = after(seen(5, "pass", 200), state=probation)
    assert after_another_check.condition == "suspect", "the failure of the other check is still open"
    assert after(seen(5, "pass", 9, "nccl"), seen(6, "pass", 200), state=probation).condition == "healthy"


def test_a_node_that_was_quarantined_returns_only_after_a_repair():
    state = quarantined(after(seen(1, "fail", 0, is_fact=True)), START)
    state = repaired(state, START + datetime.timedelta(hours=1))
    state = after(seen(2, "fail", 2), seen(3, "pass", 3), state=state)
    assert state.condition == "confirmed"
