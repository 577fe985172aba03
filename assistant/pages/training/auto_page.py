"""Summarize the main job: findings, decisions, files, and the next step."""

from __future__ import annotations

from assistant.pages.blocks import Page, Row, Section, section
from assistant.pages.training.plan_page import plan_page
from assistant.usecases.auto import AutoResult
from probes.facts.measurements import MeasurementSet
from probes.judging.findings import Status


def auto_page(result: AutoResult) -> Page:
    """Return the verdict with its problems, the plan, the files, and the command that starts training."""
    verdict = result.verdict
    problems = [
        f"  {finding.status.value} {finding.check_id} {finding.subject}: {finding.summary}"
        for finding in verdict.findings
        if finding.status in (Status.FAIL, Status.WARN)
    ]
    for message, benchmarks in _failures(result.measurements).items():
        problems.append(f"  no measurement of {', '.join(benchmarks)}: {message}")
    files = [*(f"  {script}" for script in result.scripts), f"Start training:  {result.start}"]
    return (
        section(f"Verdict: {verdict.verdict.value}", problems),
        *plan_page(result.plan),
        Section(f"Everything is in {result.directory}", tuple(Row(line, literal=True) for line in files)),
    )


def _failures(measured: MeasurementSet) -> dict[str, list[str]]:
    """Return the benchmarks that gave no result, by reason."""
    reasons: dict[str, list[str]] = {}
    for failure in measured.failures:
        reasons.setdefault(failure.message, []).append(failure.bench_id)
    return reasons
