"""The recipe's own batch for layouts that can share it, although all ranks of the machine cannot."""

from collections.abc import Callable

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Unknown
from recipes.constants import constant
from recipes.job.workload import Workload
from recipes.planning.plan import Plan
from recipes.planning.planner import usual_batch
from recipes.planning.programs import Program
from recipes.settings.setting import Stated


def with_usual_batch(plan: Plan, program: Program, stated: Stated, with_batch: Callable[[int], Plan]) -> Plan:
    """Return the plan with the recipe's own batch if it is as fast; else the plan with the rounded batch.

    The batch is rounded so that all ranks can share it. A layout that divides the model has fewer
    data-parallel ranks, so that it may need no rounding. `with_batch` plans the job with another batch.
    """
    if not isinstance(plan.workload, Workload):
        return plan
    usual, degrees = usual_batch(plan.workload, program, stated), plan.chosen.degrees
    if usual == plan.workload.global_batch or usual % (degrees.dp * degrees.fsdp):
        return plan
    try:
        kept = with_batch(usual)
    except (NoFeasiblePlanError, UsageError):
        return plan
    return kept if kept.cluster == plan.cluster and _is_as_fast(kept, plan) else plan


def _is_as_fast(plan: Plan, other: Plan) -> bool:
    """Return whether the plan trains as many sequences per second as the other one, within the tie."""
    mine, theirs = plan.chosen.predicted.step_time_s.total, other.chosen.predicted.step_time_s.total
    if isinstance(mine, Unknown) or isinstance(theirs, Unknown):
        return isinstance(mine, Unknown) and isinstance(theirs, Unknown)
    seconds = mine / plan.workload.global_batch
    return seconds <= theirs / other.workload.global_batch * (1 + constant("layout_tie"))
