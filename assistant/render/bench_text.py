"""Measurements for the eye: what is sick first, then every figure beside what it compares to, then curves and
matrices.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from assistant.present.bench_table import results_table, sources_of
from assistant.present.bench_words import surroundings
from assistant.present.curves import figures
from assistant.present.fit_lines import fit_lines
from assistant.present.matrices import matrices, worth_a_line
from assistant.present.plot import draw
from assistant.present.results import results
from assistant.present.sick_parts import SickPart, sick_parts
from assistant.present.text import STATUS_WORDS, clean
from assistant.render.lines import filled
from assistant.render.tables import text_of, width_of_terminal
from probes.base.units import plural
from probes.compare.measured_findings import WRONG
from probes.compare.measurement_judgement import Judgement
from probes.facts.measurements import MeasurementSet

_WIDEST_PLOT = 100
_LOG_LINES = 6
_MOST_LINES = 3


def render_measurements(
    measured: MeasurementSet,
    judgement: Judgement | None = None,
    *,
    colour: bool = False,
    show_all: bool = False,
    width: int | None = None,
) -> str:
    """The report in `width` columns (default: the terminal's). With `show_all` every case instead of the best
    of each sweep.

    Logs of what failed come last, with the command that reproduces it.
    """
    judged = Judgement() if judgement is None else judgement
    wide = width_of_terminal() if width is None else width
    parts: list[RenderableType] = [*_head(measured, judged, wide)]
    rows = results(
        worth_a_line(measured.measurements, show_all=show_all), judged.comparisons, show_all=show_all
    )
    if rows:
        parts += ["", results_table(rows, width=wide)]
    for drawn in figures(measured.measurements):
        parts += ["", draw(drawn, width=min(wide, _WIDEST_PLOT))]
    for panel in matrices(measured.measurements, judged.comparisons):
        parts += ["", Text(panel.title, style="bold"), panel.body]
    fitted = fit_lines(measured.measurements)
    if fitted:
        parts += ["", fitted]
    sources = sources_of(rows)
    if sources:
        parts += ["", Text("Compared to", style="bold")]
        parts += ["\n".join(filled(source, label="  ", indent=4, width=wide)) for source in sources]
    parts += _logs(measured, wide)
    return text_of(parts, colour=colour, width=wide)


def _head(measured: MeasurementSet, judged: Judgement, width: int) -> list[RenderableType]:
    """What was measured with what, each sick part in one sentence with what to do, and what gave no
    result.
    """
    words = [f"{plural(len(measured.measurements), 'measurement')}, {measured.suite} suite"]
    words += [measured.started] if measured.started else []
    words += [f"with {measured.interpreter}"] if measured.interpreter else []
    lines: list[RenderableType] = ["\n".join(filled(", ".join(words), width=width))]
    notes = surroundings(measured)
    lines += [
        Text("\n".join(filled(note, label="! ", indent=2, width=width)), style="yellow") for note in notes
    ]
    sick = sick_parts(judged.findings)
    lines += [line for part in sick for line in _sick(part, width)]
    lines += _without_result(measured, width)
    if not sick and not measured.failures and judged.comparisons:
        lines.append(Text("✓ nothing is slower than what it compares to", style="green"))
    return lines


def _sick(part: SickPart, width: int) -> list[RenderableType]:
    finding, words = part.finding, STATUS_WORDS[part.finding.status]
    label = f"{words.glyph} {words.word}  "
    lines: list[RenderableType] = [
        Text(_block(f"{finding.subject}: {finding.summary}", label=label, width=width), style=words.style)
    ]
    if part.also:
        lines.append(_block("; ".join(part.also), label="  also  ", width=width))
    if finding.remedy is not None and part.tells_remedy:
        lines.append(_block(finding.remedy.text, label="  do    ", width=width))
        # On one line, so that it can be copied.
        lines += [f"        $ {clean(finding.remedy.command)}"] if finding.remedy.command else []
    return lines


def _block(text: str, *, label: str, width: int) -> str:
    return "\n".join(filled(text, label=label, indent=8, width=width))


def _without_result(measured: MeasurementSet, width: int) -> list[RenderableType]:
    """What failed, and why; what is alike is said once. What gave wrong results is told by a finding."""
    alike: dict[tuple[str, str], dict[str, None]] = {}
    for failure in measured.failures:
        if failure.kind != WRONG:
            alike.setdefault((failure.subject, failure.message), {})[failure.bench_id] = None
    return [
        Text(
            "\n".join(
                filled(
                    f"{', '.join(ids)} on {subject}: {message}", label="✗ no result  ", indent=8, width=width
                )
            ),
            style="red",
        )
        for (subject, message), ids in alike.items()
    ]


def _few(told: Iterable[str]) -> list[str]:
    """A GPU that computes wrong may do so in every case."""
    lines = list(told)
    return (
        lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], f"and {len(lines) - _MOST_LINES} more"]
    )


def _logs(measured: MeasurementSet, width: int) -> list[RenderableType]:
    """The end of each log, and what reproduces it; whoever stopped it knows the cause."""
    alike: dict[tuple[str, str], dict[str, None]] = {}
    for failure in measured.failures:
        if failure.kind != "stopped" and (failure.log_tail or failure.command):
            words = f"{failure.bench_id} on {failure.subject}" + (
                f": {failure.message}" if failure.kind == WRONG else ""
            )
            alike.setdefault((failure.log_tail, failure.command), {})[words] = None
    parts: list[RenderableType] = []
    for (log_tail, command), told in alike.items():
        parts += [
            "",
            *(
                Text("\n".join(filled(words, label="✗ ", indent=2, width=width)), style="red")
                for words in _few(told)
            ),
        ]
        parts += [f"    | {line}" for line in log_tail.splitlines()[-_LOG_LINES:]]
        parts += [f"    again: {command}"] if command else []
    return parts
