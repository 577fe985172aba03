"""Layouts that the search already compares, programs' own names for them, and DataParallel."""

import msgspec

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Unknown
from probes.base.units import duration, gib, percent, plural
from recipes.constants import constant
from recipes.job.pins import Pins
from recipes.job.workload import Workload
from recipes.planning.layout_words import describe
from recipes.planning.plan import Plan
from recipes.planning.planner import make_plan
from recipes.planning.programs import Program, program_named
from recipes.predict.speed.collectives import Group, collective_time_s
from recipes.strategies.strategy_table import Strategy
from recipes.strategies.verdicts import (
    Situation,
    Verdict,
    chosen,
    inapplicable,
    judged,
    missing_setting,
    trained_parameters,
    undecided,
)

_DEGREES = ("tp", "pp", "cp", "ep")
_DIVIDING = "torch"
"""Program whose plan is shown if the user's own program cannot apply the strategy's degree of parallelism."""


def searched_layout(strategy: Strategy, here: Situation) -> Verdict:
    """Judge a layout by the best plan that uses this layout."""
    plan = here.plan
    uses = (
        getattr(plan.chosen.degrees, strategy.layout) > 1
        if strategy.layout in _DEGREES
        else plan.chosen.strategy == strategy.layout
    )
    if uses:
        return chosen(strategy, here, describe(plan.chosen))
    workload = plan.workload
    if here.cluster.world_size == 1:
        return inapplicable(strategy, here, "there is one rank, which shares nothing")
    if strategy.layout == "ep" and not (isinstance(workload, Workload) and workload.model.is_moe):
        return inapplicable(strategy, here, f"{workload.model.id} has no experts")
    tried = [_planned(pins, here, here.program) for pins in _pins(strategy, here)]
    best = _fastest(tried)
    if best is None:
        return inapplicable(strategy, here, *_refusals(strategy, here, tried))
    return _compared(strategy, here, best)


def _compared(strategy: Strategy, here: Situation, best: Plan) -> Verdict:
    before, after = here.total_s, best.chosen.predicted.step_time_s.total
    layout = describe(best.chosen)
    if isinstance(before, Unknown) or isinstance(after, Unknown):
        return undecided(strategy, here, f"{layout} fits, but its step time is unknown")
    gain = 1 - after / before
    words = f"{percent(-gain)} longer" if gain < 0 else f"{percent(gain)} shorter"
    return judged(
        strategy, here, gain, after, (f"best plan with it: {layout}, {duration(after)} per step, {words}",)
    )


def _refusals(strategy: Strategy, here: Situation, tried: list[Plan | str]) -> tuple[str, ...]:
    """Return why there is no plan, and the plan of another program that supports the strategy."""
    reasons = [row for row in tried if isinstance(row, str)]
    why = reasons[0] if reasons else f"none of its possible sizes divides {here.cluster.world_size} ranks"
    if strategy.layout not in _DEGREES:
        why = missing_setting(strategy, here) or why
    other = program_named(_DIVIDING)
    if here.program.id != "own" or strategy.layout not in _DEGREES:
        return (why,)
    best = _fastest([_planned(pins, here, other) for pins in _pins(strategy, here)])
    before = here.total_s
    if best is None or isinstance(before, Unknown):
        return (why,)
    after = best.chosen.predicted.step_time_s.total
    if isinstance(after, Unknown):
        return (why,)
    words = (
        f"in {other.title}: {describe(best.chosen)}, {duration(after)} per step against {duration(before)}"
    )
    what = {"cp": "sequences", "ep": "experts"}.get(strategy.layout, "layers")
    return (f"{here.program.title} does not divide {what}", words)


def _pins(strategy: Strategy, here: Situation) -> list[Pins]:
    """Return the pins for each size of the strategy."""
    if strategy.layout not in _DEGREES:
        return [msgspec.structs.replace(here.pins, strategy=strategy.layout)]
    ranks = here.cluster.world_size
    sizes = [2**power for power in range(1, ranks.bit_length()) if ranks % 2**power == 0]
    return [msgspec.structs.replace(here.pins, **{strategy.layout: size}) for size in sizes]


def _planned(pins: Pins, here: Situation, program: Program) -> Plan | str:
    plan, headroom = here.plan, here.headroom
    if headroom is None and plan.cluster.device == "cuda":
        # A layout that fits only without the default headroom is no alternative to a plan with this headroom.
        room, needed = plan.cluster.memory_bytes_per_rank, plan.chosen.predicted.memory_bytes_per_gpu.needed
        default = constant("memory_headroom")
        headroom = default if room is not None and needed <= room.value * (1 - default) else None
    try:
        return make_plan(plan.workload, plan.cluster, here.facts, pins, program=program, headroom=headroom)
    except (NoFeasiblePlanError, UsageError) as error:
        return str(error)


def _fastest(tried: list[Plan | str]) -> Plan | None:
    plans = [plan for plan in tried if isinstance(plan, Plan)]
    times = [plan.chosen.predicted.step_time_s.total for plan in plans]
    known = [(time, index) for index, time in enumerate(times) if not isinstance(time, Unknown)]
    if not known:
        return plans[0] if plans else None
    return plans[min(known)[1]]


def own_name(strategy: Strategy, here: Situation) -> Verdict:
    """Judge a strategy of one program by its condition: the program, and the number of nodes."""
    if missing := missing_setting(strategy, here):
        return inapplicable(strategy, here, missing)
    nodes, ranks = here.cluster.nodes, here.cluster.world_size
    if ranks == 1:
        return inapplicable(strategy, here, "there is one rank")
    if (nodes == 1) != (strategy.nodes == "one"):
        wanted = "one node" if strategy.nodes == "one" else "several nodes"
        return inapplicable(strategy, here, f"it is for {wanted}, and the plan uses {plural(nodes, 'node')}")
    where = f"{ranks} ranks on {plural(nodes, 'node')}"
    return chosen(strategy, here, f"the program's name for data parallelism over {where}")


def in_one_process(strategy: Strategy, here: Situation) -> Verdict:
    """Judge one process for all GPUs of a node, which copies the weights to each GPU in every step."""
    cluster = here.cluster
    if missing := missing_setting(strategy, here):
        return inapplicable(strategy, here, missing)
    if cluster.nodes > 1:
        return inapplicable(strategy, here, f"one process cannot use the GPUs of {cluster.nodes} nodes")
    if cluster.world_size == 1:
        return inapplicable(strategy, here, "there is one GPU")
    if not here.is_plain:
        layout = here.plan.chosen.strategy
        return inapplicable(strategy, here, f"every GPU must hold the whole model, and the plan is {layout}")
    if isinstance(here.total_s, Unknown):
        return undecided(strategy, here, here.total_s)
    size = strategy.figure("sent_bytes") * trained_parameters(here.job)
    group = Group(ranks=cluster.world_size, nodes=1)
    each = collective_time_s("broadcast", size, group, cluster) * here.plan.chosen.grad_accum
    longer = each / here.total_s
    because = (
        f"every forward pass copies {gib(size)} of weights to {plural(cluster.world_size - 1, 'GPU')}: "
        f"{duration(each)} per step, {percent(longer)} more than DDP",
        "one Python process starts the kernels of all GPUs, and the first GPU gathers all outputs",
    )
    return judged(strategy, here, -longer, here.total_s + each, because)
