"""Show the verdict in the terminal UI: the answer, the next step, and the list of findings."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from assistant.pages.blocks import Column, Row, Section, Table, Words, joined_by, plain, words
from assistant.pages.machine.facts_words import cut
from assistant.pages.machine.header import short_name
from assistant.pages.terms import BADGE_WIDTH, STATUS, counts
from assistant.pages.verdict.verdict_page import alike, counts_line, name_of, problem
from probes.base.grouping import grouped
from probes.base.record import known
from probes.base.units import plural
from probes.facts import MachineFacts
from probes.facts.measurements import MeasurementSet
from probes.judging.findings import Finding, Status
from probes.judging.reporting import fold_names
from probes.judging.verdict import Verdict
from recipes.planning.plan import Plan

_QUIET = frozenset({Status.PASS, Status.SKIP})
_SUBJECT_WIDTH = 10
_MOST_ALIKE = 3
"""Largest number of unknown findings with the same reason that each have their own line."""


class FindingRow(NamedTuple):
    """A line of the list; its `key` stays the same when the checks run again."""

    key: str
    same: tuple[Finding, ...]
    """Findings that differ only in their subject; a single finding if all findings are listed."""
    cells: tuple[Words, ...]
    """Status, subject, and the problem."""

    @property
    def line(self) -> Words:
        """The cells as one line in columns."""
        line: Words = ()
        for cell, width in zip(self.cells, (BADGE_WIDTH, _SUBJECT_WIDTH + 1, 0), strict=True):
            line += cell + words(" " * (width - len(plain(cell))))
        return line


def rows(findings: Sequence[Finding], *, show_all: bool, query: str = "") -> tuple[FindingRow, ...]:
    """Return the findings, problems first, in the order of the checks within a status.

    Passed and skipped findings are returned only with `show_all`. With `query`, only findings that contain
    all its words are returned. Without `query` and `show_all`, findings that differ only in their subject
    share a line, and so do checks that could not be made for the same reason if there are many; waived
    findings are hidden.
    """
    asked = query.lower().split()
    is_short = not show_all and not asked
    if is_short:
        findings = _folded([finding for finding in findings if finding.waived is None])
    chosen = [
        finding
        for status in STATUS
        for finding in findings
        if finding.status is status
        and (show_all or status not in _QUIET)
        and all(word in _searched(finding) for word in asked)
    ]
    groups = alike(chosen) if is_short else [[finding] for finding in chosen]
    times = Counter(map(_line_of, groups))
    numbers: Counter[str] = Counter()
    result = []
    for same in groups:
        key = f"{same[0].check_id}/{same[0].subject}"
        numbers[key] += 1
        cells = _cells(same, names_check=times[_line_of(same)] > 1)
        result.append(FindingRow(key if numbers[key] == 1 else f"{key}/{numbers[key]}", tuple(same), cells))
    return tuple(result)


def _line_of(same: Sequence[Finding]) -> tuple[str, ...]:
    """Return the texts of a line; two lines with the same texts would look equal."""
    return (same[0].status.value, same[0].summary, *(finding.subject for finding in same))


def _folded(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; if many unknown findings have the same reason, they become one finding."""
    reasons = grouped(
        (finding.observed or finding.summary, finding)
        for finding in findings
        if finding.status is Status.UNKNOWN
    )
    many = {id(finding): same for same in reasons.values() if len(same) > _MOST_ALIKE for finding in same}
    return [
        _together(many[id(finding)]) if id(finding) in many else finding
        for finding in findings
        if many.get(id(finding), [finding])[0] is finding
    ]


def _together(same: Sequence[Finding]) -> Finding:
    return Finding(
        check_id="",
        subject=f"{len(same)} checks",
        status=Status.UNKNOWN,
        summary=same[0].observed or same[0].summary,
        observed=f"could not be made: {', '.join(dict.fromkeys(each.check_id for each in same))}",
        evidence=tuple(dict.fromkeys(reference for each in same for reference in each.evidence)),
    )


def _searched(finding: Finding) -> str:
    return " ".join(
        (finding.check_id, finding.subject, finding.status.value, finding.summary, finding.observed)
    ).lower()


def _cells(same: Sequence[Finding], *, names_check: bool) -> tuple[Words, ...]:
    """Return the cells of a line; the check is named if lines would otherwise be equal."""
    finding = same[0]
    summary = words(
        f"{'waived: ' if finding.waived else ''}{finding.summary}",
        (f"  {finding.check_id}" if names_check else "", "dim"),
    )
    subjects = fold_names([each.subject for each in same]) if len(same) > 1 else finding.subject
    return STATUS[finding.status].badge, words(cut(subjects, _SUBJECT_WIDTH)), summary


def title(findings: Sequence[Finding], shown: int, *, show_all: bool, query: str) -> str:
    """Return counts by status, then the number of matches with a query, or of hidden findings without one."""
    statuses = tuple(status for status in STATUS if show_all or status not in _QUIET)
    counted = ", ".join(text for text, _ in counts(findings, statuses)) or "nothing wrong"
    more = f"a shows {len(findings) - shown} more" if len(findings) > shown else ""
    return "  ·  ".join(filter(None, (counted, f"{shown} with {query}" if query else more)))


def detail(same: Sequence[Finding]) -> Section:
    """Return the observed and the expected value, the reason, remedies and evidence of equal findings."""
    return problem(same, verbose=True)


def remedy(same: Sequence[Finding]) -> str:
    """Return the text that `y` copies: the commands, or the words if there is no command."""
    remedies = [finding.remedy for finding in same if finding.remedy is not None]
    return "\n".join(dict.fromkeys(each.command or each.text for each in remedies))


def nothing(
    findings: Sequence[Finding], *, query: str, is_checking: bool, is_report: bool = False
) -> Section:
    """Return the text for an empty list; `is_report` marks a node's report, which lists only problems."""
    if is_checking:
        lines = [words(("The checks are running.", "dim"))]
    elif query:
        lines = [words("Nothing matches ", (query, "strong"), "."), words("esc clears the filter.")]
    elif is_report and not findings:
        lines = [
            words(("The node reports nothing wrong.", "strong")),
            words("This list has no passed checks; `rigtune check` on the node lists them."),
        ]
    elif not findings:
        lines = [words(("No check has reported yet. r probes and checks again.", "dim"))]
    else:
        lines = [
            words(("Nothing wrong was found.", "strong")),
            words(f"{counts_line(findings)}. Press a to show them."),
        ]
    return Section("", tuple(map(Row, lines)))


def summary(findings: Sequence[Finding], limit: int, *, is_report: bool = False) -> Section:
    """Return the number of findings of each status, then the worst findings.

    `is_report` marks a node's report, which lists only problems.
    """
    lines = rows(findings, show_all=False)
    last = f"{len(lines) - limit} more: press 3 for Findings" if len(lines) > limit else ""
    if not lines:
        last = "nothing wrong was found" if findings or is_report else "no check has reported yet"
    counted = joined_by("  ", (words(part) for part in counts(findings)))
    columns = (Column(least=BADGE_WIDTH - 1, fixed=True), Column(fixed=True), Column())
    table = [Table(columns, tuple(row.cells for row in lines[:limit]), gap=1)] if lines else []
    return Section(
        "Findings", (*[Row(counted)] * bool(counted), *table, *[Row(words((last, "dim")))] * bool(last))
    )


class NextStep(NamedTuple):
    """The screen to open next, and why."""

    screen: str
    words: str


def next_step(
    status: Status | None, *, is_live: bool, has_torch: bool, has_measurements: bool, has_plan: bool = False
) -> NextStep:
    """Return the step that the user should take next to get a launch script."""
    if has_plan:
        return NextStep("recipe", "write the launch script")
    if status is Status.FAIL:
        return NextStep("findings", "see what failed and its remedy")
    if is_live and has_torch and not has_measurements:
        return NextStep("benchmarks", "measure it, so that the plan uses its real speed")
    return NextStep("plan", "plan the training of a model")


def verdict_section(
    verdict: Verdict | None,
    facts: MachineFacts | None,
    *,
    step: NextStep,
    key: str,
    title: str,
    progress: str,
) -> Section:
    """Return the first panel: the answer, then the next step with its key.

    `progress` describes the running stage.
    """
    first = words((f"· {progress or 'Not checked yet'}", "strong"))
    if verdict is not None:
        terms = STATUS[verdict.verdict]
        lacks_gpus = facts is not None and known(facts.gpus) and not facts.gpus
        place = " on its CPU" if verdict.verdict is Status.PASS and lacks_gpus else ""
        answer = (
            f"{terms.glyph} {short_name(name_of(verdict))} {terms.answer}{place}: "
            f"{counts_line(verdict.findings)}"
        )
        first = words((answer, terms.tone), (f"  {progress}" if progress else "", "dim"))
    return Section(
        "Verdict",
        (Row(first), Row(words(("  next  ", "dim"), (f"{key} {title}", "strong"), f"  {step.words}"))),
    )


def has_gpus(facts: MachineFacts | None) -> bool:
    return facts is not None and known(facts.gpus) and bool(facts.gpus)


def has_torch(facts: MachineFacts | None) -> bool:
    """Return whether an interpreter with torch was found."""
    return (
        facts is not None
        and isinstance(facts.training.path, str)
        and facts.training.torch_version is not None
    )


def way(
    facts: MachineFacts | None,
    findings: Sequence[Finding],
    measured: MeasurementSet,
    plan: Plan | None,
    written: Sequence[str],
    *,
    is_live: bool,
) -> Section:
    """Return the steps from a new machine to a launch script: finished steps, and keys for the others."""
    planned = (
        f"{plan.workload.model.title}: {plan.chosen.strategy}, micro-batch {plan.chosen.micro_batch}"
        if plan
        else ""
    )
    results = plural(len(measured.measurements), "result") if measured.measurements else ""
    steps = (
        ("read", "the machine" if facts is not None else "", "under way"),
        ("check", plural(len(findings), "result") if findings else "", "starts automatically"),
        (
            "measure",
            results,
            "4 Benchmarks, then s (may be left out)" if is_live else "only on the machine itself",
        ),
        ("plan", planned, "5 Plan"),
        ("write", written[0] if written else "", "6 Recipe, then e and enter"),
    )
    rows = (
        Row(done or words((how, "dim")), words((f"✓ {name}", "good") if done else f"· {name}"))
        for name, done, how in steps
    )
    return Section("Steps to a launch script", tuple(rows))
