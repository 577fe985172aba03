"""Compare a part with the same parts of other nodes."""

import bisect
import statistics
from collections.abc import Iterator, Sequence
from itertools import accumulate

from probes.base.units import percent, plural
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.comparing.limits import limit
from probes.fleet.comparing.series import Series, Spread, Value, spread_of

_POOL_POINTS = 512
"""Samples of a group that represent its distribution."""
_SMALLEST_HUMP = 0.1
"""Smallest share of a group that counts as a hump rather than as some outliers."""


def slow_parts(series: Series) -> Iterator[FleetFinding]:
    """Yield parts that are slower than their peers, parts that need a retest, slow bursts, and two humps.

    A group of fewer than `fewest_peers` parts is not judged, and yields one finding that states this.
    """
    values = [value.value for value in series.values]
    if len(values) < limit("fewest_peers"):
        yield FleetFinding(
            kind="few-peers",
            subject=series.group_words,
            nodes=tuple(dict.fromkeys(value.node for value in series.values)),
            metric=series.metric,
            summary=f"too few peers for a comparison ({plural(len(values), 'part')}); only the catalogue and "
            "the parts' own past judge them",
        )
        return
    spread = spread_of(values)
    if spread.centre <= 0:  # most parts report no rate at all, so that none has peers
        return
    yield from two_humps(series, values)
    bursts = _bursts(series, spread)
    for value in series.values:
        change, deviations = value.value / spread.centre - 1, spread.deviations(value.value)
        is_slow = deviations < limit("suspect_part_deviations") and change < -limit("slow_part_share")
        if is_slow:
            is_sure = deviations < limit("slow_part_deviations")
            yield FleetFinding(
                kind="slow-part" if is_sure else "suspect-part",
                subject=value.name,
                nodes=(value.node,),
                metric=series.metric,
                change=change,
                deviations=deviations,
                summary=f"{value.name} is {percent(-change)} slower than the median of {len(values)} peers"
                + ("" if is_sure else "; measure it again before you act"),
            )
        elif value.part_id in bursts:
            area = bursts[value.part_id]
            yield FleetFinding(
                kind="bursts",
                subject=value.name,
                nodes=(value.node,),
                metric=series.metric,
                change=-area,
                summary=f"{value.name} is slow in bursts: its median is like its peers', but its samples "
                f"are {percent(area)} slower on average",
            )


def can_judge(series: Series) -> bool:
    """Return whether a slow part can be distinguished from the fit parts of a group."""
    values = [value.value for value in series.values]
    return (
        len(values) >= limit("fewest_peers")
        and statistics.median(values) > 0
        and not any(two_humps(series, values))
    )


def _bursts(series: Series, spread: Spread) -> dict[str, float]:
    """Return the parts whose samples are slower than those of the group, with the area between both.

    The area between two survival curves is the mean difference of their quantiles. Samples are divided by
    the median of their part, so that a part that is slow all the time is not counted here. The result is
    empty if the medians of the group scatter too much.
    """
    fewest = limit("fewest_burst_samples")
    able = [value for value in series.values if len(value.samples) >= fewest and value.value > 0]
    if not able:
        return {}
    pool = sorted(sample / value.value for value in able for sample in value.samples)
    pool = pool[:: max(1, len(pool) // _POOL_POINTS)]
    areas = {value.part_id: area for value in able if (area := _area(value, pool)) > limit("burst_area")}
    return areas if spread.deviation < spread.centre else {}


def _area(value: Value, pool: Sequence[float]) -> float:
    """Return the mean of (quantile of the pool minus quantile of the part), in parts of the median."""
    ordered = sorted(sample / value.value for sample in value.samples)
    size = len(ordered)
    pooled = (pool[min(len(pool) - 1, int((rank + 0.5) / size * len(pool)))] for rank in range(size))
    return sum(theirs - own for own, theirs in zip(ordered, pooled, strict=True)) / size


def two_humps(series: Series, values: Sequence[float]) -> Iterator[FleetFinding]:
    """Yield a finding if the values of the group form two humps, of which a median shows only one.

    The split with the largest variance between both parts (Otsu) is taken; both parts must be narrow.
    """
    ordered = sorted(values)
    size, sums = len(ordered), list(accumulate(ordered))
    total = sums[-1]

    def between(cut: int) -> float:
        low, high = sums[cut - 1] / cut, (total - sums[cut - 1]) / (size - cut)
        return cut * (size - cut) * (high - low) ** 2

    cut = max(range(1, size), key=between)
    low, high = ordered[:cut], ordered[cut:]
    if min(len(low), len(high)) < _SMALLEST_HUMP * size:
        return
    first, second = spread_of(low), spread_of(high)
    distance = second.centre - first.centre
    share = distance / second.centre
    if share < limit("humps_distance") or distance < 4 * (first.deviation + second.deviation):
        return
    border = ordered[bisect.bisect_right(ordered, low[-1]) - 1]
    slower = tuple(dict.fromkeys(value.node for value in series.values if value.value <= border))
    yield FleetFinding(
        kind="two-humps",
        subject=series.group_words,
        nodes=slower,
        metric=series.metric,
        change=-share,
        summary=f"{percent(len(low) / size)} of the parts are {percent(share)} slower than the others: two "
        "kinds of parts in one group, or a fault of many nodes, which medians cannot see",
    )


def node_medians(series: Series) -> dict[str, float]:
    """Return the median over the parts of each node."""
    nodes: dict[str, list[float]] = {}
    for value in series.values:
        nodes.setdefault(value.node, []).append(value.value)
    return {node: statistics.median(values) for node, values in nodes.items()}
