"""Test the count of bytes of copy and triad, and the limit of memory."""

from __future__ import annotations

import pytest

from probes.base.units import GIB, MIB
from probes.bench.memory_copy import interpret
from probes.facts import MachineFacts, Memory
from tests.support.bench_answers import answer, requests, the_one
from tests.support.machines import h100


def test_bytes_are_counted_as_stream_counts_them():
    (request,) = requests("memory-copy", "cuda", 1)
    measurements = interpret(request, {0: answer(request, 0, (1.0,))})
    assert the_one(measurements, "memory_bandwidth_bytes_per_s", operation="copy").median == 2 * 512 * MIB
    assert the_one(measurements, "memory_bandwidth_bytes_per_s", operation="triad").median == 3 * 512 * MIB
    assert {m.parameters["direction"] for m in measurements} == {"device_to_device"}


@pytest.mark.parametrize(
    ("free", "ranks", "most"),
    [
        (64 * GIB, 2, 512 * MIB),
        (8 * GIB, 2, 256 * MIB),
        (8 * GIB, 4, 128 * MIB),
        # 2 ranks hold 5 arrays of 512 MiB, which is just half of the memory.
        (10 * GIB, 2, 512 * MIB),
        (10 * GIB - 1, 2, 256 * MIB),
    ],
)
def test_all_ranks_together_leave_half_of_the_free_memory(free, ranks, most):
    (request,) = requests(
        "memory-copy", "cpu", ranks, suite="full", facts=MachineFacts(memory=Memory(available_bytes=free))
    )
    assert max(case["bytes"] for case in request.cases) == most


@pytest.mark.parametrize(
    ("memory", "most"),
    [(80 * GIB, 4 * GIB), (40 * GIB, 4 * GIB), (24 * GIB, GIB), (10 * GIB, GIB), (8 * GIB, 512 * MIB)],
)
def test_the_smallest_gpu_keeps_half_of_its_memory(memory, most):
    facts = MachineFacts(gpus=(h100(0), h100(1, memory_bytes=memory)))
    (request,) = requests("memory-copy", "cuda", 2, suite="full", facts=facts)
    assert max(case["bytes"] for case in request.cases) == most


def test_nothing_is_asked_of_a_machine_without_memory_to_spare():
    assert requests("memory-copy", "cpu", 8, facts=MachineFacts(memory=Memory(available_bytes=GIB))) == ()
