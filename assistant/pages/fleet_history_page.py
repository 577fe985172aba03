"""Show the stored measurements of a node or a part: one line per quantity, with a small curve."""

import datetime
import itertools
import statistics
from collections.abc import Sequence

from assistant.pages.blocks import Column, Page, Section, Table, section
from assistant.pages.fleet_page import change_words
from assistant.usecases.fleet.fleet_store import History, Point
from probes.base.units import percent, plural

_LEVELS = "▁▂▃▄▅▆▇█"
_MOST_POINTS = 40


def fleet_history_page(stored: History) -> Page:
    """Return the changes of state, then one line per quantity of each part."""
    return (_changes(stored), _measurements(stored.points))


def _changes(stored: History) -> Section:
    columns = (Column(fixed=True), Column(fixed=True), Column())
    rows = tuple(
        (f"{each.at:%Y-%m-%d %H:%M}", f"{each.before} -> {each.after}", change_words(each))
        for each in stored.changes
    )
    title = f"State: {stored.state.condition}" if stored.state is not None else ""
    return Section(title, (Table(columns, rows),)) if rows else section("", [])


def _measurements(points: Sequence[Point]) -> Section:
    """Return the table; points of one quantity of one part are neighbours, the oldest first."""
    rows = []
    for (metric, part_id), group in itertools.groupby(points, lambda point: (point.metric, point.part_id)):
        values = list(group)
        last, first = values[-1], values[0]
        since = datetime.datetime.fromtimestamp(first.at, datetime.timezone.utc).date()
        centre = statistics.median(point.value for point in values)
        rows.append(
            (
                last.slot or part_id,
                metric,
                _curve([point.value for point in values[-_MOST_POINTS:]]),
                f"{last.value:.4g} {last.unit}",
                f"{percent(last.value / centre - 1)} against the median" if centre else "",
                f"{plural(len(values), 'run')} since {since}",
            )
        )
    columns = (Column(fixed=True), Column(), Column(fixed=True), Column(fixed=True), Column(), Column())
    return Section("", (Table(columns, tuple(rows)),)) if rows else section("", [])


def _curve(values: Sequence[float]) -> str:
    """Return one block character per value; a higher block is a larger value."""
    low, high = min(values), max(values)
    if high == low:
        return _LEVELS[0] * len(values)
    span = high / 2 - low / 2  # halves, because the difference of two huge values overflows
    return "".join(_LEVELS[round((value / 2 - low / 2) / span * (len(_LEVELS) - 1))] for value in values)
