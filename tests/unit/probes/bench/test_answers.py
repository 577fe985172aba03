"""Test answers: the subject of a failure, whether an answer is complete, and the timing of a measurement."""

from __future__ import annotations

import msgspec
import pytest

from probes.bench.answers import complete, failures_of, per_rank, timing_of
from probes.bench.bench_requests import BenchRequest, Case, DoneLine, FailureLine, LinesByRank, StartLine
from tests.support.bench_answers import lines_of, requests, sample

NAMES = {"GPU-a": "GPU0", "GPU-b": "GPU1", "GPU-c": "GPU2", "GPU-d": "GPU3"}
UUIDS = ("GPU-b", "GPU-a", "GPU-c", "GPU-d")
"""UUIDs of the GPUs by rank: rank 0 uses GPU1, and rank 1 uses GPU0."""


def asked(bench_id: str = "gemm", ranks: int = 4) -> BenchRequest:
    return requests(bench_id, "cuda", ranks, subjects=NAMES)[0]


def told(*ranks: int, case: Case | None = None) -> LinesByRank:
    wrong = FailureLine(kind="wrong_result", message="off by 3", case=case or {})
    return {
        rank: (StartLine(rank=rank, world_size=4, uuid=uuid), *((wrong,) if rank in ranks else ()))
        for rank, uuid in enumerate(UUIDS)
    }


@pytest.mark.parametrize(
    ("ranks", "subject"), [((0,), "GPU1"), ((1, 2), "GPU0, GPU2"), ((0, 1, 2, 3), "4 ranks")]
)
def test_a_failure_of_some_ranks_names_their_gpus(ranks: tuple[int, ...], subject: str) -> None:
    (failure,) = failures_of(asked(), told(*ranks, case={"dtype": "bf16"}))
    assert (failure.subject, failure.message) == (subject, "off by 3 (dtype bf16)")


def test_between_two_gpus_both_are_named() -> None:
    request = asked("peer-copy")
    case: Case = {"from": "GPU3", "to": "GPU0", "direction": "one_way"}
    lines = {0: told(0, case=case)[0]}
    (failure,) = failures_of(request, lines)
    assert failure.subject == "GPU0-GPU3"


def test_a_rank_that_never_started_has_no_gpu() -> None:
    (failure,) = failures_of(asked(), {0: (FailureLine(kind="crashed", message="no port"),)})
    assert failure.subject == "4 ranks"


@pytest.mark.parametrize(("ranks", "subject"), [(1, "1 rank"), (2, "2 ranks"), (8, "8 ranks")])
def test_the_subject_of_a_request_is_its_number_of_ranks(ranks: int, subject: str) -> None:
    assert msgspec.structs.replace(asked(), ranks=ranks).subject == subject


@pytest.mark.parametrize(("hosts", "ranks_per_node"), [((), 4), (("a",), 4), (("a", "b"), 2)])
def test_the_ranks_of_a_request_are_those_of_all_hosts(hosts: tuple[str, ...], ranks_per_node: int) -> None:
    assert msgspec.structs.replace(asked(), hosts=hosts).ranks_per_node == ranks_per_node


def test_a_request_may_take_three_times_its_budget() -> None:
    assert msgspec.structs.replace(asked(), budget_s=4.0).longest_s == 12.0


@pytest.mark.parametrize(("done", "is_complete"), [((0,), False), ((0, 1), True), ((1,), False), ((), False)])
def test_an_answer_is_complete_when_every_rank_wrote_its_last_line(
    done: tuple[int, ...], is_complete: bool
) -> None:
    request = asked(ranks=2)
    lines: LinesByRank = {rank: (DoneLine(),) for rank in done}
    assert complete(request, lines) is is_complete
    assert not complete(request, {0: (StartLine(rank=0, world_size=2),), 1: (DoneLine(),)})


def test_the_timing_of_a_measurement_is_the_worst_of_its_ranks() -> None:
    (request,) = requests("memory-copy", "cuda", 2)
    case = request.cases[0]
    figures = [
        {"warmup_calls": 3.0, "interval_half_width": 0.123456, "unsettled": 0.0, "budget_spent": 1.0},
        {"warmup_calls": 5.0, "calls_per_sample": 2.0, "unsettled": 1.0},
    ]
    lines = {rank: lines_of(request, sample(case, **each)) for rank, each in enumerate(figures)}
    row = per_rank(request, lines, "rate", "1", lambda _: 1.0)[0]
    assert timing_of(row, lines) == {
        "warmup_calls": 5,
        "calls_per_sample": 2,
        "interval_half_width": 0.1235,
        "budget_spent": True,
        "unsettled": True,
    }
    assert timing_of(msgspec.structs.replace(row, parameters={}), lines) == {}
