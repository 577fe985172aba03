"""The program that would train a job fastest on a machine, compared with the program of a plan."""

import msgspec

from probes.base.record import Unknown
from recipes.constants import constant
from recipes.job.pins import Pins
from recipes.job.workload import Workload
from recipes.machine.cluster_records import Cluster
from recipes.planning.examined import Examined
from recipes.planning.layout_words import short_words
from recipes.planning.plan import OWN_PROGRAM, FastestProgram, Plan
from recipes.planning.planner import request_of
from recipes.planning.programs import REFERENCE_PROGRAM, Program, load_programs, trains
from recipes.planning.search import search

_NOT_COMPARED = (REFERENCE_PROGRAM, OWN_PROGRAM, "torch")
"""Programs that are never suggested: rigtune's own workload, and two ways to write a torch program."""


def fastest_program(
    workload: Workload,
    cluster: Cluster,
    pins: Pins,
    *,
    headroom: float | None = None,
    own_s: float,
    own: str = OWN_PROGRAM,
) -> FastestProgram | None:
    """Return the fastest program, or the plan's own (a step of `own_s` seconds) if no other beats it clearly.

    The comparison uses the same job, pins and memory, and of each program only the layouts that usually win:
    the program is at least as fast as the answer states. None if the memory of the machine is unknown.
    """
    room = cluster.memory_bytes_per_rank
    if room is None:
        return None
    allowed = room.value * (1 - (constant("memory_headroom") if headroom is None else headroom))
    limit = own_s / (1 + constant("layout_tie"))
    best: tuple[Program, Examined] | None = None
    rows = [row for row in _distinct() if row.runs_on(cluster) and trains(row, workload)]
    rows = [row for row in rows if row.id != own]
    for row in rows:
        request = request_of(workload, cluster, row, pins)._replace(is_coarse=True)
        result = search(request, lambda needed: needed > allowed, alternatives=0, limit_s=limit)
        if result.ranked and result.ranked[0].seconds < limit:
            best, limit = (row, result.ranked[0]), result.ranked[0].seconds
    compared = tuple(row.id for row in rows)
    if best is None:
        title = load_programs()[own].title
        return FastestProgram(program=own, title=title, step_time_s=own_s, speed_up=0.0, compared=compared)
    row, member = best
    return FastestProgram(
        program=row.id,
        title=row.title,
        layout=short_words(member.candidate),
        step_time_s=member.seconds,
        speed_up=own_s / member.seconds - 1,
        compared=compared,
    )


def with_fastest_program(plan: Plan, cluster: Cluster, pins: Pins, headroom: float | None) -> Plan:
    """Return the plan with the program that trains its job fastest on the cluster."""
    step = plan.chosen.predicted.step_time_s.total
    if isinstance(step, Unknown) or not isinstance(plan.workload, Workload):
        return plan
    own = plan.chosen.program
    fastest = fastest_program(plan.workload, cluster, pins, headroom=headroom, own_s=step, own=own)
    return msgspec.structs.replace(plan, fastest_program=fastest)


def _distinct() -> list[Program]:
    """Return one program for each set of abilities, in the order of the search.

    The order saves time: a fast layout of one program excludes most layouts of the next.
    """
    rows: dict[object, Program] = {}
    for row in load_programs().values():
        if row.id not in _NOT_COMPARED:
            abilities = msgspec.structs.replace(
                row, id="", title="", stacks=(), words=(), settings={}, source="", date=""
            )
            rows.setdefault(msgspec.json.encode(abilities), row)
    return sorted(rows.values(), key=search_order)


def search_order(row: Program) -> tuple[bool, bool, int]:
    """Return a key that puts programs with many layouts last, and those that divide matrices first."""
    return "zero3" in row.pipeline_shardings, not row.tensor, len(row.pipeline_shardings)
