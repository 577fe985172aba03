"""Score the model of collectives on published measurements, and on request fit its figures to them.

    python tests/benchmarks/score_collectives.py [--leave-one-out] [--fit] [--write] [--worst N]

It reads `collectives_open.csv` in the folder `data` of $RIGTUNE_SHARED (by default `../shared`), and prints median and
p90 of |predicted/measured - 1| by platform, collective and size. `--fit` fits the figures first, and `--write` stores
this fit in recipes/data/parameters. `--leave-one-out` adds the errors with each platform left out of the fit.
"""

from __future__ import annotations

import argparse
import collections
import csv
import math
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from recipes.cases.collective import predict_collective_row
from recipes.predict.speed.collectives import wire_bytes
from tests.calibration.fitting import Item, fit, leave_one_out, residuals, write_values
from tests.calibration.priors import load_priors

SHARED = Path(os.environ.get("RIGTUNE_SHARED", Path(__file__).resolve().parents[3] / "shared"))
PREFIX = "collective."
NOT_FITTED = ("nnScaler",)
"""Times of a framework with its copies and launches, not of the collective alone: scored, but not fitted."""


def measured_us(row: dict[str, str]) -> float | None:
    """Return the microseconds of a collective as measured, or as the bus bandwidth gives them; None without both."""
    if float(row["time_us"] or 0) > 0:
        return float(row["time_us"])
    if float(row["busbw_gbps"] or 0) > 0:
        return (
            wire_bytes(row["collective"], float(row["bytes"]), int(row["n_gpus"]))
            / float(row["busbw_gbps"])
            / 1e3
        )
    return None


def rows() -> list[dict[str, str]]:
    """Return every row that contains a measurement."""
    with (SHARED / "data" / "collectives_open.csv").open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if measured_us(row) is not None]


def platform(row: dict[str, str]) -> str:
    """Return the platform of a row, by which rows are grouped and left out of a fit."""
    return row["platform"]


def item(row: dict[str, str]) -> Item:
    """Return a row as an item of the fit."""
    measured = measured_us(row)
    assert measured is not None
    label = f"{row['case_id']} {row['platform'][:40]} x{row['n_gpus']} {row['collective']} {row['bytes']}"
    return Item(platform(row), lambda: predict_collective_row(row).time_us, measured, label)


def size_band(row: dict[str, str]) -> str:
    """Return the band of message sizes to which a row belongs, with its rank in front."""
    size = int(row["bytes"])
    return "1: below 256 KiB" if size < 2**18 else "2: below 32 MiB" if size < 2**25 else "3: from 32 MiB"


def line(name: str, found: list[float]) -> str:
    """Return one line about a group: number of rows, median error, p90 and bias."""
    errors = sorted(abs(math.expm1(value)) for value in found)
    bias = math.expm1(statistics.median(found))
    p90 = errors[int(0.9 * (len(errors) - 1))]
    return (
        f"{name[:60]:60s} n {len(found):4d} median {statistics.median(errors):6.1%} p90 {p90:6.1%} bias "
        f"{bias:+6.1%}"
    )


def show(
    title: str, items: list[dict[str, str]], found: list[float], key: Callable[[dict[str, str]], str]
) -> None:
    """Print one table, grouped by `key` of each row. Refused rows are left out."""
    groups: dict[str, list[float]] = collections.defaultdict(list)
    for row, value in zip(items, found, strict=True):
        if not math.isnan(value):
            groups[key(row)].append(value)
    print(f"-- {title}")
    for name, values in sorted(groups.items()):
        print(line(name, values))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--leave-one-out", action="store_true", help="repeat with each platform left out")
    parser.add_argument("--fit", action="store_true", help="fit the figures first")
    parser.add_argument("--write", action="store_true", help="rewrite the values in recipes/data/parameters")
    parser.add_argument("--worst", type=int, default=0)
    args = parser.parse_args()
    table = rows()
    items = [item(row) for row in table]
    fitted = [
        index for index, row in enumerate(table) if not any(name in row["platform"] for name in NOT_FITTED)
    ]
    values: dict[str, float] = {}
    if args.fit:
        values = fit([items[index] for index in fitted], PREFIX).values
        for name, value in sorted(values.items()):
            print(f"{name:48s} {value:.4g}")
    errors = residuals(items, values)
    known = [value for value in errors if not math.isnan(value)]
    for reason, count in collections.Counter(predict_collective_row(row).reason for row in table).items():
        if reason:
            print(f"{count:5d} {reason}")
    show("platform", table, errors, platform)
    show("collective", table, errors, lambda row: row["collective"])
    show("size", table, errors, size_band)
    print(line("ALL", known) + f"  refused {len(errors) - len(known)}")
    for value, one in sorted(
        zip(errors, items, strict=True), key=lambda pair: -abs(pair[0]) if pair[0] == pair[0] else 0
    )[: args.worst]:
        print(f"  {math.expm1(value):+7.0%} {one.label}")
    if args.leave_one_out:
        # a figure that only the left-out platform determines then has its prior
        priors = {row.id: row.prior for row in load_priors().values() if row.id.startswith(PREFIX)}
        left = leave_one_out([items[index] for index in fitted], PREFIX, priors, rounds=8)
        show("platform, each left out", [table[index] for index in fitted], left, platform)
        kept = sorted(value for value in left if not math.isnan(value))
        low, high = (math.exp(-kept[int(part * (len(kept) - 1))]) for part in (0.9, 0.1))
        print(
            line("ALL, each platform left out", kept) + f"  measured/predicted p10 {low:.2f} p90 {high:.2f}"
        )
    if args.write:
        write_values(values)
    return 0


if __name__ == "__main__":
    sys.exit(main())
