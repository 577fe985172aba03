"""Detect rates that collapse for larger messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from probes.compare.tool_references import load_references

Point = TypeVar("Point")


class Collapse(NamedTuple, Generic[Point]):
    """The largest drop of a curve."""

    peak: Point
    low: Point
    share: float
    """Rate of the low point over the peak before it."""

    @property
    def fails(self) -> bool:
        return self.share < load_references().collapse.fail_fraction


def collapse_of(points: Sequence[tuple[float, float, Point]]) -> Collapse[Point] | None:
    """Return the larger message whose rate drops furthest below that of a smaller message.

    None without a drop. Points are bytes, rate, and the caller's own identification of the point.
    """
    rule = load_references().collapse
    best: tuple[float, Point] | None = None
    worst: Collapse[Point] | None = None
    for size_bytes, rate, point in sorted(points, key=lambda entry: entry[0]):
        if size_bytes < rule.smallest_bytes:
            continue
        if best is None or rate > best[0]:
            best = (rate, point)
        elif best[0] > 0:
            share = rate / best[0]
            if share < rule.warn_fraction and (worst is None or share < worst.share):
                worst = Collapse(best[1], point, share)
    return worst
