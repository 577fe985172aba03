"""Test what the page about logs says, and what it keeps for -v."""

from __future__ import annotations

import pytest

from assistant.pages.explain_page import explain_page, fact_rows
from assistant.text.plain_writer import text_of
from probes.logs.diagnosis import Diagnosis, EvidenceLine, Explanation

NO_FAILURE = "the logs show no failure, but something that you should check"


def cause(cause_id: str = "oom", **fields) -> Diagnosis:
    return Diagnosis(
        **{"cause_id": cause_id, "confidence": 0.9, "summary": f"about {cause_id}", "remedy": "", **fields}
    )


def seen(*texts: str, source: str = "a.log") -> tuple[EvidenceLine, ...]:
    return tuple(EvidenceLine(source=source, line=n, text=text) for n, text in enumerate(texts, 1))


def page_of(*diagnoses: Diagnosis, verbose: bool = False, **fields) -> str:
    made = Explanation(**{"state": "fault", "diagnoses": diagnoses, "sources": ("a.log",), **fields})
    return text_of(explain_page(made, verbose=verbose), width=400)


def lines_of(*diagnoses: Diagnosis, **more) -> list[str]:
    return [" ".join(line.split()) for line in page_of(*diagnoses, **more).splitlines() if line.strip()]


def test_a_cause_has_its_effects_remedy_command_and_lines():
    diagnosis = cause(
        remedy="use less",
        command="free -h",
        secondary=("ranks wait",),
        evidence=seen("first", "second"),
        versions="before 2.20",
        source="the handbook",
    )
    short = [
        "✗ FAIL the logs show a fault",
        "0 lines of a.log",
        "✗ FAIL oom 90% sure",
        "about oom",
        "so also ranks wait",
        "do use less",
        "$ free -h",
        "1 | first",
        "2 | second",
    ]
    assert lines_of(diagnosis) == short
    assert lines_of(diagnosis, verbose=True) == [*short, "when before 2.20", "source the handbook"]


@pytest.mark.parametrize(
    ("fields", "badge"),
    [
        ({"cause_id": "unknown", "is_fault": False}, "? UNKNOWN unknown"),
        ({"cause_id": "ended", "is_fault": False}, "! WARN ended 90% sure"),
        ({"cause_id": "oom"}, "✗ FAIL oom 90% sure"),
    ],
)
def test_the_badge_of_a_cause_distinguishes_faults_from_remarks(fields, badge):
    assert lines_of(cause(**fields))[2] == badge


def test_a_healthy_rest_is_one_sentence_beside_a_fault_and_has_no_remedy_alone():
    healthy = cause("healthy", is_fault=False, remedy="go on")
    assert lines_of(cause(), healthy)[-1] == "everything else is healthy: about healthy"
    alone = lines_of(healthy, state="healthy")
    assert alone == [
        "✓ PASS nothing wrong in these logs",
        "0 lines of a.log",
        "✓ PASS healthy 90% sure",
        "about healthy",
    ]


@pytest.mark.parametrize(
    ("state", "diagnoses", "more", "answer"),
    [
        ("healthy", [cause("healthy", is_fault=False)], {}, "nothing wrong in these logs"),
        ("healthy", [cause("healthy", is_fault=False), cause("old", is_fault=False)], {}, NO_FAILURE),
        ("healthy", [cause("healthy")], {}, "nothing wrong in these logs"),
        ("unknown", [cause("ended", is_fault=False)], {}, NO_FAILURE),
        (
            "unknown",
            [cause("ended", is_fault=False)],
            {"collect_next": ("dmesg",)},
            "the logs do not show whether something is wrong, or what it is",
        ),
        ("unknown", [], {}, "the logs do not show whether something is wrong, or what it is"),
        ("fault", [cause(), cause("old", is_fault=False)], {}, "the logs show a fault"),
    ],
)
def test_the_answer_comes_first(state, diagnoses, more, answer):
    assert lines_of(*diagnoses, state=state, **more)[0].endswith(answer)


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ((), "3 lines of nothing"),
        (("-",), "3 lines of standard input"),
        (("a.log", "-"), "3 lines of a.log, standard input"),
        (tuple("abcdefgh"), "3 lines of a, b, c, d, e, f, g, h"),
        (tuple("abcdefghi"), "3 lines of a, b, c, d, e, f, g, h and 1 more"),
    ],
)
def test_the_sources_are_named(sources, words):
    assert lines_of(sources=sources, lines_read=3)[1] == words


def test_lines_name_their_file_only_if_there_are_several():
    diagnosis = cause(evidence=seen("x"))
    assert "1 | x" in lines_of(diagnosis)
    assert "a.log:1 | x" in lines_of(diagnosis, sources=("a.log", "b.log"))


HINT = "-v lists all causes, their lines and all facts"


@pytest.mark.parametrize(("number", "has_more"), [(3, False), (4, True)])
def test_three_lines_of_evidence_and_three_causes_are_shown(number, has_more):
    diagnosis = cause(evidence=seen(*(f"text {n}" for n in range(number))))
    causes = [cause(f"cause-{n}") for n in range(number)]
    for lines in (lines_of(diagnosis), lines_of(*causes)):
        assert (HINT in lines) is has_more
    assert ("4 | text 3" in lines_of(diagnosis)) is False
    assert ("4 | text 3" in lines_of(diagnosis, verbose=True)) is has_more
    assert "about cause-3" not in lines_of(*causes)
    assert ("about cause-3" in lines_of(*causes, verbose=True)) is has_more
    assert HINT not in lines_of(diagnosis, verbose=True)


@pytest.mark.parametrize(("length", "shown"), [(240, "w" * 240), (241, f"{'w' * 240}…")])
def test_a_very_long_line_is_cut(length, shown):
    assert lines_of(cause(evidence=seen("w" * length)))[-1] == f"1 | {shown}"


def test_expectations_questions_and_facts_come_last():
    text = page_of(
        expected=("370 GB/s", "one hour"), collect_next=("dmesg", "nvidia-smi"), facts={"version": "2.21"}
    )
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()][2:]
    assert "\n  - dmesg\n" in text
    assert "\n  version: 2.21\n" in text
    assert lines == [
        "expect 370 GB/s",
        "one hour",
        "To find out more:",
        "- dmesg",
        "- nvidia-smi",
        "The run:",
        "version: 2.21",
    ]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("n_ranks", 8, "  n ranks: 8"),
        ("init_incomplete", 0, "  ranks that wait during initialisation: 0"),
        ("init_incomplete", [0, 3], "  ranks that wait during initialisation: 0, 3"),
        ("x", None, ""),
        ("x", "", ""),
        ("x", [], ""),
        ("x", True, "  x: yes"),
        ("x", False, "  x: no"),
        ("x", 0.123456789, "  x: 0.123457"),
        ("x", {"a": 1, "b": {"c": 2}, "d": None}, "  x: a 1, b (c 2)"),
        ("x", list(range(8)), "  x: 0, 1, 2, 3, 4, 5, 6, 7"),
        ("x", list(range(9)), "  x: 0, 1, 2, 3, 4, 5, 6, 7 and 1 more"),
        ("x", [None, "a", ""], "  x: a"),
        ("first_failure", {"line": 3, "source": "a.log"}, "  first failure: line 3 of a.log"),
        (
            "first_failure",
            {"line": 3, "source": "a.log", "host": "n1", "rank": 0, "after_s": 12.3456789},
            "  first failure: line 3 of a.log, host n1, rank 0, 12.3457 s after the first line",
        ),
        ("first_failure", "never", "  first failure: never"),
        ("other", {"line": 3}, "  other: line 3"),
    ],
)
def test_facts_are_written_as_words(name, value, text):
    rows = fact_rows({name: value})
    assert [f"{row.label}{row.text}" for row in rows] == [text] * bool(text)


def test_all_values_of_a_fact_are_shown_on_request():
    (row,) = fact_rows({"x": list(range(9))}, verbose=True)
    assert row.text == "0, 1, 2, 3, 4, 5, 6, 7, 8"


def test_commands_and_lines_of_logs_are_broken_only_on_request():
    made = Explanation(
        state="fault", diagnoses=(cause(command="c " * 60, evidence=seen("w " * 60)),), sources=("a",)
    )
    whole = text_of(explain_page(made), width=60).splitlines()
    folded = text_of(explain_page(made, folds=True), width=60).splitlines()
    assert max(map(len, whole)) > 100
    assert max(map(len, folded)) <= 60
