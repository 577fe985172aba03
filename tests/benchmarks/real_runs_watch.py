"""Measure the CPU time of other programs during a measurement, and choose the least disturbed attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from probes.facts.measurements import MeasurementSet

QUIET_SHARE = 0.05
"""Part of all CPUs that other programs may use; a measurement with more is tried again."""
T = TypeVar("T")


def least_disturbed(measure: Callable[[], T], share_of: Callable[[T], float], attempts: int) -> T:
    """Return the first quiet attempt of several, at least one, or else the least disturbed attempt."""
    best = measure()
    for _ in range(attempts - 1):
        if share_of(best) <= QUIET_SHARE:
            break
        best = min(best, measure(), key=share_of)
    return best


def disturbance(made: MeasurementSet) -> float:
    """Return the largest share of the CPUs that other programs took during a measurement; 1 if none exists."""
    shares = [float(one.conditions.get("others_cpu_share", 0.0)) for one in made.measurements]
    return max(shares, default=1.0)
