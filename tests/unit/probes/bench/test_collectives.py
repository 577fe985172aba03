"""Test the sizes of collectives, nccl-tests' bandwidth definitions, and the ranks' own work."""

from __future__ import annotations

import pytest

from probes.bench.answers import complete
from probes.bench.collective_answers import COLLECTIVES, bus_bandwidth_factor, whole_parts
from probes.bench.collectives import interpret
from tests.support.bench_answers import answer, requests, the_one


def asked(device="cpu", ranks=2, **more):
    (request,) = requests("collectives", device, ranks, **more)
    return request


# Rows of nccl-tests' own tables: the quotient of the printed bus and algorithm bandwidth.
@pytest.mark.parametrize(
    ("collective", "ranks", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 16, 0.9375),
        ("all_to_all", 4, 0.75),
        ("broadcast", 8, 1.0),
        ("send_recv", 8, 1.0),
    ],
)
def test_bus_bandwidth_is_what_nccl_tests_prints(collective, ranks, factor):
    assert bus_bandwidth_factor(collective, ranks) == factor


def test_a_collective_without_a_definition_has_no_bus_bandwidth():
    with pytest.raises(ValueError, match="'gather'"):
        bus_bandwidth_factor("gather", 8)


def test_a_sample_takes_as_long_as_its_slowest_rank():
    request = asked(ranks=4)
    lines = {rank: answer(request, rank, (1.0 + rank, 2.0)) for rank in range(4)}
    case = {"collective": "all_reduce", "bytes": 1024, "world_size": 4, "backend": "gloo"}
    assert the_one(interpret(request, lines), "collective_time_s", **case).samples == (4.0, 2.0)
    assert the_one(interpret(request, lines), "algorithm_bandwidth_bytes_per_s", **case).samples == (
        256.0,
        512.0,
    )
    assert the_one(interpret(request, lines), "bus_bandwidth_bytes_per_s", **case).samples == (384.0, 768.0)


def test_ranks_differ_in_their_subject_alone_so_that_they_can_be_compared():
    request = asked(ranks=3)
    lines = {rank: answer(request, rank, (0.1 * (rank + 1),)) for rank in range(3)}
    own = [m for m in interpret(request, lines) if m.metric == "rank_compute_s"]
    assert [(m.subject, m.median) for m in own] == [
        ("CPU rank 0", 0.1),
        ("CPU rank 1", 0.2),
        ("CPU rank 2", 0.1 * 3),
    ]
    assert len({tuple(m.parameters.items()) for m in own}) == 1


def test_the_computation_of_a_rank_is_reported_even_where_another_rank_ended():
    request = asked("cuda", subjects={"GPU-b": "GPU5"})
    measurements = interpret(request, {1: answer(request, 1, uuid="GPU-b")})
    assert [(m.metric, m.subject) for m in measurements] == [("rank_compute_s", "GPU5")]


def test_a_case_that_one_rank_did_not_finish_is_not_measured():
    request = asked()
    lines = {0: answer(request, 0), 1: answer(request, 1, cases=request.cases[:3])[:-1]}
    sizes = {
        (m.parameters["collective"], m.parameters["bytes"])
        for m in interpret(request, lines)
        if "bytes" in m.parameters
    }
    assert sizes == {("all_reduce", 1024), ("all_gather", 1024)}
    assert not complete(request, lines)


def test_there_is_nothing_to_exchange_alone():
    assert requests("collectives", ranks=1) == ()


@pytest.mark.parametrize("suite", ["quick", "full"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_every_collective_is_asked_for_from_1_kib_up_in_sizes_that_all_ranks_can_share(device, suite, ranks):
    cases = [case for case in asked(device, ranks, suite=suite).cases if "collective" in case]
    for name in COLLECTIVES:
        sizes = [case["bytes"] for case in cases if case["collective"] == name]
        assert sizes[0] <= 1024
        assert sizes == sorted(set(sizes))
        assert all(whole_parts(name, size, ranks) == size for size in sizes)
        assert len(sizes) >= 3  # what a fit of latency and bandwidth needs
    assert {"collective": "all_reduce", "bytes": 1024} in cases
    largest = {"cpu": (64, 256), "cuda": (1024, 16384)}[device][suite == "full"] * 1024**2
    assert {"collective": "all_reduce", "bytes": largest} in cases


def test_parts_are_whole_elements_and_never_none():
    assert whole_parts("all_gather", 1024, 3) == 1020
    assert whole_parts("all_to_all", 4, 8) == 32
    assert whole_parts("broadcast", 1023, 3) == 1020
