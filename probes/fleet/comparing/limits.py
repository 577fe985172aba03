"""Limits of the comparison of nodes, with their source."""

import functools

from probes.base.record import StrictRecord
from probes.base.rows import load_rows


class FleetLimit(StrictRecord, kw_only=True):
    """One limit of `probes/data/fleet_limits.toml`."""

    id: str
    value: float
    unit: str
    why: str
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def fleet_limits() -> dict[str, FleetLimit]:
    """Return all limits by id."""
    return {row.id: row for row in load_rows("probes", "limits", FleetLimit, file="fleet_limits")}


def limit(name: str) -> float:
    """Return the value of a limit."""
    return fleet_limits()[name].value
