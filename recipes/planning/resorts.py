"""The plan that a user gets: the program's best layout, or a last resort if there is none.

A last resort is tried only if all earlier rounds have no plan: another program or fewer GPUs, then optimizer
states in the host's memory, then weights there too. A warning states what was done. If no resort helps, the
error names the smallest changes that do.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Unknown
from probes.base.units import gib
from probes.facts import MachineFacts
from recipes.constants import constant
from recipes.job.candidate import Offload
from recipes.job.pins import Pins
from recipes.job.workload import Workload
from recipes.machine.cluster_records import Cluster
from recipes.planning.changes import Asked, helpful_changes
from recipes.planning.plan import Plan
from recipes.planning.planner import make_plan, missing_rate, with_reasons
from recipes.planning.program_comparison import search_order
from recipes.planning.programs import OWN, Program, load_programs, program_named, trains
from recipes.planning.refusals import NoLayoutError
from recipes.settings.setting import NOTHING_STATED, Stated


class _Attempt(NamedTuple):
    """One way to plan the job if the requested way has no plan."""

    program: Program
    cluster: Cluster
    offload: Offload | None = None


def best_plan(
    workload: Workload,
    cluster: Cluster,
    facts: MachineFacts,
    pins: Pins,
    *,
    program: Program | None = None,
    headroom: float | None = None,
    stated: Stated = NOTHING_STATED,
    chosen_only: bool = False,
) -> Plan:
    """Return the best plan of the program, or of the first round of last resorts that has a plan.

    `program` is None if the user names none: the plan is then for the user's own torch program, or for
    another program if the user's program has no plan. `chosen_only` is that of `make_plan`. Raises
    UsageError and NoFeasiblePlanError as `make_plan` does.
    """
    base = program or program_named(OWN)

    def planned(attempt: _Attempt, limit_s: float | None = None, *, chosen_only: bool) -> Plan:
        return make_plan(
            workload,
            attempt.cluster,
            facts,
            pins,
            program=attempt.program,
            headroom=headroom,
            offload=attempt.offload,
            stated=stated,
            chosen_only=chosen_only,
            limit_s=limit_s,
        )

    try:
        return planned(_Attempt(base, cluster), chosen_only=chosen_only)
    except (NoFeasiblePlanError, NoLayoutError) as error:
        problem = error
    # Without a learning rate every resort would be refused: find out whether memory is missing as well.
    rate = missing_rate(workload, cluster, pins, base, stated)
    pins = pins if rate is None else msgspec.structs.replace(pins, learning_rate=_ANY_RATE)
    for attempts in _rounds(workload, cluster, pins, base, may_switch=program is None):
        plans = _possible(attempts, partial(planned, chosen_only=True), facts)
        if plans and rate is not None:
            raise rate
        if plans:
            limit = min(map(_step_s, plans)) * (1 + constant("layout_tie"))
            plan = next(plan for plan in plans if _step_s(plan) <= limit)
            if not chosen_only:
                plan = with_reasons(plan, facts, pins, headroom=headroom, stated=stated)
            warnings = (*plan.warnings, *_warnings(plan, cluster, base, problem))
            return msgspec.structs.replace(plan, warnings=warnings)
    if isinstance(problem, NoFeasiblePlanError) and cluster.memory_bytes_per_rank is not None:
        changes = helpful_changes(
            Asked(workload, cluster, pins, base, headroom, None if stated.batch_is_given else stated)
        )
        also = () if rate is None else (f"also, {rate.message}: {rate.hint}",)
        raise NoFeasiblePlanError(str(problem), "; ".join((*(changes or (_NOTHING_HELPS,)), *also)))
    raise problem


def _possible(
    attempts: Sequence[_Attempt], planned: Callable[[_Attempt, float], Plan], facts: MachineFacts
) -> list[Plan]:
    """Return the plans of those attempts that have one for which the host's memory suffices.

    Plans that are clearly slower than another one are left out. The plans have the order of the attempts, but
    the searches have another order to save time: the plan of one program excludes most layouts of the next.
    """
    plans: dict[int, Plan] = {}
    # Both the choice among programs and the choice of a safe or simple layout allow for ties.
    limit, tie = math.inf, 1 + max(constant("layout_tie"), constant("safe_layout_tie"))
    for index, attempt in sorted(enumerate(attempts), key=lambda each: search_order(each[1].program)):
        try:
            plan = planned(attempt, limit)
        except (NoFeasiblePlanError, UsageError):
            continue
        if plan.chosen.host_bytes_per_node <= host_limit(facts, attempt.cluster):
            plans[index] = plan
            limit = min(limit, (_step_s(plan) or math.inf) * tie**3)
    return [plans[index] for index in sorted(plans)]


_ANY_RATE = 1e-4
"""Learning rate of attempts whose plans are not shown."""
_NOTHING_HELPS = (
    "no change of pins, nodes, sequence, adapters or program that was tried, alone or in pairs, makes it "
    "fit: take a GPU with more memory"
)


def _step_s(plan: Plan) -> float:
    time = plan.chosen.predicted.step_time_s.total
    return 0.0 if isinstance(time, Unknown) else time


def host_limit(facts: MachineFacts, cluster: Cluster) -> float:
    """Return the memory of a node's host that offloaded states may fill."""
    total, group = facts.memory.total_bytes, facts.memory.limit_bytes
    if isinstance(total, Unknown):
        return constant("host_share") * constant("host_bytes_per_gpu") * cluster.ranks_per_node
    usable = min(total, group) if isinstance(group, int) else total
    return constant("host_share") * usable


def _rounds(
    workload: Workload, cluster: Cluster, pins: Pins, base: Program, *, may_switch: bool
) -> Iterator[list[_Attempt]]:
    """Yield the rounds of attempts, the least intrusive first.

    In each round the program that the user has comes first, and its plan wins ties.
    """
    others = [
        other
        for other in load_programs().values()
        if may_switch and other.runs_on(cluster) and _can_replace(other, base, workload)
    ]
    smaller = _fewer_ranks(workload, cluster, pins)
    dividing = [other for other in others if other.tensor]
    yield [
        *([] if smaller is None else [_Attempt(base, smaller)]),
        *(_Attempt(other, cluster) for other in dividing),
    ]
    rounds: tuple[Offload, ...] = ("states", "weights")
    for offload in rounds:
        places = [cluster] if smaller is None else [cluster, smaller]
        yield [
            _Attempt(each, place, offload)
            for each in (base, *others)
            if offload in each.offloads
            for place in places
        ]


def _can_replace(other: Program, base: Program, workload: Workload) -> bool:
    """Return whether plans may be made for this program in place of the one that cannot train the job."""
    return other.is_suggested and other.id != base.id and trains(other, workload)


def _fewer_ranks(workload: Workload, cluster: Cluster, pins: Pins) -> Cluster | None:
    """Return the largest part of the cluster whose ranks can share the batch.

    None if the whole cluster can, or if the user fixed the ranks per node and no number of nodes can.

    Whole nodes are left out first; if even a single node is too many, some of its ranks are left out.
    """
    batch = workload.global_batch // (pins.micro_batch or 1)
    if batch % cluster.world_size == 0:
        return None
    for nodes in range(cluster.nodes - 1, 0, -1):
        if batch % (nodes * cluster.ranks_per_node) == 0:
            return msgspec.structs.replace(cluster, nodes=nodes)
    if pins.ranks_per_node is not None:
        return None
    ranks = max((size for size in range(1, cluster.ranks_per_node) if batch % size == 0), default=1)
    return msgspec.structs.replace(cluster, nodes=1, ranks_per_node=ranks)


def _warnings(plan: Plan, asked: Cluster, base: Program, problem: Exception) -> Iterator[str]:
    """Yield warnings that state which last resort was used, and why."""
    chosen, used = plan.chosen, plan.cluster.world_size
    if chosen.program != base.id:
        title = program_named(chosen.program).title
        yield f"the plan is for {title}, because {base.title} has none: {problem}"
    elif used == asked.world_size:
        yield f"the host's memory is used, because otherwise there is no plan: {problem}"
    if used < asked.world_size:
        yield (
            f"the plan uses only {used} of {asked.world_size} GPUs: "
            f"{asked.world_size} ranks cannot share a global batch of {chosen.global_batch}"
        )
    if chosen.offload:
        kept = "optimizer states and weights" if chosen.offload_weights else "optimizer states"
        yield (
            f"{kept} are in the host's memory and need {gib(chosen.host_bytes_per_node)} of each node: "
            "each step waits for copies"
        )
