"""Test the size of the memory test, and its report of words that were read back wrong."""

from __future__ import annotations

from probes.base.units import MIB
from probes.bench.answers import failures_of
from probes.bench.bench_requests import FailureLine
from probes.bench.memory_test import interpret
from probes.facts.measurements import BenchFailure
from tests.support.bench_answers import answer, requests, the_one


def asked(device="cpu", ranks=1):
    (request,) = requests("memory-test", device, ranks, suite="full")
    return request


def test_errors_are_counted_by_pattern_and_their_place_is_the_failure():
    request = asked()
    wrong = FailureLine(
        kind="wrong_result", message="3 words; the first at 0x7f", case={"pattern": "address"}
    )
    lines = {0: (*answer(request, 0, (2.0,), memory_errors=3.0, tested_bytes=1e9, passes=2.0), wrong)}
    measurement = the_one(interpret(request, lines), "memory_errors", pattern="address")
    assert (measurement.samples, measurement.unit) == ((3.0,), "1")
    assert (measurement.conditions["tested_bytes"], measurement.conditions["passes"]) == (1e9, 2.0)
    assert [(failure.kind, failure.message) for failure in failures_of(request, lines)] == [
        ("wrong_result", "3 words; the first at 0x7f (pattern address)")
    ]


def test_a_test_that_counted_nothing_found_nothing_out():
    request = asked()
    assert isinstance(interpret(request, {0: answer(request, 0)}), BenchFailure)


def test_a_part_of_host_memory_and_all_free_memory_of_a_gpu_are_tested():
    assert asked("cpu").settings == {"most_bytes": 256 * MIB}
    assert asked("cuda").settings == {"most_bytes": 0}
