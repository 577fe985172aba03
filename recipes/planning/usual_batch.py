"""The recipe's own batch for layouts that can share it, although all ranks of the machine cannot."""

from collections.abc import Callable
from typing import Protocol

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Unknown
from recipes.constants import constant
from recipes.job.workload import AnyWorkload, Workload
from recipes.planning.plan import Plan
from recipes.planning.planner import usual_batch
from recipes.planning.programs import Program
from recipes.settings.setting import Stated


class PlanOfJob(Protocol):
    """Function that plans a job as `make_plan` does."""

    def __call__(self, job: AnyWorkload, *, chosen_only: bool) -> Plan: ...


def draft_with_usual_batch(
    rounded: AnyWorkload,
    program: Program,
    stated: Stated,
    with_batch: Callable[[int], AnyWorkload],
    plan_of: PlanOfJob,
) -> Plan | None:
    """Return the plan with the recipe's own batch if it is as fast; else the plan with the rounded batch.

    The batch is rounded so that all ranks can share it. A layout that divides the model has fewer
    data-parallel ranks, so that it may need no rounding. The plan has only its chosen layout (`chosen_only`
    of `make_plan`). None if there is no such plan, or nothing to decide, because the batch was not rounded.
    """
    if not isinstance(rounded, Workload) or (usual := usual_batch(rounded, program, stated)) == (
        rounded.global_batch
    ):
        return None
    try:
        plan = plan_of(rounded, chosen_only=True)
    except (NoFeasiblePlanError, UsageError):
        return None
    if usual % (plan.chosen.degrees.dp * plan.chosen.degrees.fsdp):
        return plan
    try:
        kept = plan_of(with_batch(usual), chosen_only=True)
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
