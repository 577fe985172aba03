"""The size of a machine that suits an objective: all GPUs, or fewer if that is faster, cheaper or enough."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Unknown, value_or
from probes.base.units import plural
from recipes.planning.plan import Plan
from recipes.planning.run_cost import failures_and_loss

Objective = Literal["throughput", "time", "cost", "fewest-gpus"]
"""Goal of a plan. `throughput`: most tokens per second. `time`: fewest hours of the run, with the expected
loss to failures. `cost`: fewest GPU hours. `fewest-gpus`: as few GPUs as possible.
"""
_LEAST_COMMUNICATION = 0.5
"""Part of a step outside of computation below which half of the GPUs cannot be faster: they would compute
for twice the time.
"""
_ALL_NODES = 32
"""Number of nodes up to which every number is tried for `fewest-gpus`, or if no plan uses all GPUs."""
_FEWEST = (
    f"tried: every number of GPUs of one node, every number of nodes up to {_ALL_NODES}, and above that "
    "powers of two and three times these"
)
_TRIED = "tried: powers of two nodes, three times these, and divisors of a node's GPUs"


class Size(NamedTuple):
    """A part of a machine."""

    nodes: int
    ranks_per_node: int

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.nodes * self.ranks_per_node


PlanAt = Callable[[Size], Plan]
"""Function that plans the job on a part of the machine; raises as `make_plan` does."""


def smaller_sizes(whole: Size, *, every: bool = False) -> tuple[Size, ...]:
    """Return parts of the machine, largest first: powers of two and three times a power of two of nodes, then
    divisors of one node's ranks.

    `every` adds each number of ranks of one node, and of nodes up to a limit.
    """
    counts = {base * 2**power for base in (1, 3) for power in range(whole.nodes.bit_length())}
    if every:
        counts |= set(range(1, _ALL_NODES + 1))
    nodes = sorted((count for count in counts if count < whole.nodes), reverse=True)
    ranks = whole.ranks_per_node
    inside = [part for part in range(ranks - 1, 0, -1) if every or ranks % part == 0]
    return (*(Size(count, ranks) for count in nodes), *(Size(1, part) for part in inside))


def best_size(plan_at: PlanAt, whole: Size, objective: Objective = "throughput") -> Plan:
    """Return the plan of the size that suits the objective; a smaller machine is named in the warnings.

    Raises the error of the whole machine if no size has a plan.
    """
    if objective == "fewest-gpus":
        return _noted(_fewest(plan_at, whole), whole, f"the fewest on which this job fits; {_FEWEST}")
    if objective == "cost":
        return _noted(_cheapest(plan_at, whole), whole, f"which need the fewest GPU hours; {_TRIED}")
    try:
        plan = plan_at(whole)
    except (NoFeasiblePlanError, UsageError) as error:
        smaller = next(_plans(plan_at, smaller_sizes(whole, every=True)), None)
        if smaller is None:
            raise
        return _noted(smaller, whole, f"because {error}")
    best, reason = plan, "which are faster than all of them"
    while _may_gain(best):
        size = Size(best.cluster.nodes, best.cluster.ranks_per_node)
        half = next(
            _plans(plan_at, (part for part in smaller_sizes(size) if 2 * part.ranks <= size.ranks)), None
        )
        if half is None or _seconds_per_sample(half, objective) >= _seconds_per_sample(best, objective):
            break
        best = half
    return _noted(best, whole, reason)


def _may_gain(plan: Plan) -> bool:
    time = plan.chosen.predicted.step_time_s
    total, compute = time.total, time.compute
    if isinstance(total, Unknown) or isinstance(compute, Unknown) or plan.cluster.world_size == 1:
        return False
    return compute < (1 - _LEAST_COMMUNICATION) * total


def _plans(plan_at: PlanAt, sizes: Iterable[Size]) -> Iterator[Plan]:
    """Yield the plans of the sizes that have one."""
    for size in sizes:
        try:
            yield plan_at(size)
        except (NoFeasiblePlanError, UsageError):
            continue


def _fewest(plan_at: PlanAt, whole: Size) -> Plan:
    smallest = next(_plans(plan_at, reversed(smaller_sizes(whole, every=True))), None)
    return plan_at(whole) if smallest is None else smallest


def _cheapest(plan_at: PlanAt, whole: Size) -> Plan:
    plans = list(_plans(plan_at, (whole, *smaller_sizes(whole))))
    timed = [plan for plan in plans if not isinstance(plan.chosen.predicted.step_time_s.total, Unknown)]
    if not timed:
        return plan_at(whole)
    return min(timed, key=lambda plan: _seconds_per_sample(plan, "time") * plan.cluster.world_size)


def _seconds_per_sample(plan: Plan, objective: Objective) -> float:
    """Return the seconds that the run needs for each sample, with the loss to failures if it counts."""
    seconds = value_or(plan.chosen.predicted.step_time_s.total, float("inf")) / plan.workload.global_batch
    if objective == "throughput":
        return seconds
    _, lost_share = failures_and_loss(plan.cluster, plan.checkpoints)
    return seconds * (1 + lost_share)


def _noted(plan: Plan, whole: Size, reason: str) -> Plan:
    """Return the plan with a warning if a part of the machine stays idle."""
    if plan.cluster.world_size == whole.ranks:
        return plan
    kind = "GPU" if plan.cluster.device == "cuda" else "rank"
    note = f"uses {plan.cluster.world_size} of {plural(whole.ranks, kind)}, {reason}"
    return msgspec.structs.replace(plan, warnings=(note, *plan.warnings))
