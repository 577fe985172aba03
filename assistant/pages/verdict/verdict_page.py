"""Show a verdict: the answer, then problems with remedies, then the checks that could not be made."""

from collections.abc import Iterable, Sequence

from assistant.pages.blocks import Page, Row, Section, section, words
from assistant.pages.terms import BADGE_WIDTH, STATUS, counts
from probes.base.grouping import grouped
from probes.base.record import NOT_RECORDED, value_or
from probes.base.units import plural
from probes.judging.check_table import CHECKS
from probes.judging.findings import Finding, Remedy, Status
from probes.judging.reporting import fold_names
from probes.judging.verdict import Verdict

_MOST_NAMES = 6
"""Number of checks that are named for a reason which more than seven checks share; the JSON names all."""
_NOT_GIVEN = NOT_RECORDED.words
_EXPLAINS = {"gpu-driver": "gpus"}
"""Checks, each with the data that is missing if the check fails.

This explains why checks that need the data are unknown.
"""


def verdict_page(verdict: Verdict, *, verbose: bool = False) -> Page:
    """Return the verdict with its problems, worst first.

    For checks that passed or do not apply, only the number is shown, unless `verbose` is set.
    """
    counting = [finding for finding in verdict.findings if finding.waived is None]
    page = [_headline(verdict)]
    page += [problem(same, verbose=verbose) for same in alike(_with(counting, Status.FAIL, Status.WARN))]
    page.append(_waived([finding for finding in verdict.findings if finding.waived is not None]))
    for status in (Status.UNKNOWN, Status.PASS, Status.SKIP):
        chosen = _with(counting, status)
        if verbose and status is not Status.SKIP:
            page.append(_rows(map(_one_line, chosen)))
        elif verbose or status is Status.UNKNOWN:
            page.append(
                _rows(_by_reason(chosen, {} if verbose else _consequences(counting), briefly=not verbose))
            )
    return [*page, _tail(verdict, verbose=verbose)]


def name_of(verdict: Verdict) -> str:
    """Return the host's name; if it is unknown, the source of the facts, or `this machine`."""
    source = verdict.source if verdict.source not in ("", "live") else "this machine"
    return value_or(verdict.hostname, source)


def counts_line(findings: Iterable[Finding]) -> str:
    """Return `1 failed (fabric), 3 could not be checked, 120 passed`."""
    return ", ".join(text for text, _ in counts(findings, with_groups=True)) or "no findings"


def problem(same: Sequence[Finding], *, verbose: bool) -> Section:
    """Return the text for findings that differ only in their subject; `verbose` adds the evidence."""
    finding = same[0]
    waiver = f"until {finding.waived.expires}: {finding.waived.reason}" if finding.waived else ""
    labelled = (
        ("waived", waiver), ("found", finding.observed), ("wanted", finding.expected), ("why", finding.why),
    )  # fmt: skip
    rows = [
        Row(
            words((f"{finding.check_id}  {_subjects(same)}".strip(), "strong")), STATUS[finding.status].badge
        ),
        Row(finding.summary),
    ]
    rows += [Row(text, f"  {label}") for label, text in labelled if text]
    rows += _remedies([each.remedy for each in same if each.remedy is not None])
    if verbose:
        references = (
            f"{ref.source} {ref.key}" + f" ({ref.detail})" * bool(ref.detail)
            for each in same
            for ref in each.evidence
        )
        rows += [Row(reference, "  read") for reference in dict.fromkeys(references)]
    return _rows(rows)


def _rows(rows: Iterable[Row]) -> Section:
    return section("", rows, BADGE_WIDTH)


def _with(findings: Iterable[Finding], *statuses: Status) -> list[Finding]:
    return [finding for finding in findings if finding.status in statuses]


def _subjects(same: Sequence[Finding]) -> str:
    return fold_names([each.subject for each in same])


def _headline(verdict: Verdict) -> Section:
    status = STATUS[verdict.verdict]
    is_open = (
        verdict.verdict is Status.UNKNOWN and verdict.counts[Status.PASS] and not verdict.counts[Status.WARN]
    )
    rows = [
        Row(words((f"{name_of(verdict)} {status.answer}", "strong")), status.badge),
        Row(("nothing wrong in what was read; " if is_open else "") + counts_line(verdict.findings)),
    ]
    if verdict.required_unknown:
        rows.append(Row(f"required and not checked: {', '.join(verdict.required_unknown)}"))
    return _rows(rows)


def _waived(findings: list[Finding]) -> Section:
    """Return the waived findings under their own heading."""
    rows = []
    for same in alike(findings):
        finding, waiver = same[0], same[0].waived
        title = f"{finding.check_id}  {_subjects(same)}  {finding.summary}"
        rows += [
            Row(title, STATUS[finding.status].badge),
            Row(f"until {waiver.expires}: {waiver.reason}" if waiver else "", "  waived"),
        ]
    return section("Waived by the policy:" if rows else "", rows, BADGE_WIDTH)


def _tail(verdict: Verdict, *, verbose: bool) -> Section:
    hints = [] if verbose else ["-v lists every check, and the evidence of problems"]
    if verdict.deep_only:
        hints.append(f"--tier deep makes {plural(len(verdict.deep_only), 'more check')}")
    lines = ((verdict.notes, "note".ljust(BADGE_WIDTH)), (hints, ""))
    return section("", [Row("; ".join(sentences), label) for sentences, label in lines if sentences])


def _remedies(remedies: list[Remedy]) -> list[Row]:
    """Return each text and each command once.

    Findings that are otherwise equal may need commands for different devices.
    """
    rows = [Row(text, "  do") for text in dict.fromkeys(remedy.text for remedy in remedies)]
    for remedy in dict.fromkeys(remedy for remedy in remedies if remedy.command):
        marks = ["as root"] * remedy.needs_root + ["cannot be undone"] * (not remedy.reversible)
        remark = f"   # {', '.join(marks)}" if marks else ""
        rows.append(Row(words((f"$ {remedy.command}", "code"), (remark, "caution")), literal=True))
    return rows


def _one_line(finding: Finding) -> Row:
    text = f"{finding.check_id}  {finding.subject}  {finding.summary}" + (
        f": {finding.observed}" if finding.observed else ""
    )
    return Row(text, STATUS[finding.status].badge)


def _by_reason(findings: list[Finding], follows: dict[str, str], *, briefly: bool) -> list[Row]:
    """Return one row for each reason, with the checks that could not be made; `briefly` names only some.

    `follows` contains, for each check that could not be made, the failed check that explains this.
    """
    reasons = grouped((_reason(finding, follows, briefly=briefly), finding.check_id) for finding in findings)
    rows = []
    for reason, names in reasons.items():
        checks = list(dict.fromkeys(names))
        if briefly and len(checks) > _MOST_NAMES + 1:
            checks = [*checks[:_MOST_NAMES], f"{len(checks) - _MOST_NAMES} more"]
        rows.append(Row(f"{reason} ({', '.join(checks)})", STATUS[findings[0].status].badge))
    return rows


def _reason(finding: Finding, follows: dict[str, str], *, briefly: bool) -> str:
    """Return the reason why a check could not be made.

    With `briefly`, all values that a recording does not contain share one reason.
    """
    if finding.check_id in follows:
        return f"because {follows[finding.check_id]} failed"
    reason = finding.observed or finding.summary
    return _NOT_GIVEN if briefly and reason.startswith(_NOT_GIVEN) else reason


def _consequences(findings: list[Finding]) -> dict[str, str]:
    """Return for each check the failed check that explains why it could not be made."""
    failed = {
        _EXPLAINS[each.check_id]: each.check_id
        for each in _with(findings, Status.FAIL)
        if each.check_id in _EXPLAINS
    }
    return {row.id: failed[need] for row in CHECKS for need in row.needs if need in failed} if failed else {}


def alike(findings: list[Finding]) -> list[list[Finding]]:
    """Return groups of findings that differ only in their subject."""
    groups = grouped(
        ((each.check_id, each.status, each.summary, each.observed, each.expected), each) for each in findings
    )
    return list(groups.values())
