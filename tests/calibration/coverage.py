"""Measure how often the 10 to 90 % intervals contain runs whose source was left out of the fit.

python tests/calibration/coverage.py [--write] [--folds N] [--rounds N] [--as-is]

Each source is left out once, together with others, and a fit to the remaining runs predicts it; with
`--as-is` the present values predict it. The software or the GPU of a run counts as seen if the remaining runs
include it. `--write` rewrites the ends of the intervals of time, the widenings of the intervals of time and
memory, and `recipes/data/fitted.toml`.
"""

import argparse
import collections
import math
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from recipes.predict.familiarity import Familiarity, Fitted, of_sets
from recipes.predict.parameters import parameter
from tests.calibration import fit_memory, fit_time, fit_vision
from tests.calibration.fitting import Item, fit, residuals, write_values
from tests.calibration.priors import load_priors

COVERED = {"seen-seen": 0.82, "seen-unseen": 0.85, "unseen-seen": 0.85, "unseen-unseen": 0.85}
"""Share of left-out runs that the intervals must contain, by whether software and GPU are seen.

The shares exceed 80 %, so that new runs reach 80 %; classes with unseen parts have few runs and need more.
"""
NAMES: dict[Fitted, str] = {"time": "step_time", "memory": "peak_memory"}
FEWEST = 20
"""Fewest seen runs that alone determine the ends of a kind's interval, and fewest runs of a class for its
widening.
"""
CLASSES: tuple[Familiarity, ...] = ("seen-seen", "seen-unseen", "unseen-seen", "unseen-unseen")
FITTED = Path(__file__).resolve().parents[2] / "recipes" / "data" / "fitted.toml"


class LeftOut(NamedTuple):
    """A run of a source that was left out."""

    figure: Fitted
    key: str
    seen: Familiarity
    ratio: float
    """Measured over predicted."""


def source_of(item: Item) -> str:
    """Return the first word of a source: sources of one project and rounds of one benchmark share it."""
    return re.split(r"[-/.]", item.source)[0]


def left_out_runs(
    figure: Fitted, items: Sequence[Item], prefix: str, *, folds: int, rounds: int, refits: bool
) -> list[LeftOut]:
    """Return all runs that can be predicted, each with its ratio to the prediction without its source.

    Without `refits` the present values predict all runs.
    """
    priors = {row.id: row.prior for row in load_priors().values() if row.id.startswith(prefix)}
    start = fit(items, prefix, rounds=rounds).values if refits else {}
    runs = []
    sources = sorted({source_of(item) for item in items})
    for fold in range(min(folds, len(sources))):
        away = set(sources[fold::folds])
        rest = [item for item in items if source_of(item) not in away]
        mine = [item for item in items if source_of(item) in away]
        values = priors | fit(rest, prefix, start=start, rounds=rounds).values if refits else {}
        software, gpus = {item.software for item in rest} - {""}, {item.gpu for item in rest} - {""}
        for item, value in zip(mine, residuals(mine, values), strict=True):
            if not math.isnan(value):
                seen = of_sets(figure, item.software, item.gpu, software_seen=software, gpus_seen=gpus)
                runs.append(LeftOut(figure, item.interval, seen, math.exp(-value)))
    return runs


def percentiles(ratios: Iterable[float]) -> tuple[float, float]:
    """Return the 10th and the 90th percentile."""
    ordered = sorted(ratios)
    return ordered[round(0.1 * (len(ordered) - 1))], ordered[round(0.9 * (len(ordered) - 1))]


def ends_of(runs: Sequence[LeftOut]) -> dict[str, tuple[float, float]]:
    """Return the ends of each kind's interval, from runs of seen software and GPUs where there are enough."""
    ends = {}
    for key in sorted({run.key for run in runs}):
        mine = [run for run in runs if run.key == key]
        seen = [run for run in mine if run.seen == "seen-seen"]
        low, high = percentiles(run.ratio for run in (seen if len(seen) >= FEWEST else mine))
        ends[key] = min(low, 0.99), max(high, 1.01)
    return ends


def power_of(run: LeftOut, ends: dict[str, tuple[float, float]]) -> float:
    """Return the smallest widening with which the interval contains the run."""
    low, high = ends[run.key]
    return math.log(run.ratio) / math.log(low if run.ratio < 1 else high)


def widenings(runs: Sequence[LeftOut], ends: dict[str, tuple[float, float]]) -> dict[Familiarity, float]:
    """Return the widening of each class; no class has less than runs with seen software and a seen GPU.

    A class with few runs has the widening of the class before. The class without seen parts has the largest.
    """
    powers: dict[Familiarity, float] = {}
    least = 0.0
    for seen in CLASSES:
        mine = sorted(power_of(run, ends) for run in runs if run.seen == seen)
        if len(mine) >= FEWEST:
            powers[seen] = mine[math.ceil(COVERED[seen] * len(mine)) - 1]
    for seen in CLASSES:
        least = powers[seen] = max(powers.get(seen, least), powers.get("seen-seen", 1.0), 1.0)
    powers["unseen-unseen"] = max(powers.values())
    return powers


def coverage(runs: Sequence[LeftOut], ends: dict[str, tuple[float, float]], powers: dict[Familiarity, float]):
    """Print the share of left-out runs inside their intervals: by class, by kind and of all runs."""
    inside = collections.defaultdict(list)
    for run in runs:
        is_inside = power_of(run, ends) <= powers[run.seen]
        for group in (run.seen, run.key, "all"):
            inside[group].append(is_inside)
    for group, hits in sorted(inside.items()):
        low, high = ends.get(group, (math.nan, math.nan))
        width = f"x {powers[group]:.2f}" if group in powers else f"{low:.3f} to {high:.3f}" * (group in ends)
        print(f"  {group:20s} {sum(hits):5d} of {len(hits):5d}  {sum(hits) / len(hits):4.0%}  {width}")


def present(figure: Fitted, runs: Sequence[LeftOut]):
    """Return the ends and widenings that rigtune uses at present."""
    name = NAMES[figure]
    ends = {
        key: (parameter(f"interval.{name}_low", key), parameter(f"interval.{name}_high", key))
        for key in {run.key for run in runs}
    }
    return ends, {seen: parameter(f"interval.{name}_widening", seen) for seen in CLASSES}


def write_fitted(figure: Fitted, items: Sequence[Item]) -> None:
    """Rewrite the software and the GPUs of one row of `fitted.toml`."""
    text = FITTED.read_text("utf-8")
    for field, names in (("software", {i.software for i in items}), ("gpus", {i.gpu for i in items})):
        words = "".join(f'\n  "{name}",' for name in sorted(names - {""}))
        pattern = rf'(id = "{figure}".*?\n{field} = )\[.*?\]'
        text = re.sub(pattern, lambda match: f"{match[1]}[{words}\n]", text, count=1, flags=re.DOTALL)  # noqa: B023
    FITTED.write_text(text, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folds", type=int, default=8, help="number of groups of sources (default 8)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--as-is", action="store_true", help="predict with present values, without fits")
    options = parser.parse_args()
    tables: tuple[tuple[Fitted, list[tuple[str, list[Item]]]], ...] = (
        ("time", [("time.", fit_time.items()), ("vision.", fit_vision.items())]),
        ("memory", [("memory.", fit_memory.measured_peaks(fit_memory.transformer_rows()))]),
    )
    for figure, parts in tables:
        runs: list[LeftOut] = []
        for prefix, items in parts:
            runs += left_out_runs(
                figure, items, prefix, folds=options.folds, rounds=options.rounds, refits=not options.as_is
            )
        ends, powers = present(figure, runs)
        print(f"{figure}: left-out runs in the present intervals")
        coverage(runs, ends, powers)
        if figure == "time":  # the ends of memory's intervals stay, because they are also a plan's margin
            ends = ends_of(runs)
        powers = widenings(runs, ends)
        print(f"{figure}: left-out runs in intervals from these runs")
        coverage(runs, ends, powers)
        if options.write:
            name = NAMES[figure]
            values = {f"interval.{name}_widening.{seen}": power for seen, power in powers.items()}
            for key, (low, high) in ends.items():
                values |= {f"interval.{name}_low.{key}": low, f"interval.{name}_high.{key}": high}
            write_values(values)
            write_fitted(figure, [item for _, items in parts for item in items])


if __name__ == "__main__":
    main()
