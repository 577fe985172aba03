"""List the benchmarks with their costs, and state which of them can run."""

from collections.abc import Sequence

from assistant.pages.blocks import Cell, Column, Page, Row, Section, Table, words
from assistant.usecases.bench.bench_list import BenchEntry
from probes.base.record import Unknown
from probes.base.units import duration
from probes.bench.bench_requests import Suite
from probes.bench.benchmark_table import ALL_DEVICES
from probes.facts import MachineFacts
from recipes.machine.ranks import training_gpus

_WIDE = 120
_SUITES: tuple[Suite, ...] = ("quick", "full")


def list_page(entries: Sequence[BenchEntry], *, width: int) -> Page:
    """Return one line per benchmark: suites, seconds in each, devices in use, and whether it applies."""
    quick, full = (_seconds([entry for entry in entries if entry.applies], suite) for suite in _SUITES)
    total = (
        f"here about {quick:.0f} s for the quick suite, {full:.0f} s for the full one, "
        "including the time to start torch"
    )
    return Section("", (costs_table(entries, width=width),)), Section("", (Row(total),))


def costs_table(entries: Sequence[BenchEntry], *, width: int, suites: Sequence[Suite] = _SUITES) -> Table:
    """Return the costs of `entries` in `suites`.

    For a single suite, whose entries all apply to this machine, the names of suites and the reasons why
    benchmarks do not apply are left out.
    """
    is_wide, is_list = width >= _WIDE, len(suites) > 1
    columns = [
        ("benchmark", True, True),
        ("what", True, False),
        ("suites", is_wide and is_list, False),
        *((suite, True, True) for suite in suites),
        ("occupies", is_wide, False),
        ("here", is_list, False),
    ]
    rows = []
    for entry in entries:
        cells: tuple[Cell, ...] = (
            entry.id,
            entry.title if is_wide else f"{entry.title}; occupies {entry.occupies}",
            ", ".join(entry.suites) or "on request",
            *(
                f"{_cost(entry, suite):.0f} s" if suite in (entry.suites or _SUITES) else "-"
                for suite in suites
            ),
            entry.occupies,
            words(("yes", "good") if entry.applies else (entry.why_not, "dim")),
        )
        rows.append(tuple(cell for cell, (_, is_shown, _) in zip(cells, columns, strict=True) if is_shown))
    return Table(
        tuple(Column(name, fixed=fixed) for name, is_shown, fixed in columns if is_shown), tuple(rows)
    )


def planned(entries: Sequence[BenchEntry], suite: Suite) -> tuple[BenchEntry, ...]:
    """Return the benchmarks that the suite runs on this machine."""
    return tuple(entry for entry in entries if suite in entry.suites and entry.applies)


def cost(entries: Sequence[BenchEntry], facts: MachineFacts | None, suite: Suite) -> str:
    """Return how long a run takes on this machine and which devices it occupies; announced before the run."""
    occupied = ALL_DEVICES
    if facts is not None and not isinstance(facts.gpus, Unknown):
        occupied = "all GPUs" if training_gpus(facts) else "all CPUs"
    return f"about {duration(_seconds(planned(entries, suite), suite))}, occupies {occupied}"


def _seconds(entries: Sequence[BenchEntry], suite: Suite) -> float:
    return sum(_cost(entry, suite) for entry in entries if suite in entry.suites)


def _cost(entry: BenchEntry, suite: Suite) -> float:
    return entry.full_cost_s if suite == "full" else entry.cost_s
