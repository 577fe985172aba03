"""Rates by message size: do larger messages collapse?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from probes.compare.tool_references import load_references

Point = TypeVar("Point")


class Collapse(NamedTuple, Generic[Point]):
    """The worst fall of a curve."""

    peak: Point
    low: Point
    share: float
    """Of the low point over the peak before it."""

    @property
    def fails(self) -> bool:
        return self.share < load_references().collapse.fail_fraction


def collapse_of(points: Sequence[tuple[float, float, Point]]) -> Collapse[Point] | None:
    """The larger message that falls furthest below a smaller one; None where none falls far. Points are
    bytes, rate, and whatever the caller knows them by.
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
