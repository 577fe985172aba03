"""Compare the words of the findings of all check cases. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew.

The tables of cases compare status and subject; here a figure that a sentence shows must not change unnoticed.
Each check has a file of its own, so that a broken check fails its own test only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from probes.base.grouping import grouped
from probes.judging.check_table import CHECKS
from probes.judging.findings import Finding
from tests.support.check_case import Case
from tests.support.check_cases import CASES
from tests.support.machines import evidence_of

FOLDER = Path(__file__).parent / "findings"
ROWS = {row.id: row for row in CHECKS}
CASES_BY_CHECK = grouped((case.check_id, case) for case in CASES)


def findings_of(case: Case) -> list[Finding]:
    inputs = {
        "measurements": case.measured.measurements,
        "bench_failures": case.measured.failures,
        "baselines": case.baselines,
        "site_outcomes": case.site_outcomes,
        "policy": case.policy,
        "today": case.today,
    }
    return list(ROWS[case.check_id].run(msgspec.structs.replace(evidence_of(case.facts), **inputs)))


def lines_of(case: Case) -> Iterator[str]:
    yield f"# {case.name}"
    for finding in findings_of(case):
        yield f"{finding.status.value} {finding.subject}: {finding.summary}"
        remedy = "" if finding.remedy is None else f"{finding.remedy.text} {finding.remedy.command}".strip()
        parts = (("expected", finding.expected), ("observed", finding.observed), ("remedy", remedy))
        yield from (f"  {name}: {text}" for name, text in parts if text)


@pytest.mark.parametrize("check_id", CASES_BY_CHECK)
def test_no_word_of_a_finding_changes_unnoticed(check_id: str) -> None:
    text = "".join(f"{line}\n" for case in CASES_BY_CHECK[check_id] for line in lines_of(case))
    file = FOLDER / f"{check_id}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(text, "utf-8")
    assert file.read_text("utf-8") == text


def test_every_file_belongs_to_a_check() -> None:
    assert {file.stem for file in FOLDER.iterdir()} <= set(ROWS)
