"""The rules that a caller chose, by id or by a pattern such as `slurm-*`."""

import fnmatch
from collections.abc import Iterable

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.lint.finding import LintFinding
from recipes.lint.rule_table import LintRule, load_rules
from recipes.lint.views import closest, suggestion


def refuse_unknown(patterns: Iterable[str], where: str) -> None:
    """Raise UsageError for a pattern that matches no rule."""
    for pattern in patterns:
        if not fnmatch.filter(load_rules(), pattern):
            raise _unknown(pattern, where)


def known_rule(rule_id: str) -> LintRule:
    """Return a rule by its id. Raises UsageError for an unknown id."""
    rule = load_rules().get(rule_id)
    if rule is None:
        raise _unknown(rule_id, "--explain")
    return rule


def _unknown(rule_id: str, where: str) -> UsageError:
    near = suggestion(closest(rule_id, load_rules(), 0.6))
    return UsageError(f"{where}: no rule is called {quoted(rule_id)}{near}", "rigtune list rules")


def chosen(
    findings: Iterable[LintFinding],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    per_file: dict[str, tuple[str, ...]],
) -> tuple[LintFinding, ...]:
    """Return the findings of selected rules that are not ignored; an empty `select` selects all rules."""

    def is_ignored(finding: LintFinding) -> bool:
        of_file = (rules for glob, rules in per_file.items() if fnmatch.fnmatch(finding.document, glob))
        patterns = (*ignore, *(rule for rules in of_file for rule in rules))
        return _matches(finding.rule_id, patterns)

    return tuple(
        finding
        for finding in findings
        if (not select or _matches(finding.rule_id, select)) and not is_ignored(finding)
    )


def _matches(rule_id: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(rule_id, pattern) for pattern in patterns)
