"""Explain one rule of lint: the consequence, the source, and a bad and a good example."""

from typing import Any

from recipes.lint.rule_table import LintRule, example_of, help_link


def rule_text(rule: LintRule) -> str:
    """Return the page of a rule as plain text."""
    example = example_of(rule.id)
    facts = {
        "severity": rule.severity,
        "why": rule.reason,
        "source": rule.source,
        "link": help_link(rule) or "",
        "applies from": rule.since,
        "until": rule.until,
        "judged": example.when,
        "--diff": "the fix is safe" if rule.edit == "safe" else "",
    }
    width = max(map(len, facts))
    lines = [f"{rule.id}: {rule.title}", ""]
    lines += [f"  {name:<{width}}  {text}" for name, text in facts.items() if text]
    for label, text in (("bad", example.bad), ("good", example.good)):
        lines += [
            "",
            f"  {label} ({example.name}):",
            *(f"    {line}" for line in text.rstrip("\n").split("\n")),
        ]
    return "\n".join((*lines, ""))


def explained(rule: LintRule) -> dict[str, Any]:
    """Return the same content as the fields of the JSON."""
    example = example_of(rule.id)
    fields: dict[str, Any] = {
        "id": rule.id,
        "title": rule.title,
        "severity": rule.severity,
        "reason": rule.reason,
        "source": rule.source,
        "link": help_link(rule),
        "since": rule.since,
        "until": rule.until,
        "edit": rule.edit,
        "example": {"file": example.name, "bad": example.bad, "good": example.good, "when": example.when},
    }
    return {"schema_version": 1, "rule": fields}
