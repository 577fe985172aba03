"""A verdict for the eye: the answer, then what is wrong and what to do, then what could not be checked."""

from __future__ import annotations

from assistant.render.lines import badge, bold, clean, filled, paint
from probes.base.record import NOT_RECORDED, known
from probes.checks.check_table import CHECKS
from probes.judging.findings import Finding, Remedy, Status
from probes.judging.reporting import fold_names
from probes.judging.verdict import Verdict

ANSWERS = {
    Status.PASS: "is fit to train",
    Status.WARN: "is fit to train, with warnings",
    Status.FAIL: "is not fit to train",
    Status.UNKNOWN: "cannot be judged: too little is known",
}
_COUNTS = (
    (Status.FAIL, "failed"),
    (Status.WARN, "warned"),
    (Status.UNKNOWN, "could not be checked"),
    (Status.PASS, "passed"),
    (Status.SKIP, "skipped"),
)
_INDENT = 10
_MOST_NAMES = 6
"""Checks named for one reason; the command's JSON names all."""
_NOT_GIVEN = NOT_RECORDED.words
_EXPLAINS = {"gpu-driver": "gpus"}
"""A check whose failure leaves those unknown that need the same thing."""


def verdict_lines(verdict: Verdict, *, colour: bool, verbose: bool) -> list[str]:
    """All lines. What passed or does not apply is a count, unless `verbose`."""
    lines = _headline(verdict, colour=colour)
    counting = [finding for finding in verdict.findings if finding.waived is None]
    for same in _alike([finding for finding in counting if finding.status in (Status.FAIL, Status.WARN)]):
        lines += ["", *_problem(same, colour=colour, verbose=verbose)]
    lines += _waived([finding for finding in verdict.findings if finding.waived is not None], colour=colour)
    for status in (Status.UNKNOWN, Status.PASS, Status.SKIP):
        chosen = [finding for finding in counting if finding.status is status]
        if chosen and verbose and status is not Status.SKIP:
            lines += ["", *(line for finding in chosen for line in _one_line(finding, colour=colour))]
        elif chosen and (verbose or status is Status.UNKNOWN):
            follows = {} if verbose else _consequences(counting)
            lines += ["", *_by_reason(chosen, follows, colour=colour, most=None if verbose else _MOST_NAMES)]
    return lines + _tail(verdict, verbose=verbose)


def name_of(verdict: Verdict) -> str:
    """The host's name, else where the facts came from."""
    source = "" if verdict.source == "live" else verdict.source
    return verdict.hostname if known(verdict.hostname) else source or "this machine"


def counts_line(verdict: Verdict) -> str:
    """`1 failed, 3 could not be checked, 120 passed`."""
    counts = [f"{verdict.counts[status]} {words}" for status, words in _COUNTS if verdict.counts[status]]
    counts += [f"{verdict.waived} waived"] if verdict.waived else []
    return ", ".join(counts) or "no findings"


def _headline(verdict: Verdict, *, colour: bool) -> list[str]:
    first, *rest = filled(
        f"{name_of(verdict)} {ANSWERS[verdict.verdict]}", label=badge(verdict.verdict), indent=_INDENT
    )
    lines = [
        paint(first[:_INDENT], verdict.verdict, colour=colour) + bold(first[_INDENT:], colour=colour),
        *rest,
    ]
    is_open = (
        verdict.verdict is Status.UNKNOWN and verdict.counts[Status.PASS] and not verdict.counts[Status.WARN]
    )
    lines += filled(
        ("nothing wrong in what was read; " if is_open else "") + counts_line(verdict), indent=_INDENT
    )
    if verdict.required_unknown:
        lines += filled(f"required and not checked: {', '.join(verdict.required_unknown)}", indent=_INDENT)
    return lines


def _waived(findings: list[Finding], *, colour: bool) -> list[str]:
    """What does not count, under its own heading."""
    lines = ["", bold("Waived by the policy:", colour=colour)] if findings else []
    for same in _alike(findings):
        finding, waiver = same[0], same[0].waived
        subjects = fold_names([each.subject for each in same])
        lines += _labelled(
            finding.status, f"{finding.check_id}  {subjects}  {finding.summary}", colour=colour
        )
        lines += filled(
            f"until {waiver.expires}: {waiver.reason}" if waiver else "", label="  waived", indent=_INDENT
        )
    return lines


def _tail(verdict: Verdict, *, verbose: bool) -> list[str]:
    lines = filled("; ".join(verdict.notes), label="note", indent=_INDENT) if verdict.notes else []
    hints = [] if verbose else ["-v lists every finding with its evidence"]
    if verdict.deep_only:
        count = len(verdict.deep_only)
        hints.append(f"--tier deep makes {count} more check{'s' if count > 1 else ''}")
    if hints:
        lines += filled("; ".join(hints))
    return ["", *lines] if lines else []


def _problem(same: list[Finding], *, colour: bool, verbose: bool) -> list[str]:
    finding = same[0]
    subjects = clean(fold_names([each.subject for each in same]))
    title = f"{finding.check_id}  {subjects}"
    lines = [paint(badge(finding.status), finding.status, colour=colour) + bold(title, colour=colour)]
    lines += filled(finding.summary, indent=_INDENT)
    lines += filled(finding.observed, label="  found", indent=_INDENT)
    lines += filled(finding.expected, label="  wanted", indent=_INDENT)
    lines += filled(finding.why, label="  why", indent=_INDENT)
    lines += _remedies([each.remedy for each in same if each.remedy is not None])
    if verbose:
        lines += _evidence(same)
    return lines


def _remedies(remedies: list[Remedy]) -> list[str]:
    """Each text and each command once: those of alike findings may differ in the device that they name."""
    texts = dict.fromkeys(remedy.text for remedy in remedies)
    lines = [line for text in texts for line in filled(text, label="  do", indent=_INDENT)]
    for remedy in dict.fromkeys(remedy for remedy in remedies if remedy.command):
        marks = [
            mark
            for mark, is_so in (("as root", remedy.needs_root), ("cannot be undone", not remedy.reversible))
            if is_so
        ]
        # A command stays on one line, so that it can be copied.
        lines.append(
            " " * _INDENT + f"$ {clean(remedy.command)}" + (f"   # {', '.join(marks)}" if marks else "")
        )
    return lines


def _evidence(same: list[Finding]) -> list[str]:
    refs = dict.fromkeys(
        f"{ref.source} {ref.key}" + (f" ({ref.detail})" if ref.detail else "")
        for each in same
        for ref in each.evidence
    )
    return [line for ref in refs for line in filled(ref, label="  read", indent=_INDENT)]


def _one_line(finding: Finding, *, colour: bool) -> list[str]:
    text = f"{finding.check_id}  {finding.subject}  {finding.summary}" + (
        f": {finding.observed}" if finding.observed else ""
    )
    return _labelled(finding.status, text, colour=colour)


def _labelled(status: Status, text: str, *, colour: bool) -> list[str]:
    first, *rest = filled(text, label=badge(status), indent=_INDENT)
    return [paint(first[:_INDENT], status, colour=colour) + first[_INDENT:], *rest]


def _by_reason(
    findings: list[Finding], follows: dict[str, str], *, colour: bool, most: int | None
) -> list[str]:
    """One entry for each reason, with the checks that it kept from being made, at most `most` of them by
    name.

    `follows` tells which check's failure is the reason of another.
    """
    reasons: dict[str, list[str]] = {}
    for finding in findings:
        checks = reasons.setdefault(_reason(finding, follows, briefly=most is not None), [])
        if finding.check_id not in checks:
            checks.append(finding.check_id)
    lines = []
    for reason, checks in reasons.items():
        shown = (
            checks
            if most is None or len(checks) <= most + 1
            else [*checks[:most], f"{len(checks) - most} more"]
        )
        lines += _labelled(findings[0].status, f"{reason} ({', '.join(shown)})", colour=colour)
    return lines


def _reason(finding: Finding, follows: dict[str, str], *, briefly: bool) -> str:
    """Why it could not be made. What a recording or paste does not hold is one reason, unless all is told."""
    if finding.check_id in follows:
        return f"follows from {follows[finding.check_id]}"
    reason = finding.observed or finding.summary
    return _NOT_GIVEN if briefly and reason.startswith(_NOT_GIVEN) else reason


def _consequences(findings: list[Finding]) -> dict[str, str]:
    """Check to the failed check that explains why it could not be made."""
    failed = {
        _EXPLAINS[each.check_id]: each.check_id
        for each in findings
        if each.status is Status.FAIL and each.check_id in _EXPLAINS
    }
    if not failed:
        return {}
    return {row.id: failed[need] for row in CHECKS for need in row.needs if need in failed}


def _alike(findings: list[Finding]) -> list[list[Finding]]:
    """Findings that differ in their subject alone, together."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.check_id, finding.status, finding.summary, finding.observed, finding.expected)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())
