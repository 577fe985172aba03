"""Compute how often to run each check, from the time that checks take and the time that slow parts cost.

A slow part is present for a while before a check finds it. With a check every T hours it is found after T/2
on average. The cost per node and hour is duration/T for the check and rate x J x loss x finds x T/2 for the
wait, where J is the number of nodes of a job and `finds` is the share of slow parts that the check finds. The
cost is smallest at T = sqrt(2 x duration / (rate x J x loss x finds)), as for checkpoints (Young 1974).
"""

import functools
import math
from collections.abc import Iterable
from functools import partial

import msgspec

from probes.base.record import Record, StrictRecord
from probes.base.rows import load_rows
from probes.fleet.comparing.limits import limit

_NODE_HOURS = 24_000.0
"""Hours of 1 000 node-days."""


class CheckKind(StrictRecord, kw_only=True):
    """One kind of check: how long it occupies a node, and which share of the slow parts it finds."""

    id: str
    title: str
    duration_h: float
    usual_interval_h: float
    finds: float
    """Share of the slow parts that the check finds."""
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_check_kinds() -> tuple[CheckKind, ...]:
    """Return the rows of `probes/data/fleet_checks.toml`."""
    return load_rows("probes", "checks", CheckKind, file="fleet_checks")


class Site(Record, kw_only=True):
    """The site's failure rate and jobs."""

    slow_per_1000_node_days: float = msgspec.field(
        default_factory=partial(limit, "slow_parts_per_1000_node_days")
    )
    """Parts that become slow, per 1 000 nodes and day."""
    loss: float = msgspec.field(default_factory=partial(limit, "slow_part_loss"))
    """Share of its speed that a job loses to one slow part."""
    by_hand_h: float = msgspec.field(default_factory=partial(limit, "found_by_hand_h"))
    """Hours until people find a slow part without checks."""
    job_nodes: int = 128

    @property
    def lost_per_hour(self) -> float:
        """Return the node-hours that jobs lose per node-hour of the site and hour that slow parts stay."""
        return self.slow_per_1000_node_days / _NODE_HOURS * self.job_nodes * self.loss


class Payoff(Record, kw_only=True):
    """One check at one interval. All costs are node-hours per 1 000 node-days."""

    check_id: str
    interval_h: float | None
    """Hours between two checks; None for the row without a check."""
    check_cost: float
    remaining_loss: float

    @property
    def total(self) -> float:
        return self.check_cost + self.remaining_loss


def best_interval_h(check: CheckKind, site: Site) -> float:
    """Return the interval with the smallest total cost, in hours; infinite if nothing becomes slow."""
    rate = site.lost_per_hour * check.finds
    return math.sqrt(2 * check.duration_h / rate) if rate > 0 else math.inf


def payoff_without_check(site: Site) -> Payoff:
    """Return the costs if people find all slow parts by hand."""
    loss = site.lost_per_hour * _NODE_HOURS * site.by_hand_h
    return Payoff(check_id="none", interval_h=None, check_cost=0.0, remaining_loss=loss)


def payoff(check: CheckKind, interval_h: float, site: Site) -> Payoff:
    """Return the costs of a check at an interval; people find the other slow parts by hand."""
    per_hour = site.lost_per_hour * _NODE_HOURS
    waits_h = min(interval_h / 2, site.by_hand_h)
    return Payoff(
        check_id=check.id,
        interval_h=interval_h,
        check_cost=check.duration_h / interval_h * _NODE_HOURS,
        remaining_loss=per_hour * (check.finds * waits_h + (1 - check.finds) * site.by_hand_h),
    )


class JobSchedule(Record, kw_only=True):
    """Costs and best intervals of each kind of check for jobs of one size."""

    job_nodes: int
    costs: tuple[Payoff, ...]
    """Costs without a check, then with each kind of check at its usual interval."""
    best_interval_h: dict[str, float]


class Schedule(Record, kw_only=True):
    """Costs and best intervals of all checks; the JSON output of `rigtune fleet schedule`."""

    schema_version: int = 1
    jobs: tuple[JobSchedule, ...]


def schedule_of(sites: Iterable[Site]) -> Schedule:
    """Return the costs of all kinds of checks for sites that differ in the size of their jobs."""
    kinds = load_check_kinds()
    return Schedule(
        jobs=tuple(
            JobSchedule(
                job_nodes=site.job_nodes,
                costs=(
                    payoff_without_check(site),
                    *(payoff(kind, kind.usual_interval_h, site) for kind in kinds),
                ),
                best_interval_h={kind.id: best_interval_h(kind, site) for kind in kinds if kind.duration_h},
            )
            for site in sites
        )
    )
