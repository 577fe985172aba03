"""Measure how far the quick suite's medians vary from run to run.

The figures are the largest over the smallest median, and the standard deviation over the mean.

    python tests/benchmarks/repeat_quick_suite.py [--runs 5] [--only ID,...] [--limit 0.15]

Prints the case with the widest spread of every benchmark, metric and subject (--all: every case), whether it
stays within the limit, and how many runs marked the number themselves as unreliable: the host was busy, the durations
had not settled, or the interval of the median is wider than the limit. The script names figures that a run lacks.
"""

from __future__ import annotations

import argparse
import collections
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from assistant.usecases.events import Progress
from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.probe import probe_machine
from probes.base.units import quantity
from probes.collect.collecting import CollectOptions
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement, MeasurementSet
from probes.sources.live import LiveSource

Key = tuple[str, str, str, str]
"""Benchmark, subject, metric, and the case in words."""


class Spread(NamedTuple):
    """One result over all runs."""

    key: Key
    unit: str
    medians: list[float]
    marked_runs: int

    @property
    def largest_over_smallest(self) -> float:
        return max(self.medians) / min(self.medians) if min(self.medians) > 0 else float("inf")

    @property
    def variation(self) -> float:
        """Return the coefficient of variation."""
        mean = statistics.fmean(self.medians)
        return statistics.stdev(self.medians) / mean if mean and len(self.medians) > 1 else 0.0


def key_of(entry: Measurement) -> Key:
    words = ", ".join(f"{name} {value}" for name, value in sorted(entry.parameters.items()))
    return entry.bench_id, entry.subject, entry.metric, words


def is_marked(entry: Measurement, limit: float) -> bool:
    """Return whether the measurement itself states that another run may give another number."""
    noted = entry.conditions
    return (
        bool(noted.get("host_busy") or noted.get("unsettled"))
        or 2 * float(noted.get("interval_half_width", 0.0)) > limit
    )


def run_once(facts: MachineFacts, only: tuple[str, ...], python: str) -> tuple[MeasurementSet, list[str]]:
    """Return the results of one quick suite, and the messages about a busy host."""
    said = []
    result: MeasurementSet | None = None
    for event in measure_machine(facts, MeasureOptions(only=only, force=True, python=python)):
        if isinstance(event, Progress) and "busy" in event.message:
            said.append(event.message)
        result = getattr(event, "result", None) or result
    assert isinstance(result, MeasurementSet)
    return result, said


def spreads_of(runs: list[MeasurementSet], limit: float) -> tuple[list[Spread], list[Key]]:
    """Return the results that all runs have, and the results that a run lacks."""
    entries: dict[Key, list[Measurement]] = collections.defaultdict(list)
    for run in runs:
        for entry in run.measurements:
            if entry.samples:
                entries[key_of(entry)].append(entry)
    everywhere = [
        Spread(
            key,
            found[0].unit,
            [entry.median for entry in found],
            sum(is_marked(entry, limit) for entry in found),
        )
        for key, found in entries.items()
        if len(found) == len(runs)
    ]
    return everywhere, [key for key, found in entries.items() if len(found) < len(runs)]


def widest(spreads: list[Spread]) -> list[Spread]:
    """Return the case that varies most, for every benchmark, subject and metric."""
    by_group: dict[tuple[str, str, str], Spread] = {}
    for spread in spreads:
        group = spread.key[:3]
        if group not in by_group or spread.largest_over_smallest > by_group[group].largest_over_smallest:
            by_group[group] = spread
    return list(by_group.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="", help="benchmarks, separated by commas")
    parser.add_argument(
        "--python", default=sys.executable, help="the training interpreter; default: this one"
    )
    parser.add_argument("--limit", type=float, default=0.15, help="largest over smallest median, less one")
    parser.add_argument("--all", action="store_true", help="every case")
    options = parser.parse_args()
    only = tuple(filter(None, options.only.split(",")))
    facts = list(probe_machine(LiveSource(), CollectOptions()))[-1].result
    runs = []
    for number in range(options.runs):
        started = time.monotonic()
        result, said = run_once(facts, only, options.python)
        runs.append(result)
        failed = [f"{failure.bench_id}: {failure.message}" for failure in result.failures]
        print(
            f"run {number + 1}: {time.monotonic() - started:.0f} s, {len(result.measurements)} figures",
            *said,
            *failed,
            sep="; ",
        )
    spreads, partial = spreads_of(runs, options.limit)
    print(f"\n{'max/min':>7} {'variation':>9} {'limit':>6} {'explained':>5}  {'median':>14}  figure")
    for spread in sorted(
        spreads if options.all else widest(spreads), key=lambda one: -one.largest_over_smallest
    ):
        good = "within" if spread.largest_over_smallest - 1 <= options.limit else "BEYOND"
        middle = quantity(statistics.median(spread.medians), spread.unit)
        ratio = f"{spread.largest_over_smallest:7.2f} {spread.variation:9.1%}"
        print(
            f"{ratio} {good:>6} {spread.marked_runs:>3}/{len(runs)}  {middle:>14}  "
            f"{'; '.join(filter(None, spread.key))}"
        )
    within = [spread.largest_over_smallest - 1 <= options.limit for spread in spreads]
    explained = [spread.marked_runs > 0 for spread, good in zip(spreads, within, strict=True) if not good]
    print(
        f"\n{sum(within)} of {len(within)} figures within {options.limit:.0%}; of the others {sum(explained)} "
        "were marked as unreliable"
    )
    for key in partial:
        print("not in every run:", "; ".join(filter(None, key)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
