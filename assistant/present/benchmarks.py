"""The benchmarks page: what a run would cost, what was measured beside what it compares to, and what
failed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assistant.present.bench_table import results_table, sources_of
from assistant.present.curves import figures
from assistant.present.fit_lines import fit_lines
from assistant.present.matrices import matrices, worth_a_line
from assistant.present.plot import draw
from assistant.present.results import results
from assistant.present.sick_parts import sick_parts
from assistant.present.text import (
    BAD,
    CAUTION,
    CODE,
    DIM,
    STATUS_WORDS,
    STRONG,
    clean,
    clean_block,
    frameless,
    joined,
)
from assistant.usecases.bench.bench_list import BenchEntry
from probes.base.record import Unknown
from probes.base.units import duration, plural
from probes.bench.bench_requests import Suite
from probes.compare.measured_findings import WRONG
from probes.compare.measurement_judgement import Judgement
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, MeasurementSet
from recipes.machine.ranks import training_gpus

GET_TORCH = "python3 -m venv .venv && .venv/bin/pip install torch"
"""One command that gives a training interpreter where rigtune looks for one (`./.venv`)."""

_LOG_LINES = 12
_WIDE = 110


def planned(entries: Sequence[BenchEntry], suite: Suite) -> tuple[BenchEntry, ...]:
    """What the suite measures here."""
    return tuple(entry for entry in entries if suite in entry.suites and entry.applies)


def cost(entries: Sequence[BenchEntry], facts: MachineFacts | None, suite: Suite) -> str:
    """What a run occupies on this machine and how long it takes, in one sentence. Shown before it starts."""
    seconds = sum(entry.full_cost_s if suite == "full" else entry.cost_s for entry in planned(entries, suite))
    if facts is None or isinstance(facts.gpus, Unknown):
        occupied = "all GPUs, or all CPUs where there are none"
    else:
        occupied = "all GPUs" if training_gpus(facts) else "all CPUs"
    return f"about {duration(seconds)}, occupies {occupied}"


def intro(
    facts: MachineFacts | None,
    measured: MeasurementSet,
    *,
    is_live: bool,
    progress: str,
    note: str = "",
    entries: Sequence[BenchEntry] = (),
    suite: Suite = "quick",
) -> Text:
    """The first lines: what runs, what could run, or why nothing can. `note` is what speaks against the
    numbers.
    """
    first = _first_lines(
        facts, measured, is_live=is_live, progress=progress, words=cost(entries, facts, suite), suite=suite
    )
    return joined(first, Text(f"! {clean(note)}", style=CAUTION)) if note else first


def _first_lines(
    facts: MachineFacts | None,
    measured: MeasurementSet,
    *,
    is_live: bool,
    progress: str,
    words: str,
    suite: Suite,
) -> Text:
    if progress:
        return Text.assemble((progress, STRONG), ("   . stops it", DIM))
    if not is_live:
        return Text.assemble(
            ("Nothing can be measured here.", STRONG),
            "\nThis is not the live machine. The plan uses published figures; start rigtune on the machine to measure it.",
        )
    if lacks_torch(facts):
        return _no_interpreter()
    other = "f chooses the quick suite" if suite == "full" else "f chooses the full suite"
    if measured.measurements or measured.failures:
        with_what = f" with {clean(measured.interpreter)}" if measured.interpreter else ""
        first = Text.assemble(
            ("Measured", STRONG), f"{with_what}.  ", (f"s measures the {suite} suite: {words}; {other}.", DIM)
        )
        failed = ", ".join(
            dict.fromkeys(
                clean(one.bench_id) for one in measured.failures if one.kind not in (WRONG, "stopped")
            )
        )
        return joined(first, Text(f"✗ no result: {failed}; why stands below", style=BAD)) if failed else first
    return Text.assemble(
        ("Nothing was measured yet.", STRONG),
        f"  s starts the {suite} suite: {words}; {other}.\nThe plan then rests on it.",
    )


def lacks_torch(facts: MachineFacts | None) -> bool:
    """True when it is known that no interpreter with torch is there to measure with."""
    return facts is not None and (facts.training.path is None or facts.training.torch_version is None)


def _no_interpreter() -> Text:
    return joined(
        Text("No training interpreter with torch was found, so nothing can be measured.", style=CAUTION),
        Text("This command gets one where rigtune looks for it; then r probes again:"),
        Text(f"  {GET_TORCH}", style=CODE),
        Text(
            "Or start rigtune with --python PATH. Planning works without it, from published figures.",
            style=DIM,
        ),
    )


def before(entries: Sequence[BenchEntry], suite: Suite, *, width: int) -> Table:
    """What the suite would measure: cost and what it occupies."""
    is_wide = width >= _WIDE
    table = frameless("benchmark", "what", "time", *(["occupies"] if is_wide else []))
    table.columns[0].no_wrap = table.columns[2].no_wrap = True
    for entry in planned(entries, suite):
        seconds = entry.full_cost_s if suite == "full" else entry.cost_s
        table.add_row(
            entry.id,
            Text(entry.title),
            f"{seconds:.0f} s",
            *([Text(entry.occupies, style=DIM)] if is_wide else []),
        )
    return table


def page(
    measured: MeasurementSet,
    judgement: Judgement,
    *,
    running: str,
    queued: Sequence[str],
    show_all: bool,
    width: int,
) -> RenderableType:
    """Every result beside what it compares to; below, what still runs and waits."""
    rows = results(
        worth_a_line(measured.measurements, show_all=show_all), judgement.comparisons, show_all=show_all
    )
    parts: list[RenderableType] = [results_table(rows, width=width)] if rows else []
    if running:
        parts.append(Text.assemble(("\n" if rows else "", ""), ("> ", STRONG), (clean(running), STRONG)))
    if queued:
        parts.append(Text(f"· queued: {', '.join(queued)}", style=DIM))
    sources = sources_of(rows)
    if sources:
        parts.append(Text("\n" + "\n".join(sources), style=DIM))
    return Group(*parts) if parts else Text("no result yet", style=DIM)


def sick(judgement: Judgement) -> Text:
    """Each part that is slower than it should be in one sentence, the worst first; empty where there is
    none.
    """
    lines = []
    for part in sick_parts(judgement.findings):
        finding, words = part.finding, STATUS_WORDS[part.finding.status]
        lines.append(
            Text.assemble(
                (f"{words.glyph} {clean(finding.subject)}", words.style), f"  {clean(finding.summary)}"
            )
        )
        if part.also:
            lines.append(Text(f"  also: {clean('; '.join(part.also))}", style=DIM))
        if finding.remedy is not None and part.tells_remedy:
            lines.append(Text(f"  do: {clean(finding.remedy.text)}"))
            lines += (
                [Text(f"  $ {clean(finding.remedy.command)}", style=CODE)] if finding.remedy.command else []
            )
    return joined(*lines)


def drawings(measured: MeasurementSet, judgement: Judgement, *, width: int) -> RenderableType:
    """Curves and matrices."""
    parts: list[RenderableType] = []
    for figure in figures(measured.measurements):
        parts += [draw(figure, width=width), ""]
    for panel in matrices(measured.measurements, judgement.comparisons):
        parts += [Text(panel.title, style=STRONG), panel.body, ""]
    fitted = fit_lines(measured.measurements)
    if fitted:
        parts += [fitted, ""]
    return (
        Group(*parts[:-1])
        if parts
        else Text("nothing was measured at several sizes or between pairs", style=DIM)
    )


def title(suite: str, measured: MeasurementSet) -> str:
    """Of the panel: `Quick suite`, `Full suite, 5 benchmarks measured`."""
    done = len({entry.bench_id for entry in measured.measurements})
    return f"{suite.capitalize()} suite" + (f", {plural(done, 'benchmark')} measured" if done else "")


def failures(entries: Sequence[BenchFailure]) -> Text:
    """What failed: the reason, the end of its log, and the command that reproduces it. What is alike is said
    once.
    """
    text = Text()
    alike: dict[tuple[str, ...], list[BenchFailure]] = {}
    for entry in entries:
        alike.setdefault((entry.subject, entry.message, entry.log_tail, entry.command), []).append(entry)
    for group in alike.values():
        entry = group[0]
        names = ", ".join(dict.fromkeys(clean(failure.bench_id) for failure in group))
        text.append(f"✗ {names} on {clean(entry.subject)}", BAD)
        text.append(f"  {clean(entry.message)}\n")
        if entry.kind == "stopped":
            continue  # whoever stopped it knows the cause
        for line in clean_block(entry.log_tail).splitlines()[-_LOG_LINES:]:
            text.append(f"  | {line}\n", DIM)
        if entry.command:
            text.append("  again: ", DIM)
            text.append(f"{clean(entry.command)}\n", CODE)
    text.rstrip()
    return text
