"""Edits of several findings in one text, and their unified diff."""

from __future__ import annotations

import pytest

from recipes.lint.document import Place
from recipes.lint.editing import edited, removal, rename, rewrite, unified_diff, with_edits
from recipes.lint.finding import Edit, LintFinding
from tests.support.linting import read


def _edit(line: int, column: int, end_column: int | None, text: str, end_line: int | None = None) -> Edit:
    return Edit(place=Place(line=line, column=column, end_line=end_line, end_column=end_column), text=text)


def _finding(*edits: Edit, unsafe: tuple[Edit, ...] = (), document: str = "a.sh") -> LintFinding:
    return LintFinding(
        rule_id="x",
        severity="error",
        document=document,
        place=edits[0].place,
        message="",
        edits=edits,
        unsafe_edits=unsafe,
    )


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ([_edit(2, 1, 3, "XY")], "abcd\nXYgh\n"),
        ([_edit(2, 3, None, "-")], "abcd\nef-gh\n"),
        ([_edit(1, 5, 1, "", end_line=2)], "abcdefgh\n"),
        ([_edit(1, 1, 1, "", end_line=2)], "efgh\n"),
        ([_edit(1, 2, 3, "X"), _edit(1, 3, 4, "Y")], "aXYd\nefgh\n"),
        ([_edit(1, 3, 2, "!")], "ab!cd\nefgh\n"),
    ],
)
def test_edits_replace_the_text_at_their_places(edits: list[Edit], text: str):
    assert with_edits("abcd\nefgh\n", edits) == text


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (_edit(1, 3, 4, "Y"), "aXYd\n"),  # they touch
        (_edit(1, 1, 2, "Y"), "YXcd\n"),
        (_edit(1, 2, 4, "Y"), "aXcd\n"),  # they overlap, and the first one wins
        (_edit(1, 1, 3, "Y"), "aXcd\n"),
        (_edit(1, 2, 2, "Y"), "aXcd\n"),  # they start at the same place
        (_edit(1, 2, 3, "X"), "aXcd\n"),  # the same edit twice
    ],
)
def test_the_first_of_two_findings_that_overlap_wins(second: Edit, text: str):
    findings = (_finding(_edit(1, 2, 3, "X")), _finding(second), _finding(second, document="b.sh"))
    assert edited(read("a.sh", "abcd\n"), findings) == text


def test_unsafe_edits_are_made_on_request():
    finding = _finding(_edit(1, 1, 2, "X"), unsafe=(_edit(1, 4, 5, "Y"),))
    document = read("a.sh", "abcd\n")
    assert edited(document, (finding,)) == "Xbcd\n"
    assert edited(document, (finding,), unsafe=True) == "XbcY\n"


def test_the_diff_names_the_file_and_a_missing_end_of_line():
    assert unified_diff("/d/a.sh", "a\nb", "a\nb") == ""
    assert unified_diff("/d/a.sh", "a\nb", "a\nc\n").splitlines() == [
        "--- a/d/a.sh",
        "+++ b/d/a.sh",
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        "\\ No newline at end of file",
        "+c",
    ]


_SET = "export NCCL_DEBUG=INFO\n"


def _given(text: str, name: str = "a.sh"):
    document = read(name, text)
    return document, next(item for item in document.given if item.name == "NCCL_DEBUG")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (f"{_SET}echo\n", "echo\n"),
        (f"echo\n{_SET}", "echo\n"),
        (f"echo\n{_SET}echo\n", "echo\necho\n"),
        (f"echo\n{_SET.strip()}  # why\n", "echo\n"),
        (f"{_SET}echo $NCCL_DEBUG\n", None),
        (f"if a; then\n{_SET}fi\n", None),
        (f"if a; then\n{_SET}echo\nfi\n", "if a; then\necho\nfi\n"),
        (f"if a; then\necho\n{_SET}fi\n", "if a; then\necho\nfi\n"),
        (f"f() {{\n{_SET}}}\n", None),
        (f"{_SET.strip()}; echo\n", None),
    ],
)
def test_a_line_is_removed_if_nothing_else_needs_it(text: str, after: str | None):
    document, item = _given(text)
    edits = removal(document, item)
    assert (with_edits(text, edits) if edits else None) == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("export NCCL_DEBUG=INFO\n", "export NCCL_DEBUG=WARN\n"),
        ("export NCCL_DEBUG='INFO'\n", "export NCCL_DEBUG='WARN'\n"),
        ('echo\nNCCL_DEBUG="INFO" a\n', 'echo\nNCCL_DEBUG="WARN" a\n'),
        ("export NCCL_DEBUG=$X\n", None),
    ],
)
def test_a_value_keeps_its_quotes(text: str, after: str | None):
    edits = rewrite(*_given(text), "WARN")
    assert (with_edits(text, edits) if edits else None) == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (_SET + "echo $NCCL_DEBUG $NCCL_DEBUG_FILE  # NCCL_DEBUG\n# NCCL_DEBUG\n", "export N=INFO\necho $N"),
        (_SET + "echo $N\n", None),
        (_SET + "a $NCCL_DEBUG\n" * 49, "export N=INFO\na $N\n"),
        (_SET + "a $NCCL_DEBUG\n" * 50, None),
    ],
)
def test_a_name_changes_everywhere_unless_a_program_wrote_the_file(text: str, after: str | None):
    edits = rename(*_given(text), "N")
    assert (after is None) == (not edits)
    assert with_edits(text, edits).startswith(after or "")
