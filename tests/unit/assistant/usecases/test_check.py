"""Test checks over facts: their events, and the effect of a broken check on the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import msgspec
import pytest

from assistant.usecases.check import check_machine
from assistant.usecases.events import FindingMade, StageFinished, StageStarted
from probes.base.record import to_json
from probes.base.table_rows import CheckRow
from probes.judging.check_table import CHECKS
from probes.judging.findings import Evidence, Finding, Status
from probes.judging.verdict import Verdict
from tests.support.machines import evidence_of, h100_node

NOFILE = next(row for row in CHECKS if row.id == "nofile")


def broken(evidence: Evidence) -> Iterator[Finding]:
    yield Finding(check_id="broken", subject="host", status=Status.PASS, summary="half of it")
    raise ValueError("no such \n thing")


@pytest.fixture
def broken_row(monkeypatch: pytest.MonkeyPatch) -> CheckRow:
    module = ModuleType("broken_check")
    module.check = broken  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "broken_check", module)
    return CheckRow(id="broken", title="Broken", module="broken_check", group="host")


def test_events_of_a_healthy_machine() -> None:
    events = list(check_machine(evidence_of(h100_node())))
    assert isinstance(events[0], StageStarted)
    assert events[0].title == "Checking node17"
    assert isinstance(events[-1], StageFinished)
    made = [event.finding for event in events[1:-1] if isinstance(event, FindingMade)]
    verdict = events[-1].result
    assert sorted(made, key=repr) == sorted(verdict.findings, key=repr)
    assert (verdict.verdict, verdict.hostname, verdict.source) == (Status.PASS, "node17", "live")


def test_a_broken_check_is_unknown_and_the_others_go_on(broken_row: CheckRow) -> None:
    *_, finished = check_machine(evidence_of(h100_node()), (broken_row, NOFILE))
    assert isinstance(finished, StageFinished)
    verdict = finished.result
    assert [f"{finding.check_id} {finding.status.value}" for finding in verdict.findings] == [
        "broken UNKNOWN",
        "broken PASS",
        "nofile PASS",
    ]
    assert "ValueError: no such" in verdict.findings[0].observed
    assert "test_check.py, line" in verdict.findings[0].observed
    assert verdict.verdict is Status.UNKNOWN


def test_a_check_whose_module_is_missing_is_unknown() -> None:
    row = CheckRow(id="gone", title="Gone", module="probes.checks.gone", group="host", required=False)
    *_, finished = check_machine(evidence_of(h100_node()), (row, NOFILE))
    assert isinstance(finished, StageFinished)
    assert finished.result.findings[0].status is Status.UNKNOWN
    assert "ModuleNotFoundError" in finished.result.findings[0].observed
    assert finished.result.verdict is Status.PASS


def test_a_data_row_with_a_mistake_is_unknown_and_the_others_go_on() -> None:
    row = msgspec.structs.replace(
        NOFILE, id="misspelt", rules={**(NOFILE.rules or {}), "fakt": "limits.nofile"}
    )
    *_, finished = check_machine(evidence_of(h100_node()), (row, NOFILE))
    assert isinstance(finished, StageFinished)
    assert [f"{finding.check_id} {finding.status.value}" for finding in finished.result.findings] == [
        "misspelt UNKNOWN",
        "nofile PASS",
    ]
    assert "fakt" in finished.result.findings[0].observed


def test_verdict_survives_json() -> None:
    *_, finished = check_machine(evidence_of(h100_node()))
    assert isinstance(finished, StageFinished)
    assert msgspec.json.decode(to_json(finished.result), type=Verdict) == finished.result
