"""Local SGD: replicas train alone for some steps and then average their weights."""

import msgspec

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Unknown
from probes.base.units import duration, gib
from recipes.planning.plan import Plan
from recipes.planning.planner import make_plan
from recipes.predict.speed.collectives import Group, collective_time_s, world_group
from recipes.strategies.strategy_table import Strategy
from recipes.strategies.verdicts import (
    Situation,
    Verdict,
    copying_s,
    inapplicable,
    missing_setting,
    saving,
    trained_parameters,
    undecided,
)


def averaged_seldom(strategy: Strategy, here: Situation) -> Verdict:
    """Judge replicas that average their weights once in `period` steps.

    The step of a replica is predicted as usual. No computation hides the averaging, whose time is spread
    evenly over the steps of a period.
    """
    if isinstance(here.total_s, Unknown):
        return undecided(strategy, here, here.total_s)
    if here.cluster.world_size == 1:
        return inapplicable(strategy, here, "there is one rank, so nothing is averaged")
    if missing := missing_setting(strategy, here):
        return inapplicable(strategy, here, missing)
    return _of_nodes(strategy, here) if strategy.replica == "node" else _of_ranks(strategy, here)


def _of_ranks(strategy: Strategy, here: Situation) -> Verdict:
    """Judge ranks that train alone, each with the whole model."""
    if not here.is_plain:
        layout = here.plan.chosen.strategy
        return inapplicable(
            strategy, here, f"every rank must train the whole model alone, and the plan is {layout}"
        )
    parameters = trained_parameters(here.job)
    size = strategy.figure("sent_bytes") * parameters
    average = collective_time_s("all_reduce", size, world_group(here.cluster), here.cluster)
    average += copying_s(strategy.figure("moved_bytes") * parameters, here.cluster)
    return _verdict(strategy, here, 0.0, average, size)


def _of_nodes(strategy: Strategy, here: Situation) -> Verdict:
    """Judge nodes that train alone, each with its own layout; ranks with the same shard average it."""
    nodes = here.cluster.nodes
    if nodes == 1:
        return inapplicable(strategy, here, "there is one node, and links inside a node are fast")
    inside = plan_of_one_node(here, strategy.layout)
    if isinstance(inside, str):
        return inapplicable(strategy, here, f"a node cannot train alone: {inside}")
    alone = Situation(inside, here.facts)
    parts = 1 if alone.is_plain else here.cluster.ranks_per_node
    # If every rank has the whole model, all ranks average it in one ring.
    group = world_group(here.cluster) if parts == 1 else Group(ranks=nodes, nodes=nodes)
    degrees = inside.chosen.degrees
    whole = trained_parameters(alone.job) * degrees.tp * degrees.pp
    size = strategy.figure("sent_bytes") * whole
    average = collective_time_s("all_reduce", size / parts, group, here.cluster)
    average += copying_s(strategy.figure("moved_bytes") * whole / parts, here.cluster)
    if isinstance(alone.total_s, Unknown):
        return undecided(strategy, here, alone.total_s)
    slower = alone.total_s - (float(here.total_s) - here.exposed_s)  # type: ignore[arg-type]
    return _verdict(strategy, here, slower, average, size)


def plan_of_one_node(here: Situation, layout: str = "") -> Plan | str:
    """Return the plan of one node with its part of the batch, or the reason why there is none."""
    cluster, workload = here.cluster, here.plan.workload
    if workload.global_batch % cluster.nodes:
        return f"{cluster.nodes} nodes cannot share a global batch of {workload.global_batch}"
    alone = msgspec.structs.replace(cluster, nodes=1, domain_ranks=None)
    part = msgspec.structs.replace(workload, global_batch=workload.global_batch // cluster.nodes)
    pins = msgspec.structs.replace(here.pins, strategy=layout) if layout else here.pins
    try:
        return make_plan(part, alone, here.facts, pins, program=here.program, headroom=here.headroom)
    except (NoFeasiblePlanError, UsageError) as error:
        return str(error)


def _verdict(strategy: Strategy, here: Situation, rest_s: float, average_s: float, size: float) -> Verdict:
    """Return the verdict; `rest_s` is the exposed communication in a replica's own step."""
    period = strategy.figure("period")
    because = (
        f"replicas average {gib(size)} of weights every {period:g} steps: {duration(average_s)}, "
        f"{duration(average_s / period)} of each step"
    )
    return saving(strategy, here, here.exposed_s - rest_s - average_s / period, because)
