"""Show the start of the overview: the verdict, the next step, and the way to a launch script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assistant.pages.blocks import Row, Section, words
from assistant.pages.machine.header import short_name
from assistant.pages.terms import STATUS
from assistant.pages.verdict.verdict_page import counts_line, name_of
from probes.base.record import known
from probes.base.units import plural
from probes.facts import MachineFacts
from probes.facts.measurements import MeasurementSet
from probes.judging.findings import Finding, Status
from probes.judging.verdict import Verdict
from recipes.planning.plan import Plan


class NextStep(NamedTuple):
    """The screen to go to, and why."""

    screen: str
    words: str


def next_step(
    status: Status | None, *, is_live: bool, has_torch: bool, has_measurements: bool, has_plan: bool = False
) -> NextStep:
    """Return the next step on the way to a launch script."""
    if has_plan:
        return NextStep("recipe", "write the launch script")
    if status is Status.FAIL:
        return NextStep("findings", "see what failed and its remedy")
    if is_live and has_torch and not has_measurements:
        return NextStep("benchmarks", "measure it, so that the plan rests on its real speed")
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
        place = " on its CPU" if verdict.verdict is Status.PASS and not has_gpus(facts) else ""
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
    """Return the steps from a fresh machine to a launch script: those done, and keys for the rest."""
    planned = (
        f"{plan.workload.model.title}: {plan.chosen.strategy}, micro-batch {plan.chosen.micro_batch}"
        if plan
        else ""
    )
    results = plural(len(measured.measurements), "result") if measured.measurements else ""
    steps = (
        ("read", "the machine" if facts is not None else "", "under way"),
        ("check", plural(len(findings), "result") if findings else "", "follows by itself"),
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
    return Section("Way to a launch script", tuple(rows))
