"""The benchmarks page: what a run would cost, what was measured against what is published, and what failed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assistant.present.results import Reference, Result, case, reference_of, results, title
from assistant.present.text import BAD, CAUTION, CODE, DIM, GOOD, STRONG, clean, clean_block, frameless, joined, plain
from probes.facts import MachineFacts
from probes.hardware import Catalogue
from probes.measurements import BenchFailure, MeasurementSet
from probes.record import Unknown
from probes.registry import BENCHMARKS, BenchmarkRow
from probes.units import duration, percent, quantity
from recipes.layout import training_gpus

GET_TORCH = "python3 -m venv .venv && .venv/bin/pip install torch"
"""One command that gives a training interpreter where rigtune looks for one (`./.venv`)."""

_LOG_LINES = 12
_WELL = 0.8
"""Share of a measured reference below which a result is marked."""


def planned(suite: str = "quick") -> tuple[BenchmarkRow, ...]:
    return tuple(row for row in BENCHMARKS if suite in row.suites)


def cost(rows: Sequence[BenchmarkRow], facts: MachineFacts | None) -> str:
    """What a run occupies on this machine and how long it takes, in one sentence. Shown before it starts."""
    seconds = sum(row.cost_s for row in rows)
    if facts is None or isinstance(facts.gpus, Unknown):
        occupied = "all GPUs, or all CPUs where there are none"
    else:
        occupied = "all GPUs" if training_gpus(facts) else "all CPUs"
    return f"about {duration(seconds)}, occupies {occupied}"


def intro(facts: MachineFacts | None, measured: MeasurementSet, *, is_live: bool, progress: str, note: str = "") -> Text:
    """The first lines: what runs, what could run, or why nothing can. `note` is what speaks against the numbers."""
    first = _first_lines(facts, measured, is_live=is_live, progress=progress)
    return joined(first, Text(f"! {clean(note)}", style=CAUTION)) if note else first


def _first_lines(facts: MachineFacts | None, measured: MeasurementSet, *, is_live: bool, progress: str) -> Text:
    if progress:
        return Text.assemble((progress, STRONG), ("   . stops it", DIM))
    if not is_live:
        return Text.assemble(
            ("Nothing can be measured here.", STRONG),
            "\nThis is not the live machine. The plan uses published figures; start rigtune on the machine to measure it.",
        )
    if lacks_torch(facts):
        return _no_interpreter()
    words = cost(planned(), facts)
    if measured.measurements or measured.failures:
        with_what = f" with {clean(measured.interpreter)}" if measured.interpreter else ""
        return Text.assemble(("Measured", STRONG), f"{with_what}.  ", (f"s measures again: {words}.", DIM))
    return Text.assemble(
        ("Nothing was measured yet.", STRONG), f"  s starts the quick suite: {words}.\nThe plan then rests on it."
    )


def lacks_torch(facts: MachineFacts | None) -> bool:
    """True when it is known that no interpreter with torch is there to measure with."""
    return facts is not None and (facts.training.path is None or facts.training.torch_version is None)


def _no_interpreter() -> Text:
    return joined(
        Text("No training interpreter with torch was found, so nothing can be measured.", style=CAUTION),
        Text("This command gets one where rigtune looks for it; then r probes again:"),
        Text(f"  {GET_TORCH}", style=CODE),
        Text("Or start rigtune with --python PATH. Planning works without it, from published figures.", style=DIM),
    )


def table(
    measured: MeasurementSet,
    facts: MachineFacts | None,
    catalogue: Catalogue,
    *,
    is_running: bool,
    show_all: bool,
    is_wide: bool,
) -> Table:
    """One line per result, one per benchmark without any."""
    columns = ("benchmark", "case", "on", "median", "spread", "reference", "slowest")
    page = frameless(*(columns if is_wide else ("benchmark", "on", "median", "reference")))
    for column in page.columns[2 if is_wide else 1 :][:2]:
        column.no_wrap = True
    found = results(measured.measurements, show_all=show_all)
    is_next = True
    for row in planned(measured.suite or "quick"):
        mine = [entry for entry in found if entry.bench_id == row.id]
        failed = [entry for entry in measured.failures if entry.bench_id == row.id]
        for entry in mine:
            page.add_row(*_result(entry, reference_of(entry, facts, catalogue), is_wide=is_wide))
        for failure in failed:
            kind = Text(f"failed: {clean(failure.kind.replace('_', ' '))}", style=BAD)
            page.add_row(Text(f"✗ {row.id}", style=BAD), *_blank_case(is_wide), plain(failure.subject), kind)
        if not mine and not failed:
            name, state = _waiting(row, is_running=is_running, is_next=is_next)
            page.add_row(name, *_blank_case(is_wide), "", state)
            is_next = False
    return page


def _blank_case(is_wide: bool) -> tuple[str, ...]:
    return ("",) if is_wide else ()


def _waiting(row: BenchmarkRow, *, is_running: bool, is_next: bool) -> tuple[Text, Text]:
    """The benchmark and its state, while it has no result."""
    if is_running and is_next:
        return Text(f"> {row.id}", style=STRONG), Text("running", style=STRONG)
    state = "queued" if is_running else "not run"
    return Text(f"· {row.id}", style=DIM), Text(f"{state}, ~{duration(row.cost_s)}", style=DIM)


def _result(entry: Result, reference: Reference | None, *, is_wide: bool) -> tuple[RenderableType, ...]:
    """A narrow page has the case below the benchmark, and no columns for spread and slowest device."""
    name, what = Text.assemble(("✓ ", GOOD), title(entry)), Text(case(entry.parameters), style=DIM)
    subject, median = Text(entry.subject), Text(quantity(entry.median, entry.unit))
    if not is_wide:
        return Group(name, Padding(what, (0, 0, 0, 2))), subject, median, _compared(entry, reference)
    spread = Text(f"± {entry.spread * 100:.1f} %" if entry.spread else "-", style=DIM)
    slowest = Text(entry.slowest or "-", style=CAUTION if entry.slowest else DIM)
    source = f" {reference.source}" if reference else ""
    return name, what, subject, median, spread, _compared(entry, reference).append(source, DIM), slowest


def _compared(entry: Result, reference: Reference | None) -> Text:
    """The share of a published figure; coloured where that figure is known to be reachable."""
    if reference is None:
        return Text("-", style=DIM)
    share = entry.median / reference.value
    style = "" if not reference.is_measured else GOOD if share >= _WELL else CAUTION
    return Text.assemble((percent(share), style), f" of {quantity(reference.value, entry.unit)}")


def failures(entries: Sequence[BenchFailure]) -> Text:
    """What failed: the reason, the end of its log, and the command that reproduces it. What is alike is said once."""
    text = Text()
    alike: dict[tuple[str, ...], list[BenchFailure]] = {}
    for entry in entries:
        alike.setdefault((entry.subject, entry.message, entry.log_tail, entry.command), []).append(entry)
    for group in alike.values():
        entry = group[0]
        names = ", ".join(clean(failure.bench_id) for failure in group)
        text.append(f"✗ {names} on {clean(entry.subject)}", BAD)
        text.append(f"  {clean(entry.message)}\n")
        for line in clean_block(entry.log_tail).splitlines()[-_LOG_LINES:]:
            text.append(f"  | {line}\n", DIM)
        if entry.command:
            text.append("  again: ", DIM)
            text.append(f"{clean(entry.command)}\n", CODE)
    text.rstrip()
    return text
