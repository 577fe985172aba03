"""Print the table of predicted and measured runs, and the median errors."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from probes.base.units import MIB

TIME_BAR, MEMORY_BAR = 0.15, 0.08
"""Median errors that the predictions have to stay below."""


class Row(NamedTuple):
    """One line of the table."""

    name: str
    differs: str
    predicted_s: float | None
    measured_s: float
    predicted_bytes: float
    measured_bytes: float
    disturbed: bool
    """True if other programs used more of the CPUs than is allowed for a quiet run."""

    @property
    def time_error(self) -> float | None:
        return None if self.predicted_s is None else self.predicted_s / self.measured_s - 1

    @property
    def memory_error(self) -> float:
        return self.predicted_bytes / self.measured_bytes - 1


def report(rows: Sequence[Row], title: str) -> bool:
    """Print the table; return True if every step time was predicted and both medians are below their bars."""
    columns = f"{'predicted':>11} {'measured':>11} {'error':>7}"
    print(f"\n{title}\n{'run':22} {columns} {columns}  differs")
    for row in rows:
        time_words = "unknown" if row.predicted_s is None else f"{row.predicted_s * 1e3:.1f} ms"
        error_words = "" if row.time_error is None else f"{row.time_error:+.1%}"
        print(
            f"{row.name:22} {time_words:>11} {row.measured_s * 1e3:>8.1f} ms {error_words:>7} "
            f"{row.predicted_bytes / MIB:>7.1f} MiB {row.measured_bytes / MIB:>7.1f} MiB "
            f"{row.memory_error:>+7.1%}"
            f"  {row.differs}{' (disturbed)' if row.disturbed else ''}"
        )
    quiet = [row for row in rows if not row.disturbed]
    memory = [abs(row.memory_error) for row in rows]
    good = tell("step time", times_of(rows), TIME_BAR) and len(times_of(rows)) == len(rows)
    if len(quiet) < len(rows):
        tell("step time of the undisturbed", times_of(quiet), TIME_BAR)
    return tell("peak memory of tensors", memory, MEMORY_BAR) and good


def times_of(rows: Sequence[Row]) -> list[float]:
    return [abs(row.time_error) for row in rows if row.time_error is not None]


def tell(name: str, errors: Sequence[float], bar: float) -> bool:
    """Print the median; return True if it is below the bar."""
    if not errors:
        print(f"{name}: nothing to compare")
        return False
    median = statistics.median(errors)
    print(
        f"{name}: median error {median:.1%} (bar {bar:.0%}), largest {max(errors):.1%}, over {len(errors)} "
        "runs"
    )
    return median < bar
