"""Safe changes of findings, applied to the text."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from recipes.lint.document import Document
from recipes.lint.finding import Edit, LintFinding
from recipes.lint.readers.span import Lines


def edited(document: Document, findings: Iterable[LintFinding]) -> str:
    """Return the text with all edits of these findings.

    If two findings overlap, the first one in the list wins. The edits of a finding are applied all together
    or not at all.
    """
    lines = Lines(document.text)
    taken: list[tuple[int, int, str]] = []
    for finding in findings:
        if finding.document != document.name:
            continue
        ranges = [(*_range(lines, edit), edit.text) for edit in finding.edits]
        new = [change for change in ranges if change not in taken]
        if not any(_overlap(change, earlier) for change in new for earlier in taken):
            taken += dict.fromkeys(new)
    text = document.text
    for start, end, words in sorted(taken, reverse=True):
        text = text[:start] + words + text[end:]
    return text


def patch(document: Document, findings: Iterable[LintFinding]) -> str:
    """Return the edits as a unified diff for `patch -p1` and `git apply`; empty if nothing changes."""
    after = edited(document, findings)
    if after == document.text:
        return ""
    name = document.name.lstrip("/")
    diff = difflib.unified_diff(_lines(document.text), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff
    )


def _lines(text: str) -> list[str]:
    """Return the lines as `patch` counts them."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _range(lines: Lines, edit: Edit) -> tuple[int, int]:
    place = edit.place
    start = lines.offset(place.line - 1, place.column - 1)
    end_line = place.line if place.end_line is None else place.end_line
    end_column = place.column if place.end_column is None else place.end_column
    return start, max(start, lines.offset(end_line - 1, end_column - 1))


def _overlap(first: tuple[int, int, str], second: tuple[int, int, str]) -> bool:
    return first[0] == second[0] or (first[0] < second[1] and second[0] < first[1])
