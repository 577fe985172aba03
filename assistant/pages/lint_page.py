"""Show the mistakes in launch files: the line, a mark below the mistake, and the text to write instead."""

from assistant.pages.blocks import Page, Row, Section, Tone, section, words
from probes.base.units import plural
from recipes.lint.document import Document
from recipes.lint.finding import LintFinding, LintReport, Severity
from recipes.lint.rule_table import load_rules
from recipes.lint.understanding import in_words

WIDTH = 100
_WIDEST = 160
"""Largest number of columns of a file's line that are shown."""
_TONES: dict[Severity, Tone] = {"error": "bad", "warning": "caution", "note": "dim"}


def lint_page(report: LintReport, documents: tuple[Document, ...], *, verbose: bool = False) -> Page:
    """Return the whole report; `verbose` adds the reason and source of each rule."""
    texts = {document.name: document.text.split("\n") for document in documents}
    return (
        *(_finding(finding, texts.get(finding.document, []), verbose=verbose) for finding in report.findings),
        section("", [Row(note, "note: ") for note in report.notes], indent=6),
        section("", [*([in_words(report.understood)] if report.understood else []), summary(report)]),
    )


def summary(report: LintReport) -> str:
    """Return `2 errors, 1 warning in 3 files; 1 waived; --diff shows the safe fix of 2`."""
    counts = {severity: sum(each.severity == severity for each in report.findings) for severity in _TONES}
    named = ", ".join(plural(count, severity) for severity, count in counts.items() if count)
    text = f"{named or 'nothing found'} in {plural(len(report.documents), 'file')}"
    text += f"; {report.waived} waived" if report.waived else ""
    text += (
        f"; {report.left_out} left out because their rules are ignored or not selected"
        if report.left_out
        else ""
    )
    safe = sum(bool(finding.edits) for finding in report.findings)
    unsafe = sum(bool(finding.unsafe_edits) for finding in report.findings)
    text += f"; --diff shows the safe fix of {safe}" if safe else ""
    return text + (f"; --diff --unsafe-fixes shows the fix of {safe + unsafe}" if unsafe else "")


def _finding(finding: LintFinding, lines: list[str], *, verbose: bool) -> Section:
    place = finding.place
    headline = words(
        (f"{finding.document}:{place.line}:{place.column}:", "strong"),
        " ",
        (f"{finding.severity}:", _TONES[finding.severity]),
        f" {finding.message} [{finding.rule_id}]",
    )
    rows = [Row(headline, literal=True)]
    if 0 < place.line <= len(lines):
        rows += [Row(line, literal=True) for line in _quoted(finding, lines[place.line - 1].rstrip("\r"))]
    gap = " " * (len(str(place.line)) + 3)
    named = [("fix", finding.fix)]
    if verbose and (rule := load_rules().get(finding.rule_id)):
        named += [("why", rule.reason), ("source", rule.source)]
    return section("", [*rows, *(f"{gap}{label}: {text}" for label, text in named if text)])


def _quoted(finding: LintFinding, line: str) -> list[str]:
    """Return the line and a mark below the mistake; a long line is cut on both sides of the mistake."""
    place = finding.place
    number = f" {place.line} | "
    start = max(place.column - 1, 0)
    end = (
        len(line) if place.end_line not in (None, place.line) else (place.end_column or place.column + 1) - 1
    )
    shift = max(0, start - _WIDEST // 2)
    shown = line[shift : shift + _WIDEST]
    start, end = min(start - shift, len(shown)), min(end - shift, len(shown))
    mark = " " * start + "^" * max(1, end - start)
    return [f"{number}{shown}", f"{' ' * (len(number) - 2)}| {mark}"]
