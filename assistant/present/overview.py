"""The overview page: the verdict and the next step first, then what the machine is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from assistant.present.devices import gpu_table, gpu_title, no_gpu
from assistant.present.text import (
    DIM,
    GOOD,
    PROBLEMS_FIRST,
    READING,
    STATUS_WORDS,
    STRONG,
    Panel,
    joined,
    plain,
    status_text,
)
from probes.base.record import Unknown, known
from probes.base.units import plural
from probes.checks.check_table import CHECKS
from probes.facts import MachineFacts
from probes.facts.measurements import MeasurementSet
from probes.judging.findings import Finding, Status
from recipes.planning.plan import Plan

_STATUS_WIDTH = 9
_SUBJECT_WIDTH = 12


class NextStep(NamedTuple):
    """The screen to go to, and why."""

    screen: str
    words: str


class Headline(NamedTuple):
    """What the verdict panel tells."""

    status: Status | None
    """None while it is not known yet."""
    words: str


def headline(status: Status | None, findings: Sequence[Finding], *, has_gpus: bool) -> Headline:
    """The answer in one sentence."""
    if status is None:
        return Headline(None, "Not checked yet")
    findings = [finding for finding in findings if finding.waived is None]
    counts = Counter(finding.status for finding in findings)
    failing, warning, open_questions = counts[Status.FAIL], counts[Status.WARN], counts[Status.UNKNOWN]
    also = [
        f"{plural(warning, 'warning')}" if warning else "",
        f"{open_questions} undecided" if open_questions else "",
    ]
    rest = "".join(f", {words}" for words in also if words)
    match status:
        case Status.FAIL:
            return Headline(
                status,
                f"Not ready: {plural(failing, 'check')} failed ({_groups(findings, Status.FAIL)}){rest}.",
            )
        case Status.UNKNOWN:
            return Headline(
                status,
                f"Undecided: {plural(open_questions, 'check')} could not be made{rest.split(', ')[0]}.",
            )
        case Status.WARN:
            return Headline(
                status, f"Usable, {plural(warning, 'warning')} ({_groups(findings, Status.WARN)})."
            )
        case _:
            place = "" if has_gpus else " on its CPU"
            return Headline(status, f"Ready to train{place}: {plural(counts[Status.PASS], 'check')} passed.")


def _groups(findings: Sequence[Finding], status: Status) -> str:
    groups = {row.id: row.group for row in CHECKS}
    names = {groups.get(finding.check_id, "other") for finding in findings if finding.status is status}
    return ", ".join(sorted(names))


def next_step(
    status: Status | None, *, is_live: bool, has_torch: bool, has_measurements: bool, has_plan: bool = False
) -> NextStep:
    """What to do next on the way to a launch script."""
    if has_plan:
        return NextStep("recipe", "write the launch script")
    if status is Status.FAIL:
        return NextStep("findings", "see what failed and its remedy")
    if is_live and has_torch and not has_measurements:
        return NextStep("benchmarks", "measure it, so that the plan rests on its real speed")
    return NextStep("plan", "plan the training of a model")


def verdict(head: Headline, step: NextStep, key: str, title: str, progress: str) -> Text:
    """The first panel: the sentence, then the next step with its key. `progress` tells what is still
    running.
    """
    words = STATUS_WORDS.get(head.status) if head.status is not None else None
    first = (
        Text(f"{words.glyph} {head.words}", style=words.style)
        if words
        else Text(f"· {progress or head.words}", style=STRONG)
    )
    if words and progress:
        first.append(f"  {progress}", style=DIM)
    second = Text.assemble(("  next  ", DIM), (f"{key} {title}", STRONG), f"  {step.words}")
    return joined(first, second)


def accelerators(
    facts: MachineFacts, findings: Sequence[Finding], *, complete: bool, fold: bool, width: int = 120
) -> Panel:
    """The GPUs, or what it means that there is none."""
    if known(facts.gpus) and facts.gpus:
        return Panel(
            f"GPUs  {gpu_title(facts.gpus)}", gpu_table(facts.gpus, findings, fold=fold, width=width)
        )
    if not complete:
        return Panel("GPUs", READING)
    return Panel("GPUs  unknown" if isinstance(facts.gpus, Unknown) else "GPUs  none", no_gpu(facts))


def finding_counts(findings: Sequence[Finding], limit: int) -> Panel:
    """How many of each status, then the worst; findings that say the same share a line, as do checks that
    could not be made for one reason. Waived ones do not count.
    """
    findings = [finding for finding in findings if finding.waived is None]
    counts = Counter(finding.status for finding in findings)
    title = "Findings"
    if not findings:
        return Panel(title, Text("no check has reported yet", style=DIM))
    first = Text("  ").join(
        Text(f"{counts[status]} {STATUS_WORDS[status].word}", style=STATUS_WORDS[status].style)
        for status in PROBLEMS_FIRST
        if counts[status]
    )
    reasons = Counter(
        finding.observed for finding in findings if finding.status is Status.UNKNOWN and finding.observed
    )
    alike = Counter(
        (status, "", f"could not be made: {finding.observed}")
        if status is Status.UNKNOWN and reasons[finding.observed] > 1
        else (status, finding.subject, finding.summary)
        for status in PROBLEMS_FIRST[:3]
        for finding in findings
        if finding.status is status
    )
    troubles = list(alike.items())
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, min_width=_STATUS_WIDTH)
    subject_width = min(
        max((len(subject) for (_, subject, _), _ in troubles[:limit]), default=0), _SUBJECT_WIDTH
    )
    table.add_column(no_wrap=True, min_width=subject_width, max_width=subject_width, overflow="ellipsis")
    table.add_column(overflow="fold")
    for (status, subject, summary), number in troubles[:limit]:
        times = f"  ({number} checks)" if number > 1 else ""
        table.add_row(status_text(status), plain(subject), plain(summary).append(times, DIM))
    more = sum(number for _, number in troubles[limit:])
    last = [Text(f"{more} more on 3 Findings", style=DIM)] if more > 0 else []
    if not troubles:
        last = [Text("nothing wrong was found", style=DIM)]
    return Panel(title, Group(first, table, *last) if troubles else Group(first, *last))


def has_gpus(facts: MachineFacts | None) -> bool:
    return facts is not None and known(facts.gpus) and bool(facts.gpus)


def has_torch(facts: MachineFacts | None) -> bool:
    """True when an interpreter with torch was found."""
    return (
        facts is not None
        and isinstance(facts.training.path, str)
        and facts.training.torch_version is not None
    )


class Milestone(NamedTuple):
    """A step on the way to a launch script; `done` is its result, empty until it is taken."""

    name: str
    done: str
    how: str


def way(milestones: Sequence[Milestone]) -> Panel:
    """The steps from a fresh machine to a launch script: what is done, and the keys for the rest."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for step in milestones:
        if step.done:
            table.add_row(Text(f"✓ {step.name}", style=GOOD), plain(step.done))
        else:
            table.add_row(Text(f"· {step.name}", style=DIM), plain(step.how, DIM))
    return Panel("Way to a launch script", table)


def milestones(
    facts: MachineFacts | None,
    findings: Sequence[Finding],
    measured: MeasurementSet,
    plan: Plan | None,
    written: Sequence[str],
    *,
    is_live: bool,
) -> tuple[Milestone, ...]:
    """Read, check, measure, plan, write."""
    planned = (
        f"{plan.workload.model.title}: {plan.chosen.strategy}, micro-batch {plan.chosen.micro_batch}"
        if plan
        else ""
    )
    results = plural(len(measured.measurements), "result") if measured.measurements else ""
    measure = "4 Benchmarks, then s (may be left out)" if is_live else "only on the machine itself"
    return (
        Milestone("read", "the machine" if facts is not None else "", "under way"),
        Milestone("check", plural(len(findings), "result") if findings else "", "follows by itself"),
        Milestone("measure", results, measure),
        Milestone("plan", planned, "5 Plan"),
        Milestone("write", written[0] if written else "", "6 Recipe, then e and enter"),
    )
