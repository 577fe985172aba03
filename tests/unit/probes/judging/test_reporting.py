"""Test that names are folded, and that all subjects without a problem share one finding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import EvidenceRef, Reason, Unknown
from probes.facts import Gpu
from probes.judging.findings import Judge, Remedy, Status
from probes.judging.reporting import fold_names, judge_each, occurrences

JUDGE = Judge(check_id="demo", why="because")


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ((), ""),
        (("GPU0",), "GPU0"),
        (("GPU0", "GPU1", "GPU2", "GPU5"), "GPU0-2, GPU5"),
        (("mlx5_10", "mlx5_2", "mlx5_11", "mlx5_3"), "mlx5_2-3, mlx5_10-11"),
        (("x00", "x01"), "x00, x01"),
        (("rdmap13s0", "rdmap6s1", "rdmap6s0"), "rdmap6s0-1, rdmap13s0"),
        (("/", "/raid"), "/, /raid"),
    ],
)
def test_names_are_folded_in_natural_order(names: tuple[str, ...], folded: str) -> None:
    assert fold_names(names) == folded


@pytest.mark.parametrize(
    ("count", "first", "last", "shown"),
    [
        (1, "", "", "once"),
        (3, "", "", "3 times"),
        (1, "Sun Feb 23 16:24:18 2025", "Sun Feb 23 16:24:18 2025", "once, at Sun Feb 23 16:24:18 2025"),
        (2, "12:01", "12:09", "2 times, first 12:01, last 12:09"),
        (6, "10112.280872", "38319.517526", "6 times, first 10112 s after boot, last 38320 s after boot"),
        (2, "7.1", "7.1", "2 times, at 7 s after boot"),
    ],
)
def test_occurrences_have_times_with_a_unit(count: int, first: str, last: str, shown: str) -> None:
    assert occurrences(count, first, last) == shown


@given(st.sets(st.integers(0, 40)))
def test_folding_loses_no_number(numbers: set[int]) -> None:
    unfolded: set[int] = set()
    for part in filter(None, fold_names([f"GPU{number}" for number in numbers]).split(", ")):
        first, _, last = part.removeprefix("GPU").partition("-")
        unfolded.update(range(int(first), int(last or first) + 1))
    assert unfolded == numbers


def test_one_finding_for_each_problem_and_one_for_each_reason() -> None:
    ref = EvidenceRef(source="command", key="smi")
    gpus = [Gpu(index=index, evidence=(ref,)) for index in range(6)]
    timeout, unsupported = Unknown(Reason.TIMEOUT), Unknown(Reason.NOT_SUPPORTED, "no such thing")
    bad = JUDGE.failed("GPU0", "bad", expected="good", observed="bad", remedy=Remedy(text="repair"))
    answers = {0: bad, 1: timeout, 2: unsupported, 3: "fine", 4: "fine", 5: timeout}
    findings = list(
        judge_each(JUDGE, gpus, lambda gpu: answers[gpu.index], what="the thing", good="all good")
    )
    said = [(finding.status, finding.subject, finding.observed) for finding in findings]
    assert said == [
        (Status.FAIL, "GPU0", "bad"),
        (Status.UNKNOWN, "GPU1, GPU5", "timeout"),
        (Status.SKIP, "GPU2", ""),
        (Status.PASS, "GPU3-4", "fine"),
    ]
    assert all(finding.evidence == (ref,) for finding in findings)
