"""Read the published training runs for the fits, and run the common part of the fitting scripts."""

from __future__ import annotations

import argparse
import collections
import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from recipes.cases.case import CaseError, case_of_row
from recipes.cases.resolved import resolve
from recipes.cases.resolved_case import ResolvedCase
from tests.calibration.fitting import ROUNDS, Item, fit, leave_one_out, report, residuals

SHARED = Path(os.environ.get("RIGTUNE_SHARED", Path(__file__).resolve().parents[3] / "shared"))


OPEN = SHARED / "data" / "training_open.csv"
OPEN_2 = SHARED / "data" / "training_open_2.csv"
OWN = Path(__file__).resolve().parent / "published_runs.csv"
"""Runs collected from other sources, each with its address: figures as they were printed, inputs as they were
worded.
"""


def published_rows(*paths: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of the tables that exist; a column that a table lacks is blank."""
    for path in paths:
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    yield collections.defaultdict(str, row)


def resolved_rows(*paths: Path) -> Iterator[tuple[dict[str, str], ResolvedCase]]:
    """Yield every published run whose case resolves, by default of all tables."""
    for row in published_rows(*(paths or (OPEN, OPEN_2, OWN))):
        try:
            yield row, resolve(case_of_row(row))
        except CaseError:
            continue


def arguments(description: str | None) -> argparse.Namespace:
    """Return the options of a fitting script."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="rewrite the values in recipes/data/parameters")
    parser.add_argument(
        "--leave-one-out", action="store_true", help="also report the errors of fits without each source"
    )
    parser.add_argument("--as-is", action="store_true", help="report the present values without a fit")
    parser.add_argument("--worst", type=int, default=0, help="list that many of the largest errors")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    return parser.parse_args()


def fitted(
    runs: Sequence[Item], prefix: str, options: argparse.Namespace
) -> tuple[dict[str, float], list[float]]:
    """Return the values of the rows with this prefix, and the residuals without each source if requested.

    Both are printed.
    """
    values: dict[str, float] = {}
    if not options.as_is:
        values = fit(runs, prefix, rounds=options.rounds).values
        for name, value in sorted(values.items()):
            print(f"{name:48s} {value:.4g}")
    report(runs, residuals(runs, values), worst=options.worst)
    if not options.leave_one_out:
        return values, []
    print("each source left out:")
    left_out = leave_one_out(runs, prefix, values)
    report(runs, left_out)
    return values, left_out
