"""Test that each row of advice fires on one machine and not on another, and that each line cites facts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings

from probes.facts import MachineFacts
from recipes.advice.advice_lines import Subject, load_advice
from tests.support.advice_cases import ALWAYS, CASES, advised, ids
from tests.support.any_facts import any_of

HOW_TO_READ = re.compile(r"\b([Rr]ead|[Ll]ist|[Aa]sk|[Ss]tate|[Ll]ook)\b")
"""Verbs with which a line about an unknown fact states how to obtain the fact."""
ROWS = [(subject, row.id) for subject in CASES for row in load_advice(subject)]


@pytest.mark.parametrize(("subject", "row"), ROWS)
def test_row_fires_on_its_machine(subject: Subject, row: str) -> None:
    assert row in CASES[subject], "add a machine on which the row fires, and one on which it does not"
    facts, question = CASES[subject][row][0]
    assert row in ids(subject, facts, **question)


@pytest.mark.parametrize(("subject", "row"), [each for each in ROWS if each[1] not in ALWAYS])
def test_row_is_silent_elsewhere(subject: Subject, row: str) -> None:
    facts, question = CASES[subject][row][1]
    assert row not in ids(subject, facts, **question)


@pytest.mark.parametrize("subject", CASES)
def test_no_case_without_a_row(subject: Subject) -> None:
    assert set(CASES[subject]) == {row.id for row in load_advice(subject)}


def assert_cited(subject: Subject, facts: MachineFacts) -> None:
    advice = advised(subject, facts)
    assert advice.lines
    for line in advice.lines:
        assert all((line.text, line.fact, line.source)), line.id
        assert re.fullmatch(r"20\d\d-\d\d", line.date), line.id
        if line.kind == "unknown":
            assert HOW_TO_READ.search(line.text), line.text


@pytest.mark.parametrize("subject", CASES)
def test_every_line_of_a_case_is_cited(subject: Subject) -> None:
    for fires, silent in CASES[subject].values():
        assert_cited(subject, fires.facts)
        assert_cited(subject, silent.facts)


@settings(max_examples=150, deadline=None)
@given(any_of(MachineFacts))
def test_any_machine_gets_cited_lines(facts: MachineFacts) -> None:
    for subject in CASES:
        assert_cited(subject, facts)
