"""Changes that correct a mistake, and which of them are safe.

Rules attach changes to a finding. `with_safe_edits` keeps a change as safe only if a job that works cannot
behave differently afterwards. `edited` applies the changes to the text.
"""

import difflib
import functools
import re
from collections.abc import Iterable

import msgspec

from recipes.lint.comments import is_explained
from recipes.lint.document import Document, Place, Setting, lines_of
from recipes.lint.finding import Edit, LintFinding
from recipes.lint.readers.span import Lines


def with_safe_edits(finding: LintFinding, document: Document, *, is_harmless: bool) -> LintFinding:
    """Return the finding with its edits kept as safe, marked as unsafe, or removed.

    A line for which a comment gives a reason is never changed. A change in a branch or a template is unsafe,
    and so is each change of a rule that is not harmless: the job may behave differently afterwards.
    """
    if not finding.edits:
        return finding
    lines = {edit.place.line for edit in finding.edits}
    if any(is_explained(document, line) for line in lines):
        return msgspec.structs.replace(finding, edits=())
    if is_harmless and not _has_template(document.text) and not lines & _conditional_lines(document):
        return finding
    return msgspec.structs.replace(finding, edits=(), unsafe_edits=finding.edits)


def _has_template(text: str) -> bool:
    return re.search(r"\{%|\{\{-?\s*(?:if|else|range|with|end)\b", text) is not None


def _conditional_lines(document: Document) -> set[int]:
    """Return the lines of settings and commands that may never run."""
    return {item.place.line for item in document.given if item.is_conditional} | {
        command.place.line for command in document.commands if command.is_conditional
    }


def edited(document: Document, findings: Iterable[LintFinding], *, unsafe: bool = False) -> str:
    """Return the text with all safe edits of these findings; if `unsafe` is set, also with the unsafe edits.

    If two findings overlap, the first one in the list wins. The edits of a finding are applied all together
    or not at all.
    """
    lines = Lines(document.text)
    taken: list[tuple[int, int, str]] = []
    for finding in findings:
        if finding.document != document.name:
            continue
        edits = (*finding.edits, *finding.unsafe_edits) if unsafe else finding.edits
        ranges = [(*_range(lines, edit), edit.text) for edit in edits]
        new = [change for change in ranges if change not in taken]
        if not any(_overlap(change, earlier) for change in new for earlier in taken):
            taken += dict.fromkeys(new)
    return _replaced(document.text, taken)


def with_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with all edits; they must not overlap."""
    lines = Lines(text)
    return _replaced(text, [(*_range(lines, edit), edit.text) for edit in edits])


def _replaced(text: str, changes: list[tuple[int, int, str]]) -> str:
    for start, end, words in sorted(changes, reverse=True):
        text = text[:start] + words + text[end:]
    return text


def patch(document: Document, findings: Iterable[LintFinding], *, unsafe: bool = False) -> str:
    """Return the edits as a unified diff for `patch -p1` and `git apply`; empty if nothing changes."""
    return unified_diff(document.name, document.text, edited(document, findings, unsafe=unsafe))


def unified_diff(file: str, before: str, after: str) -> str:
    """Return the change of a file for `patch -p1` and `git apply`; empty if nothing changes."""
    if after == before:
        return ""
    name = file.lstrip("/")
    diff = difflib.unified_diff(_patch_lines(before), _patch_lines(after), f"a/{name}", f"b/{name}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff
    )


def _patch_lines(text: str) -> list[str]:
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


_REMOVABLE = ("shell", "sbatch", "dotenv", "nccl-conf")
_MOST_PLACES = 50


def rename(document: Document, item: Setting, name: str) -> tuple[Edit, ...]:
    """Return edits that replace a variable's name everywhere except in lines that are comments.

    This covers `export`, `$NAME` and `-x NAME`. The result is empty if the file already uses the new name, or
    names the variable in too many places.
    """
    places = _places_in(document.text, item.name)
    if _places_in(document.text, name) or len(places) > _MOST_PLACES:
        return ()  # the file uses the new name already, or a program wrote the file
    return tuple(Edit(place=place, text=name) for place in places)


def rewrite(document: Document, item: Setting, text: str) -> tuple[Edit, ...]:
    """Return an edit that replaces a literal value of a setting on one line and keeps its quotes."""
    place = item.value_place
    if place is None or place.end_column is None or place.end_line not in (None, place.line):
        return ()
    lines = document.lines
    written = (
        lines[place.line - 1][place.column - 1 : place.end_column - 1] if 0 < place.line <= len(lines) else ""
    )
    if "$" in written or not written:
        return ()
    quote = written[:1] if written[:1] in ("'", '"') else ""
    return (Edit(place=place, text=f"{quote}{text}{quote}"),)


def removal(document: Document, item: Setting) -> tuple[Edit, ...]:
    """Return an edit that deletes the line of a setting.

    The line must do nothing else, and no other line of the file may use the variable.
    """
    lines = document.lines
    line = item.place.line
    if not 0 < line <= len(lines) or document.kind not in _REMOVABLE or _is_used(document.text, item.name):
        return ()
    before = lines[line - 2] if line > 1 else ""
    if (
        not re.fullmatch(_alone(item.name), lines[line - 1])
        or before.endswith("\\")
        or _is_only_body(lines, line)
    ):
        return ()
    return (Edit(place=Place(line=line, column=1, end_line=line + 1, end_column=1), text=""),)


@functools.lru_cache(maxsize=64)
def _places_in(text: str, name: str) -> tuple[Place, ...]:
    """Return the places that contain the name as a whole word, except in lines that are comments."""
    word = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])")
    return tuple(
        Place(line=number, column=match.start() + 1, end_line=number, end_column=match.end() + 1)
        for number, line in enumerate(lines_of(text), 1)
        if name in line and not line.lstrip().startswith(("#", "//"))
        for match in word.finditer(line)
    )


def _alone(name: str) -> str:
    """Return a regular expression for a line that sets the variable and does nothing else."""
    return rf"\s*(?:export\s+)?{re.escape(name)}=(?:[^\s;&|\"'\\]*|\"[^\"]*\"|'[^']*')\s*(?:#.*)?"


@functools.lru_cache(maxsize=64)
def _is_used(text: str, name: str) -> bool:
    """Return whether a line uses the name other than by setting the variable.

    A script under `set -u` would end at such a line if the variable were removed.
    """
    lines = lines_of(text)
    return any(not re.fullmatch(_alone(name), lines[place.line - 1]) for place in _places_in(text, name))


def _is_only_body(lines: tuple[str, ...], number: int) -> bool:
    """Return whether the line is the whole body of an `if` or a loop: the shell refuses an empty body."""
    before = lines[number - 2].strip() if number > 1 else ""
    after = lines[number].strip() if number < len(lines) else ""
    return bool(re.search(r"(?:^|\s)(?:then|do|else|\{|\))$", before)) and bool(
        re.match(r"(?:fi|done|else|elif|\}|;;)\b|\}|;;", after)
    )
