"""Test calls with a deadline: their results, and the threads that remain."""

from __future__ import annotations

import threading

import pytest

from probes.base.record import Reason, Unknown
from probes.sources.live import within


def test_results_and_errors_reach_the_caller():
    assert within(10, lambda: 7) == 7
    assert within(10, lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        within(10, lambda: 1 // 0)
    assert within(10, lambda: 8) == 8


def test_calls_one_after_the_other_share_a_thread():
    assert len({within(10, threading.get_ident) for _ in range(20)}) == 1


def test_a_call_that_blocks_is_left_behind_and_its_late_answer_reaches_nobody():
    release, ended = threading.Event(), threading.Event()

    def blocked() -> str:
        release.wait(10)
        ended.set()
        return "late"

    answer = within(0.01, blocked)
    assert isinstance(answer, Unknown)
    assert answer.reason is Reason.TIMEOUT
    assert within(10, lambda: "next") == "next"
    release.set()
    assert ended.wait(10)
    assert within(10, lambda: "after") == "after"


def test_calls_at_the_same_time_do_not_wait_for_each_other():
    both = threading.Barrier(2, timeout=10)
    outcomes: list[object] = []
    callers = [threading.Thread(target=lambda: outcomes.append(within(10, both.wait))) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(map(str, outcomes)) == ["0", "1"]
