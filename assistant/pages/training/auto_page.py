"""Summarize the main job: findings, decisions, files, and the next step."""

from assistant.pages.blocks import Page, Row, Section, section
from assistant.pages.training.plan_page import plan_page
from assistant.usecases.auto import AutoResult
from probes.base.grouping import grouped
from probes.judging.findings import Status


def auto_page(result: AutoResult) -> Page:
    """Return the verdict with its problems, the plan, the files, and the command that starts training."""
    verdict = result.verdict
    problems = [
        f"  {finding.status.value} {finding.check_id} {finding.subject}: {finding.summary}"
        for finding in verdict.findings
        if finding.status in (Status.FAIL, Status.WARN)
    ]
    failed = grouped((failure.message, failure.bench_id) for failure in result.measurements.failures)
    problems += [f"  no measurement of {', '.join(names)}: {message}" for message, names in failed.items()]
    files = [*(f"  {script}" for script in result.scripts), *_next_steps(result)]
    return (
        section(f"Verdict: {verdict.verdict.value}", problems),
        *plan_page(result.plan),
        Section(f"Everything is in {result.directory}", tuple(Row(line, literal=True) for line in files)),
    )


def _next_steps(result: AutoResult) -> tuple[str, ...]:
    """Return the command that starts training, or the steps that are needed before it."""
    if result.cannot_start:
        return (
            f"These scripts cannot start here yet: {result.cannot_start}",
            "When this is solved, run the same command again: it measures with the torch that it then finds, "
            "and writes the scripts for it.",
        )
    place = "" if result.is_for_here else " on that machine"
    remarks = (result.start_remark,) if result.start_remark else ()
    return (f"Start training{place}:  {result.start}", *remarks)
