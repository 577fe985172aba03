"""What is wrong with launch files, for people: the line, a mark below it, and what to write instead."""

from __future__ import annotations

from assistant.render.lines import bold, clean, filled, paint
from probes.judging.findings import Status
from recipes.lint.document import Document
from recipes.lint.finding import LintFinding, LintReport, Severity
from recipes.lint.rule_table import load_rules

_WIDEST = 160
"""Columns of a line of the file that are shown."""
_STATUS: dict[Severity, Status] = {"error": Status.FAIL, "warning": Status.WARN, "note": Status.SKIP}


def render_lint(
    report: LintReport,
    documents: tuple[Document, ...],
    *,
    colour: bool = False,
    verbose: bool = False,
    fixable: int = 0,
) -> str:
    """The whole report; `verbose` adds why each rule exists and who says so. `fixable` findings have a safe
    change.
    """
    texts = {document.name: document.text.split("\n") for document in documents}
    lines: list[str] = []
    for finding in report.findings:
        lines += [*_finding(finding, texts.get(finding.document, []), colour=colour, verbose=verbose), ""]
    lines += [line for note in report.notes for line in filled(note, label="note: ", indent=6)]
    if report.notes:
        lines.append("")
    return "\n".join([*lines, summary(report, fixable)]) + "\n"


def summary(report: LintReport, fixable: int = 0) -> str:
    """`2 errors, 1 warning in 3 files; 1 waived; --diff shows the fix of 2`."""
    counts = {severity: sum(one.severity == severity for one in report.findings) for severity in _STATUS}
    told = ", ".join(f"{count} {severity}{'s' * (count != 1)}" for severity, count in counts.items() if count)
    files = len(report.documents)
    words = f"{told or 'nothing found'} in {files} file{'s' * (files != 1)}"
    words += f"; {report.waived} waived" if report.waived else ""
    return words + (f"; --diff shows the safe fix of {fixable}" if fixable else "")


def _finding(finding: LintFinding, text: list[str], *, colour: bool, verbose: bool) -> list[str]:
    place = finding.place
    where = bold(clean(f"{finding.document}:{place.line}:{place.column}:"), colour=colour)
    level = paint(f"{finding.severity}:", _STATUS[finding.severity], colour=colour)
    lines = [f"{where} {level} {clean(finding.message)} [{finding.rule_id}]"]
    if 0 < place.line <= len(text):
        lines += _quoted(finding, text[place.line - 1].rstrip("\r"))
    gap = " " * (len(str(place.line)) + 3)
    for label, words in (("fix: ", finding.fix), *_reason(finding, verbose=verbose)):
        if words:
            lines += filled(words, label=f"{gap}{label}", indent=len(gap) + len(label), width=100)
    return lines


def _reason(finding: LintFinding, *, verbose: bool) -> tuple[tuple[str, str], ...]:
    row = load_rules().get(finding.rule_id)
    return (("why: ", row.reason), ("source: ", row.source)) if verbose and row is not None else ()


def _quoted(finding: LintFinding, line: str) -> list[str]:
    """The line and a mark below the place. What does not fit is left out, so that the place is seen."""
    place = finding.place
    number = f" {place.line} | "
    start = max(place.column - 1, 0)
    end = (
        len(line) if place.end_line not in (None, place.line) else (place.end_column or place.column + 1) - 1
    )
    shift = max(0, start - _WIDEST // 2)
    shown = clean(line[shift : shift + _WIDEST].replace("\t", " "))
    start, end = min(start - shift, len(shown)), min(end - shift, len(shown))
    mark = " " * start + "^" * max(1, end - start)
    return [f"{number}{shown}", f"{' ' * (len(number) - 2)}| {mark}"]
