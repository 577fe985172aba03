"""Test the verdict over all findings, and its exit code."""

from __future__ import annotations

import datetime
import itertools

import pytest

from probes.base.errors import ExitCode
from probes.base.table_rows import CheckRow
from probes.judging.findings import Finding, Status
from probes.judging.policies.policy import Waiver
from probes.judging.verdict import FailOn, Verdict, decisive, exit_code, judge, unused, waive

ROWS = (
    CheckRow(id="a", title="A", module="m.a", group="gpu"),
    CheckRow(id="b", title="B", module="m.b", group="gpu", required=False),
)


def verdict_of(*said: str) -> Verdict:
    findings = [
        Finding(check_id=check_id, subject="host", status=Status(word), summary="s")
        for check_id, word in map(str.split, said)
    ]
    return judge(findings, ROWS, hostname="node17", source="live")


@pytest.mark.parametrize(
    ("said", "word", "code", "code_on_warn"),
    [
        (("a PASS", "b PASS"), "PASS", 0, 0),
        (("a PASS", "b SKIP"), "PASS", 0, 0),
        (("a PASS", "b WARN"), "WARN", 0, 1),
        (("a FAIL", "b PASS"), "FAIL", 1, 1),
        (("a UNKNOWN", "b FAIL"), "FAIL", 1, 1),
        (("a UNKNOWN", "b PASS"), "UNKNOWN", 3, 3),
        (("a UNKNOWN", "b WARN"), "UNKNOWN", 3, 1),
        (("a PASS", "b UNKNOWN"), "PASS", 0, 0),
        (("a WARN", "b UNKNOWN"), "WARN", 0, 1),
        (("a SKIP", "b SKIP"), "UNKNOWN", 3, 3),
        (("a SKIP", "b UNKNOWN"), "UNKNOWN", 3, 3),
        ((), "UNKNOWN", 3, 3),
    ],
)
def test_findings_decide_verdict_and_exit_code(
    said: tuple[str, ...], word: str, code: int, code_on_warn: int
) -> None:
    verdict = verdict_of(*said)
    assert verdict.verdict is Status(word)
    assert exit_code(verdict) == code
    assert exit_code(verdict, "warn") == code_on_warn


@pytest.mark.parametrize("fail_on", ["fail", "warn"])
def test_failure_always_counts(fail_on: FailOn) -> None:
    for others in itertools.product(Status, repeat=2):
        said = ("a FAIL", *(f"b {status.value}" for status in others))
        assert exit_code(verdict_of(*said), fail_on) is ExitCode.FINDINGS


def test_worst_first_then_in_the_order_of_the_table() -> None:
    verdict = verdict_of("b PASS", "b FAIL", "a PASS", "b UNKNOWN", "a WARN", "a FAIL", "b SKIP")
    said = [f"{finding.check_id} {finding.status.value}" for finding in verdict.findings]
    assert said == ["a FAIL", "b FAIL", "b UNKNOWN", "a WARN", "a PASS", "b PASS", "b SKIP"]


def test_required_checks_that_could_not_be_made_are_named() -> None:
    assert verdict_of("a UNKNOWN", "b UNKNOWN").required_unknown == ("a",)


def test_counts_name_every_status() -> None:
    counts = verdict_of("a PASS", "b PASS").counts
    assert counts == {Status.PASS: 2, Status.WARN: 0, Status.FAIL: 0, Status.SKIP: 0, Status.UNKNOWN: 0}


@pytest.mark.parametrize(
    ("said", "fail_on", "decided"),
    [
        (("a FAIL", "b WARN", "b UNKNOWN"), "fail", ["a FAIL"]),
        (("a FAIL", "b WARN", "b UNKNOWN"), "warn", ["a FAIL", "b WARN"]),
        (("a UNKNOWN", "b UNKNOWN"), "fail", ["a UNKNOWN"]),
        (("b UNKNOWN", "a PASS"), "fail", []),
        (("a WARN",), "fail", []),
        (("a WARN", "b PASS", "b SKIP"), "warn", ["a WARN"]),
    ],
)
def test_the_findings_that_decided_the_exit_code(
    said: tuple[str, ...], fail_on: FailOn, decided: list[str]
) -> None:
    findings = decisive(verdict_of(*said), fail_on)
    assert [f"{finding.check_id} {finding.status.value}" for finding in findings] == decided


DAY = datetime.date(2026, 11, 20)


def waiver(check: str = "a", subject: str = "host", *, days: int = 0) -> Waiver:
    return Waiver(check=check, subject=subject, reason="r", expires=DAY + datetime.timedelta(days=days))


@pytest.mark.parametrize(
    ("said", "entry", "today", "is_waived", "is_unused"),
    [
        ("a FAIL", waiver(), DAY, True, False),
        ("a WARN", waiver(), DAY, True, False),
        ("a UNKNOWN", waiver(), DAY, True, False),
        ("a PASS", waiver(), DAY, False, True),
        ("a SKIP", waiver(), DAY, False, True),
        ("a FAIL", waiver(subject="GPU*"), DAY, False, True),
        ("a FAIL", waiver(subject="h*"), DAY, True, False),
        ("a FAIL", waiver("b"), DAY, False, True),
        # A check that did not run may still need its waiver.
        ("a FAIL", waiver("c"), DAY, False, False),
        ("a FAIL", waiver(days=-1), DAY, False, False),
        ("a FAIL", waiver(days=1), DAY, True, False),
        ("a FAIL", waiver(), None, False, False),
    ],
)
def test_a_waiver_covers_problems_up_to_its_last_day(
    said: str, entry: Waiver, today: datetime.date | None, is_waived: bool, is_unused: bool
) -> None:
    findings = verdict_of(said).findings
    (marked,) = waive(findings, (entry,), today=today)
    assert (marked.waived is entry) is is_waived
    assert bool(unused(findings, (entry,), ran=("a", "b"), today=today)) is is_unused
    verdict = judge([marked], ROWS, hostname="node17", source="live")
    assert verdict.waived == int(is_waived)
    if is_waived:
        assert decisive(verdict, "warn") == ()
        assert verdict.verdict is Status.UNKNOWN
