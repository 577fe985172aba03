"""A verdict for the eye: the answer, then what is wrong and what to do, then what could not be checked."""

from __future__ import annotations

from assistant.render.lines import badge, bold, clean, filled, paint
from probes.findings import Finding, Remedy, Status
from probes.judging import fold_names
from probes.record import known
from probes.verdict import Verdict

_ANSWERS = {
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


def verdict_lines(verdict: Verdict, *, colour: bool, verbose: bool) -> list[str]:
    """All lines. What passed or does not apply is a count, unless `verbose`."""
    lines = _headline(verdict, colour=colour)
    for same in _alike([finding for finding in verdict.findings if finding.status in (Status.FAIL, Status.WARN)]):
        lines += ["", *_problem(same, colour=colour, verbose=verbose)]
    for status in (Status.UNKNOWN, Status.PASS, Status.SKIP):
        chosen = [finding for finding in verdict.findings if finding.status is status]
        if chosen and verbose and status is not Status.SKIP:
            lines += ["", *(line for finding in chosen for line in _one_line(finding, colour=colour))]
        elif chosen and (verbose or status is Status.UNKNOWN):
            lines += ["", *_by_reason(chosen, colour=colour)]
    if not verbose:
        lines += ["", "-v lists every finding with its evidence"]
    return lines


def _headline(verdict: Verdict, *, colour: bool) -> list[str]:
    source = "" if verdict.source == "live" else verdict.source
    name = verdict.hostname if known(verdict.hostname) else source or "this machine"
    counts = ", ".join(f"{verdict.counts[status]} {words}" for status, words in _COUNTS if verdict.counts[status])
    first, *rest = filled(f"{name} {_ANSWERS[verdict.verdict]}", label=badge(verdict.verdict), indent=_INDENT)
    lines = [paint(first[:_INDENT], verdict.verdict, colour=colour) + bold(first[_INDENT:], colour=colour), *rest]
    lines += filled(counts or "no findings", indent=_INDENT)
    if verdict.required_unknown:
        lines += filled(f"required and not checked: {', '.join(verdict.required_unknown)}", indent=_INDENT)
    return lines


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
        marks = [mark for mark, is_so in (("as root", remedy.needs_root), ("cannot be undone", not remedy.reversible)) if is_so]
        # A command stays on one line, so that it can be copied.
        lines.append(" " * _INDENT + f"$ {clean(remedy.command)}" + (f"   # {', '.join(marks)}" if marks else ""))
    return lines


def _evidence(same: list[Finding]) -> list[str]:
    refs = dict.fromkeys(
        f"{ref.source} {ref.key}" + (f" ({ref.detail})" if ref.detail else "") for each in same for ref in each.evidence
    )
    return [line for ref in refs for line in filled(ref, label="  read", indent=_INDENT)]


def _one_line(finding: Finding, *, colour: bool) -> list[str]:
    text = f"{finding.check_id}  {finding.subject}  {finding.summary}" + (f": {finding.observed}" if finding.observed else "")
    first, *rest = filled(text, label=badge(finding.status), indent=_INDENT)
    return [paint(first[:_INDENT], finding.status, colour=colour) + first[_INDENT:], *rest]


def _by_reason(findings: list[Finding], *, colour: bool) -> list[str]:
    """One entry for each reason, with the checks that it kept from being made."""
    reasons: dict[str, list[str]] = {}
    for finding in findings:
        checks = reasons.setdefault(finding.observed or finding.summary, [])
        if finding.check_id not in checks:
            checks.append(finding.check_id)
    lines = []
    for reason, checks in reasons.items():
        status = findings[0].status
        first, *rest = filled(f"{reason} ({', '.join(checks)})", label=badge(status), indent=_INDENT)
        lines += [paint(first[:_INDENT], status, colour=colour) + first[_INDENT:], *rest]
    return lines


def _alike(findings: list[Finding]) -> list[list[Finding]]:
    """Findings that differ in their subject alone, together."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.check_id, finding.status, finding.summary, finding.observed, finding.expected)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())
