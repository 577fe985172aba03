"""Write lint findings for programs: SARIF 2.1.0, and the annotations of GitHub's workflows."""

from typing import Any
from urllib.parse import quote

from assistant.formats.build import version
from probes.base.record import printable, to_json, visible
from recipes.lint.document import Place
from recipes.lint.finding import LintFinding, LintReport
from recipes.lint.rule_table import example_of, help_link, load_rules

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}
"""Level of a GitHub annotation, by severity."""


def sarif_text(report: LintReport) -> str:
    """Return one run with its rules and results.

    Source: OASIS, SARIF 2.1.0; the docstrings below name its sections in brackets.
    """
    used = list(dict.fromkeys(finding.rule_id for finding in report.findings))
    run = {
        "tool": {
            "driver": {
                "name": "rigtune",
                "version": version(),
                "rules": [_rule(rule_id) for rule_id in used],
            }
        },
        "columnKind": "unicodeCodePoints",
        "artifacts": [{"location": {"uri": uri}} for uri in dict.fromkeys(map(_uri, report.documents))],
        "results": [_result(finding, used.index(finding.rule_id)) for finding in report.findings],
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "note", "message": _words(note)} for note in report.notes
                ],
            }
        ],
    }
    return to_json({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}).decode()


def _rule(rule_id: str) -> dict[str, Any]:
    """Return a reportingDescriptor [3.49]."""
    row = load_rules().get(rule_id)
    if row is None:
        return {"id": rule_id}
    example, link = example_of(rule_id), help_link(row)
    texts = f"Bad:\n\n```\n{example.bad}```\n\nGood:\n\n```\n{example.good}```\n"
    page = f"{row.reason}\n\nSource: {row.source}\n\n{texts}"
    return {
        "id": rule_id,
        "shortDescription": _words(row.title),
        "fullDescription": _words(row.reason),
        **({"helpUri": link} if link else {}),
        "help": {**_words(f"{row.reason} Source: {row.source}."), "markdown": page},
        "defaultConfiguration": {"level": row.severity},
    }


def _result(finding: LintFinding, index: int) -> dict[str, Any]:
    """Return a result [3.27], with the safe change as its fix [3.55]."""
    location = {"artifactLocation": {"uri": _uri(finding.document)}, "region": _region(finding.place)}
    words = f"{finding.message} {finding.fix}" if finding.fix else finding.message
    result: dict[str, Any] = {
        "ruleId": finding.rule_id,
        "ruleIndex": index,
        "level": finding.severity,
        "message": _words(words),
        "locations": [{"physicalLocation": location}],
    }
    if finding.edits:
        replacements = [
            {"deletedRegion": _region(edit.place, is_edit=True), "insertedContent": {"text": edit.text}}
            for edit in finding.edits
        ]
        change = {"artifactLocation": {"uri": _uri(finding.document)}, "replacements": replacements}
        result["fixes"] = [
            {"description": _words(finding.fix or finding.message), "artifactChanges": [change]}
        ]
    return result


def _words(text: str) -> dict[str, str]:
    """Return a message [3.11] with doubled braces, because single braces mark placeholders [3.11.5]."""
    return {"text": text.replace("{", "{{").replace("}", "}}")}


def _region(place: Place, *, is_edit: bool = False) -> dict[str, int]:
    """Return a text region [3.30.4]: lines and columns from 1; the end column is after the last character."""
    region = {"startLine": max(place.line, 1), "startColumn": max(place.column, 1)}
    if place.end_column is not None and (place.end_line or place.line) >= place.line:
        region |= {"endLine": place.end_line or place.line, "endColumn": max(place.end_column, 1)}
    elif is_edit:
        region |= {"endLine": region["startLine"], "endColumn": region["startColumn"]}
    return region


def _uri(name: str) -> str:
    if name == "-":
        return "stdin"
    path = quote(printable(name).removeprefix("./"), safe="/~@+=,")
    return f"file://{path}" if path.startswith("/") else path


def github_text(report: LintReport) -> str:
    """Return a line for each finding. Source: GitHub's workflow commands, docs.github.com."""
    lines = []
    for finding in report.findings:
        place = finding.place
        fields = {"file": finding.document, "line": str(place.line), "col": str(place.column)}
        if place.end_line is not None:
            fields["endLine"] = str(place.end_line)
        if place.end_column is not None and place.end_line in (None, place.line):
            fields["endColumn"] = str(place.end_column)
        fields["title"] = f"rigtune {finding.rule_id}"
        properties = ",".join(
            f"{name}={_data(value).replace(':', '%3A').replace(',', '%2C')}" for name, value in fields.items()
        )
        words = f"{finding.message}\n{finding.fix}" if finding.fix else finding.message
        lines.append(f"::{_LEVELS[finding.severity]} {properties}::{_data(words)}")
    return "".join(f"{line}\n" for line in lines)


def _data(text: str) -> str:
    return visible(printable(text)).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
