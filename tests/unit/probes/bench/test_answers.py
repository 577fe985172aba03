"""Test which rank is named for a failure that workers report."""

from __future__ import annotations

import msgspec
import pytest

from probes.bench.answers import failures_of
from probes.bench.bench_requests import BenchRequest, Case, FailureLine, LinesByRank, StartLine
from tests.support.bench_answers import requests

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
def test_a_request_names_its_ranks(ranks: int, subject: str) -> None:
    assert msgspec.structs.replace(asked(), ranks=ranks).subject == subject


@pytest.mark.parametrize(("ranks", "subject"), [(1, "1 rank"), (2, "2 ranks"), (8, "8 ranks")])
def test_the_subject_of_a_request_is_its_number_of_ranks(ranks: int, subject: str) -> None:
    assert msgspec.structs.replace(asked(), ranks=ranks).subject == subject


@pytest.mark.parametrize(("hosts", "ranks_per_node"), [((), 4), (("a",), 4), (("a", "b"), 2)])
def test_the_ranks_of_a_request_are_those_of_all_hosts(hosts: tuple[str, ...], ranks_per_node: int) -> None:
    assert msgspec.structs.replace(asked(), hosts=hosts).ranks_per_node == ranks_per_node
