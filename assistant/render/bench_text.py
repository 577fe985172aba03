"""Measurements for the eye: what is sick first, then every figure beside what it compares to, then curves and matrices."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from assistant.present.bench_table import results_table, sources_of
from assistant.present.bench_words import surroundings
from assistant.present.curves import figures
from assistant.present.fit_lines import fit_lines
from assistant.present.matrices import matrices, worth_a_line
from assistant.present.plot import draw
from assistant.present.results import results
from assistant.present.text import STATUS_WORDS, plural
from assistant.render.lines import filled
from assistant.render.tables import text_of, width_of_terminal
from probes.findings import Finding, Status
from probes.judgement import Judgement
from probes.measurements import MeasurementSet

_WIDEST_PLOT = 100
_LOG_LINES = 6


def render_measurements(
    measured: MeasurementSet,
    judgement: Judgement | None = None,
    *,
    colour: bool = False,
    show_all: bool = False,
    width: int | None = None,
) -> str:
    """The report in `width` columns (default: the terminal's). With `show_all` every case instead of the best of each sweep.

    Failures come last, with the command that reproduces them.
    """
    judged = Judgement() if judgement is None else judgement
    wide = width_of_terminal() if width is None else width
    parts: list[RenderableType] = [*_head(measured, judged, wide)]
    rows = results(worth_a_line(measured.measurements, show_all=show_all), judged.comparisons, show_all=show_all)
    if rows:
        parts += ["", results_table(rows, width=wide)]
    for drawn in figures(measured.measurements):
        parts += ["", draw(drawn, width=min(wide, _WIDEST_PLOT))]
    for panel in matrices(measured.measurements):
        parts += ["", Text(panel.title, style="bold"), panel.body]
    fitted = fit_lines(measured.measurements)
    if fitted:
        parts += ["", fitted]
    sources = sources_of(rows)
    if sources:
        parts += ["", Text("Compared to", style="bold")]
        parts += ["\n".join(filled(source, label="  ", indent=4, width=wide)) for source in sources]
    parts += _failures(measured, wide)
    return text_of(parts, colour=colour, width=wide)


def _head(measured: MeasurementSet, judged: Judgement, width: int) -> list[RenderableType]:
    """What was measured with what, the verdict, and each sick part in one sentence."""
    words = [f"{plural(len(measured.measurements), 'measurement')}, {measured.suite} suite"]
    words += [measured.started] if measured.started else []
    words += [f"with {measured.interpreter}"] if measured.interpreter else []
    lines: list[RenderableType] = ["\n".join(filled(", ".join(words), width=width))]
    notes = surroundings(measured)
    lines += [Text("\n".join(filled(note, label="! ", indent=2, width=width)), style="yellow") for note in notes]
    for status in (Status.FAIL, Status.WARN):
        for finding in judged.findings:
            if finding.status is status and finding.waived is None:
                lines.append(_sentence(finding, width))
    bad = sum(finding.status in (Status.FAIL, Status.WARN) and finding.waived is None for finding in judged.findings)
    if not bad and judged.comparisons:
        lines.append(Text("✓ nothing is slower than what it compares to", style="green"))
    return lines


def _sentence(finding: Finding, width: int) -> Text:
    words = STATUS_WORDS[finding.status]
    text = "\n".join(
        filled(f"{finding.subject}: {finding.summary}", label=f"{words.glyph} {words.word}  ", indent=8, width=width)
    )
    return Text(text, style=words.style)


def _failures(measured: MeasurementSet, width: int) -> list[RenderableType]:
    """What is alike is said once."""
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for failure in measured.failures:
        # Whoever stopped it knows the cause.
        log_tail, command = ("", "") if failure.kind == "stopped" else (failure.log_tail, failure.command)
        key = (failure.subject, failure.message, log_tail, command)
        alike.setdefault(key, []).append(failure.bench_id)
    parts: list[RenderableType] = []
    for (subject, message, log_tail, command), ids in alike.items():
        words = f"{', '.join(ids)} on {subject}: {message}"
        parts += ["", Text("\n".join(filled(words, label="✗ no result  ", indent=4, width=width)), style="red")]
        parts += [f"    | {line}" for line in log_tail.splitlines()[-_LOG_LINES:]]
        parts += [f"    again: {command}"] if command else []
    return parts
