"""The summary of the main job: what was found, decided and written, and the next step."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from assistant.render.plan_text import render_plan
from assistant.render.tables import text_of
from assistant.usecases.auto import AutoResult
from probes.facts.measurements import MeasurementSet
from probes.judging.findings import Status


def render_auto(result: AutoResult, *, colour: bool = False) -> str:
    """Verdict with its problems, the plan, the files, and the command that starts training."""
    verdict = result.verdict
    parts: list[RenderableType] = [Text(f"Verdict: {verdict.verdict.value}", style="bold")]
    for finding in verdict.findings:
        if finding.status in (Status.FAIL, Status.WARN):
            parts.append(f"  {finding.status.value} {finding.check_id} {finding.subject}: {finding.summary}")
    for message, benchmarks in _failures(result.measurements).items():
        parts.append(f"  no measurement of {', '.join(benchmarks)}: {message}")
    parts += [
        "",
        render_plan(result.plan, colour=colour).rstrip(),
        "",
        Text(f"Everything is in {result.directory}", style="bold"),
    ]
    parts += [f"  {script}" for script in result.scripts]
    parts.append(f"Start training:  {result.start}")
    return text_of(parts, colour=colour)


def _failures(measured: MeasurementSet) -> dict[str, list[str]]:
    """Benchmarks by the reason that they gave no result."""
    reasons: dict[str, list[str]] = {}
    for failure in measured.failures:
        reasons.setdefault(failure.message, []).append(failure.bench_id)
    return reasons
