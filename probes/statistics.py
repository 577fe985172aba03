"""Statistics of samples: order statistics, an interval for the median, outliers among equals, comparison of two runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(samples: Sequence[float], fraction: float) -> float:
    """Linear interpolation between order statistics; `fraction` from 0 to 1. Raises ValueError without samples."""
    if not samples:
        raise ValueError("a quantile needs samples")
    ordered = sorted(samples)
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
