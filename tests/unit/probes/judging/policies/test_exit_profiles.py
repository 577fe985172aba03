"""Test the exit codes of all profiles, and the selection of checks."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import ExitCode, UsageError
from probes.base.record import Reason, Unknown
from probes.base.table_rows import CheckRow, Group
from probes.judging.check_table import CHECKS
from probes.judging.findings import Finding, Judge, Status
from probes.judging.policies.policy import CheckPolicy, Policy
from probes.judging.policies.selection import select, under_policy
from probes.judging.verdict import PROFILES, Verdict, decisive, exit_code, exit_status, failure_status, judge

ROWS = (
    CheckRow(id="a", title="A", module="m.a", group="gpu"),
    CheckRow(id="b", title="B", module="m.b", group="host", required=False),
    CheckRow(id="c", title="C", module="m.c", group="host", required=False, tier="deep"),
)
CODES = {
    "PASS": {"gate": 0, "nagios": 0, "npd": 0, "slurm": 0, "nhc": 0},
    "WARN": {"gate": 0, "nagios": 1, "npd": 0, "slurm": 0, "nhc": 0},
    "FAIL": {"gate": 1, "nagios": 2, "npd": 1, "slurm": 1, "nhc": 1},
    "UNKNOWN": {"gate": 3, "nagios": 3, "npd": 2, "slurm": 1, "nhc": 1},
}


def verdict_of(*said: str) -> Verdict:
    findings = [
        Finding(check_id=word.split()[0], subject="host", status=Status(word.split()[1]), summary="s")
        for word in said
    ]
    return judge(findings, ROWS, hostname="node17", source="live")


@pytest.mark.parametrize("word", CODES)
def test_codes_of_every_profile(word: str) -> None:
    verdict = verdict_of(f"a {word}", "b PASS", "b UNKNOWN")
    assert {profile: exit_status(verdict, profile) for profile in PROFILES} == CODES[word]


def test_warnings_may_count() -> None:
    verdict = verdict_of("a WARN", "b PASS")
    assert {profile: exit_status(verdict, profile, "warn") for profile in PROFILES} == CODES["FAIL"] | {
        "nagios": 1
    }


def test_time_that_ran_out_refuses_no_job_by_itself() -> None:
    judge_a = Judge(check_id="a", why="")
    late = judge_a.undetermined("host", Unknown(Reason.TIMEOUT, "GPUs took longer than 35 s"), what="x")
    unread = judge_a.undetermined("host", Unknown(Reason.ERROR, "no"), what="x")
    slurm = {"gate": 3, "nagios": 3, "npd": 2, "slurm": 0, "nhc": 0}
    for findings, codes in (((late,), slurm), ((late, unread), CODES["UNKNOWN"]), ((), CODES["UNKNOWN"])):
        verdict = judge(findings, ROWS, hostname="node17", source="live")
        assert {profile: exit_status(verdict, profile) for profile in PROFILES} == codes


def test_a_failure_of_rigtune_itself_is_never_a_bad_machine() -> None:
    for code in ExitCode:
        assert (failure_status(code, "nagios"), failure_status(code, "npd")) == (3, 2)
        assert {failure_status(code, profile) for profile in ("gate", "slurm", "nhc")} == {code}


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(Status)), max_size=6),
    st.sampled_from(["fail", "warn"]),
)
def test_no_profile_takes_a_bad_machine_for_a_good_one(said: list[tuple[str, Status]], fail_on: str) -> None:
    verdict = verdict_of(*(f"{check_id} {status.value}" for check_id, status in said))
    code = exit_code(verdict, fail_on)  # type: ignore[arg-type]
    for profile in PROFILES:
        status = exit_status(verdict, profile, fail_on)  # type: ignore[arg-type]
        assert status in range(4)
        assert (status != 0) >= (code is not ExitCode.OK)
        assert status == 0 or code is not ExitCode.OK or profile == "nagios"
    reasons = decisive(verdict, fail_on)  # type: ignore[arg-type]
    assert bool(reasons) <= (code is not ExitCode.OK)
    assert reasons or code in (ExitCode.OK, ExitCode.UNKNOWN)


def test_tiers_and_choices() -> None:
    quick = select("quick", rows=ROWS)
    assert ([row.id for row in quick.rows], quick.deep_only, quick.deselected) == (["a", "b"], ("c",), ())
    assert [row.id for row in select("deep", rows=ROWS).rows] == ["a", "b", "c"]
    chosen = select("quick", only=["host"], rows=ROWS)
    assert ([row.id for row in chosen.rows], chosen.deep_only, chosen.deselected) == (["b"], ("c",), ("a",))
    assert [row.id for row in select("deep", only=["host", "a"], skip=["b"], rows=ROWS).rows] == ["a", "c"]


@pytest.mark.parametrize(
    ("only", "skip", "words", "hint"),
    [
        (["hots"], [], "'hots'", "did you mean host?"),
        ([], ["zzzzz"], "--skip", "gpu, fabric"),
        (["c"], [], "c does not run in the tier quick", "--tier deep"),
        ([], ["a", "b"], "no check is left", "--tier deep"),
    ],
)
def test_wrong_choices(only: list[str], skip: list[str], words: str, hint: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        select("quick", only, skip, rows=ROWS)
    assert hint in caught.value.hint


def test_the_policy_says_what_is_required() -> None:
    rows = under_policy(ROWS, Policy(checks=CheckPolicy(required=("b",), not_required=("a",))))
    assert [row.required for row in rows] == [False, True, False]
    assert under_policy(ROWS, Policy()) == ROWS


def test_groups_and_checks_never_share_a_name() -> None:
    assert not {row.id for row in CHECKS} & set(get_args(Group))
