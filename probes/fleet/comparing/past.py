"""Compare a part with its own earlier runs."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from probes.base.units import percent, plural
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.comparing.limits import limit
from probes.fleet.comparing.series import Series, spread_of

Past = Mapping[tuple[str, str], Sequence[float]]
"""Medians of earlier runs, the oldest first, by metric and id of the part; larger is better."""


def slower_than_before(series: Series, past: Past) -> Iterator[FleetFinding]:
    """Yield parts that became slower, and one finding if the whole group did.

    If enough parts have a past, the median change of the group is subtracted first, so that an update that
    slows every node is one finding and not one for each node. Parts with fewer than `fewest_past_runs`
    earlier runs are left out.
    """
    changes = []
    for value in series.values:
        before = past.get((series.metric, value.part_id), ())
        if len(before) >= limit("fewest_past_runs") and (base := statistics.median(before)) > 0:
            changes.append((value, value.value / base - 1, len(before)))
    if not changes:
        return
    common = spread_of([change for _, change, _ in changes], centre_size=1.0)
    if len(changes) >= limit("fewest_peers"):
        yield from _common_mode(series, common.centre, len(changes))
    else:  # too few parts to know the change of the group
        common = common._replace(centre=0.0)
    for value, change, runs in changes:
        own = change - common.centre
        deviations = own / common.deviation
        if deviations < limit("slow_part_deviations") and own < -limit("history_share"):
            yield FleetFinding(
                kind="slower-than-before",
                subject=value.name,
                nodes=(value.node,),
                metric=series.metric,
                change=own,
                deviations=deviations,
                summary=f"{value.name} is {percent(-own)} slower than in {plural(runs, 'earlier run')}"
                + (f", beside the change of its group of {percent(common.centre)}" if common.centre else ""),
            )


def _common_mode(series: Series, centre: float, parts: int) -> Iterator[FleetFinding]:
    if centre < -limit("common_mode_share"):
        yield FleetFinding(
            kind="common-mode",
            subject=series.group_words,
            nodes=tuple(dict.fromkeys(value.node for value in series.values)),
            metric=series.metric,
            change=centre,
            summary=f"the median of {parts} parts became {percent(-centre)} slower: look for an update of "
            "driver, firmware or benchmark, not for bad nodes",
        )
