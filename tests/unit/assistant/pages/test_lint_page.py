"""Test how mistakes in launch files are quoted and counted."""

from __future__ import annotations

import pytest

from assistant.pages.lint_page import lint_page, summary
from assistant.text.plain_writer import text_of
from recipes.lint.document import Document, Place
from recipes.lint.finding import Edit, LintFinding, LintReport
from recipes.lint.rule_table import load_rules
from recipes.lint.understanding import Understood

EDIT = (Edit(place=Place(line=1, column=1), text="x"),)


def finding(line: int = 2, column: int = 3, *, ends: tuple[int, int] | None = None, **fields) -> LintFinding:
    place = Place(line=line, column=column)
    if ends is not None:
        place = Place(line=line, column=column, end_line=ends[0], end_column=ends[1])
    return LintFinding(
        **{
            "rule_id": "variable-misspelt",
            "severity": "error",
            "document": "a.sh",
            "message": "wrong",
            "place": place,
            **fields,
        }
    )


def lines_of(made: LintFinding, text: str = "first\nsecond\nthird", *, verbose: bool = False) -> list[str]:
    """Return the lines about one finding."""
    document = Document(name="a.sh", kind="shell", text=text)
    report = LintReport(findings=(made,), documents=("a.sh",))
    return text_of(lint_page(report, (document,), verbose=verbose), width=400).splitlines()[:-2]


@pytest.mark.parametrize(
    ("made", "quote", "mark"),
    [
        (finding(2, 3), " 2 | second", "   |   ^"),
        (finding(2, 3, ends=(2, 6)), " 2 | second", "   |   ^^^"),
        (finding(2, 3, ends=(3, 2)), " 2 | second", "   |   ^^^^"),
        (finding(2, 0), " 2 | second", "   | ^"),
        (finding(2, 1, ends=(2, 1)), " 2 | second", "   | ^"),
        (finding(2, 9), " 2 | second", "   |       ^"),
        (finding(1, 1, ends=(1, 6)), " 1 | first", "   | ^^^^^"),
        (finding(3, 5, ends=(3, 6)), " 3 | third", "   |     ^"),
    ],
)
def test_the_mistake_is_marked_below_the_quoted_line(made, quote, mark):
    head = f"a.sh:{made.place.line}:{made.place.column}: error: wrong [variable-misspelt]"
    assert [line.rstrip() for line in lines_of(made)] == [head, quote, mark]


@pytest.mark.parametrize("line", [0, 4], ids=["the whole file", "behind its end"])
def test_a_place_outside_the_file_is_not_quoted(line):
    assert len(lines_of(finding(line))) == 1


def test_lines_of_windows_are_quoted_without_their_end():
    assert lines_of(finding(1, 1), "first\r\nsecond")[1] == " 1 | first"


@pytest.mark.parametrize(
    ("column", "start", "mark"),
    [(81, 0, 80), (82, 1, 80), (200, 119, 80), (1, 0, 0)],
)
def test_a_long_line_is_cut_on_both_sides_of_the_mistake(column, start, mark):
    text = "".join(chr(ord("a") + number % 26) for number in range(300))
    _, quoted, marked = lines_of(finding(1, column), text)
    assert quoted == f" 1 | {text[start : start + 160]}"
    assert marked.rstrip() == f"   | {' ' * mark}^"


def test_the_fix_stands_below_the_line_and_verbose_adds_the_rule():
    rule = load_rules()["variable-misspelt"]
    made = finding(2, fix="write it so")
    assert lines_of(made)[3:] == ["    fix: write it so"]
    assert lines_of(made, verbose=True)[3:] == [
        "    fix: write it so",
        f"    why: {rule.reason}",
        *([f"    source: {rule.source}"] if rule.source else []),
    ]
    ten = lines_of(finding(10, 1, fix="f"), "\n" * 9 + "tenth")
    assert ten[1:] == [" 10 | tenth", "    | ^", "     fix: f"]


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (LintReport(documents=("a",)), "nothing found in 1 file"),
        (LintReport(documents=("a", "b"), waived=1), "nothing found in 2 files; 1 waived"),
        (
            LintReport(documents=("a",), left_out=2),
            "nothing found in 1 file; 2 left out because their rules are ignored or not selected",
        ),
        (
            LintReport(
                documents=("a",),
                findings=(
                    finding(severity="note"),
                    finding(),
                    finding(severity="warning"),
                    finding(severity="warning"),
                ),
            ),
            "1 error, 2 warnings, 1 note in 1 file",
        ),
        (
            LintReport(documents=("a",), findings=(finding(edits=EDIT), finding())),
            "2 errors in 1 file; --diff shows the safe fix of 1",
        ),
        (
            LintReport(documents=("a",), findings=(finding(edits=EDIT), finding(unsafe_edits=EDIT))),
            "2 errors in 1 file; --diff shows the safe fix of 1; --diff --unsafe-fixes shows the fix of 2",
        ),
        (
            LintReport(documents=("a",), findings=(finding(unsafe_edits=EDIT),)),
            "1 error in 1 file; --diff --unsafe-fixes shows the fix of 1",
        ),
    ],
)
def test_the_summary_counts_mistakes_and_fixes(report, text):
    assert summary(report) == text


def test_notes_and_what_was_read_come_last():
    parts = Understood(
        document="a", kind="shell", commands=1, settings=0, requests=0, keys=0, values_of_run=0,
        parts_not_read=0,
    )  # fmt: skip
    report = LintReport(documents=("a",), notes=("b was not judged", "c too"), understood=(parts,))
    assert list(filter(None, text_of(lint_page(report, ()), width=100).splitlines())) == [
        "note: b was not judged",
        "note: c too",
        "read: 1 command",
        "nothing found in 1 file",
    ]
