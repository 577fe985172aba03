"""Show what checks cost and save, for jobs of several sizes."""

from collections.abc import Sequence

from assistant.pages.blocks import Column, Page, Section, Table, section
from probes.base.units import plural
from probes.fleet.check_schedule import JobSchedule, Payoff, load_check_kinds


def fleet_schedule_page(jobs: Sequence[JobSchedule]) -> Page:
    """Return one table per job size: node-hours per 1 000 node-days for the check and for what it misses."""
    titles = {"none": "no check", **{kind.id: kind.title for kind in load_check_kinds()}}
    pages = [
        section("", ["Node-hours per 1 000 node-days: time for the check, and time that jobs still lose"])
    ]
    for job in jobs:
        cheapest = min(job.costs, key=lambda cost: cost.total)
        rows = tuple(
            (
                titles[cost.check_id],
                f"{cost.check_cost:.0f}",
                f"{cost.remaining_loss:.0f}",
                f"{cost.total:.0f}",
                _advice(cost, cheapest, job.best_interval_h),
            )
            for cost in job.costs
        )
        columns = (Column(), *(Column(fixed=True) for _ in range(3)), Column())
        head = (("check", "for checks", "still lost", "sum", ""), *rows)
        pages.append(Section(f"Jobs of {plural(job.job_nodes, 'node')}", (Table(columns, head),)))
    return tuple(pages)


def _advice(cost: Payoff, cheapest: Payoff, best_h: dict[str, float]) -> str:
    best = best_h.get(cost.check_id)
    words = f"best every {best:.0f} h" if best is not None and best < 1e5 else ""
    return ", ".join(filter(None, ("cheapest" if cost is cheapest else "", words)))
