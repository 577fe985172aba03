"""Test monitoring: old warnings expire, and faults and events at unknown times still count."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest

from assistant.usecases.check import verdict_on
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import LogEvent, MachineFacts, PcieLink
from probes.judging.counters import Snapshot
from probes.judging.findings import Evidence, Finding, Status
from probes.judging.monitoring import since_words, standing
from tests.support.machines import evidence_of, h100_node, with_gpus, with_part

NOW = datetime.datetime(2026, 11, 22, 12, tzinfo=datetime.timezone.utc)
WEEK_S = 7 * 86400.0
HIDDEN = PcieLink(width=Unknown(Reason.NOT_SUPPORTED), width_max=Unknown(Reason.NOT_SUPPORTED))
XID_13 = LogEvent(kind="xid", code=13, device="0000:19:00", message="NVRM: Xid (PCI:0000:19:00): 13", line=1)
XID_79 = LogEvent(kind="xid", code=79, device="0000:19:00", message="NVRM: Xid (PCI:0000:19:00): 79", line=1)
KILLED = LogEvent(kind="out-of-memory", message="Out of memory: Killed process 1 (python)", line=1)


def problems(*events: LogEvent, mode: str = "monitor", uptime_s: Any = WEEK_S, now: Any = None) -> set[str]:
    """Return which of four checks of logs warn or fail on a node with these events."""
    facts = with_part(h100_node(events=events, logs=("kernel-log",)), "kernel", uptime_s=uptime_s)
    evidence: Evidence = msgspec.structs.replace(evidence_of(facts), mode=mode, now=now)
    findings = verdict_on(evidence).findings
    return {each.check_id for each in findings if each.status in (Status.WARN, Status.FAIL)} & {
        "xid-application",
        "xid-hardware",
        "xid-reset",
        "out-of-memory",
    }


def at(event: LogEvent, time: str) -> LogEvent:
    return msgspec.structs.replace(event, first_time=time, last_time=time)


@pytest.mark.parametrize(
    ("time", "uptime_s", "now", "counts"),
    [
        ("100.000001", WEEK_S, None, False),
        ("600000.5", WEEK_S, None, True),
        ("518399.0", WEEK_S, None, False),
        ("518400.0", WEEK_S, None, True),
        ("604800.0", WEEK_S, None, True),
        ("604900.0", WEEK_S, None, True),
        ("100.000001", NOT_RECORDED, None, True),
        ("", WEEK_S, NOW, True),
        ("Nov 15 10:00:00", WEEK_S, NOW, True),
        ("2026-11-15T10:00:00+0000", WEEK_S, NOW, False),
        ("2026-11-15T10:00:00+01:00", WEEK_S, NOW, False),
        ("2026-11-15T10:00:00+01:00", WEEK_S, None, True),
        # The window is one day: a moment of the day before counts, in any time zone.
        ("2026-11-21T12:00:00Z", WEEK_S, NOW, True),
        ("2026-11-21T11:59:59Z", WEEK_S, NOW, False),
        ("2026-11-21T13:59:59+0200", WEEK_S, NOW, False),
        ("2026-11-21T14:00:00+02:00", WEEK_S, NOW, True),
        ("2026-11-22T12:00:00Z", WEEK_S, NOW, True),
        ("2026-11-22T12:00:01Z", WEEK_S, NOW, True),
        ("2026-11-22T11:00:00.123456Z", WEEK_S, NOW, True),
        ("2026-11-22T14:00:00+0000", WEEK_S, NOW, True),
        ("2026-13-45T99:00:00+0000", WEEK_S, NOW, True),
        ("1700000000.123456", WEEK_S, NOW, True),
        ("9" * 30 + ".0", WEEK_S, NOW, True),
    ],
)
def test_an_event_counts_within_the_window_or_at_an_unknown_time(
    time: str, uptime_s: Any, now: Any, counts: bool
) -> None:
    for event, check_id in ((XID_13, "xid-application"), (KILLED, "out-of-memory")):
        assert (check_id in problems(at(event, time), uptime_s=uptime_s, now=now)) is counts
        assert check_id in problems(at(event, time), mode="accept", uptime_s=uptime_s, now=now)


def test_a_fault_stays_until_something_settles_it() -> None:
    old = at(XID_79, "100.0")
    assert problems(old) == {"xid-hardware"}
    assert problems(old, at(KILLED, "100.0")) == {"xid-hardware"}
    assert problems(msgspec.structs.replace(old, settled=True)) == set()
    assert problems(msgspec.structs.replace(old, settled=True), mode="accept") == {"xid-hardware"}


def test_old_events_leave_a_pass_behind() -> None:
    facts = with_part(h100_node(events=(at(KILLED, "1.0"),), logs=("kernel-log",)), "kernel", uptime_s=WEEK_S)
    verdict = verdict_on(msgspec.structs.replace(evidence_of(facts), mode="monitor"))
    (finding,) = (each for each in verdict.findings if each.check_id == "out-of-memory")
    assert finding.status is Status.PASS


@pytest.mark.parametrize(
    ("check_id", "facts"),
    [
        ("mig-mode", with_gpus(h100_node(), mig_enabled=True)),
        ("persistence-mode", with_gpus(h100_node(), persistence_mode=False)),
        ("topology-visible", with_gpus(h100_node(), numa_node=None, pcie=HIDDEN)),
    ],
)
def test_states_are_skipped(check_id: str, facts: MachineFacts) -> None:
    for mode, status in (("accept", Status.WARN), ("monitor", Status.SKIP)):
        verdict = verdict_on(msgspec.structs.replace(evidence_of(facts), mode=mode))
        assert {each.status for each in verdict.findings if each.check_id == check_id} == {status}


def test_the_run_with_which_counters_are_compared_is_named() -> None:
    earlier = Snapshot(taken_s=NOW.timestamp(), booted_s=0.0, counts={})
    with_earlier = msgspec.structs.replace(evidence_of(h100_node()), mode="monitor", earlier=earlier)
    assert since_words(with_earlier) == (
        "errors of links and remapped rows are counted since the run of 2026-11-22 12:00 UTC",
    )
    assert since_words(msgspec.structs.replace(with_earlier, mode="accept")) == ()
    assert since_words(msgspec.structs.replace(with_earlier, earlier=None)) == ()


def finding(status: Status, subject: str = "GPU0", summary: str = "s") -> Finding:
    return Finding(check_id="x", subject=subject, status=status, summary=summary)


FAULT, PASSED = finding(Status.FAIL), finding(Status.PASS, "host", "fine")
WARNED, OTHER = finding(Status.WARN, "GPU1"), finding(Status.WARN)


@pytest.mark.parametrize(
    ("now", "ever", "expected"),
    [
        ([PASSED], [PASSED], [PASSED]),
        ([PASSED], [WARNED], [PASSED]),
        ([PASSED], [FAULT], [FAULT]),
        ([FAULT], [FAULT], [FAULT]),
        ([WARNED], [FAULT], [FAULT, WARNED]),
        ([WARNED, PASSED], [FAULT, WARNED], [FAULT, WARNED]),
        # A recent warning about the same thing adds nothing to the fault.
        ([OTHER], [FAULT], [FAULT]),
        ([WARNED], [], [WARNED]),
    ],
)
def test_old_faults_stand_beside_recent_findings(
    now: list[Finding], ever: list[Finding], expected: list[Finding]
) -> None:
    assert standing(now, ever) == expected
