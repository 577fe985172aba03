"""Judge strategies for a plan, and suggest the ones that are worth an experiment."""

from collections.abc import Callable

from probes.base.record import Unknown
from recipes.constants import constant
from recipes.planning.layout_words import layout_title
from recipes.planning.plan import Experiment, Plan
from recipes.strategies.all_reduce_schemes import in_two_levels, other_buffers
from recipes.strategies.compression import low_rank_gradients, narrower_gradients
from recipes.strategies.local_steps import averaged_seldom
from recipes.strategies.mig_partitions import many_small_jobs
from recipes.strategies.parameter_servers import without_waiting
from recipes.strategies.pinned_layouts import in_one_process, own_name, searched_layout
from recipes.strategies.strategy_table import Kind, Strategy, load_strategies, strategy_named
from recipes.strategies.verdicts import Situation, StrategyAnswers, Verdict

_JUDGES: dict[Kind, Callable[[Strategy, Situation], Verdict]] = {
    "one-process": in_one_process,
    "layout": searched_layout,
    "compression": narrower_gradients,
    "low-rank": low_rank_gradients,
    "local-steps": averaged_seldom,
    "hierarchical": in_two_levels,
    "fusion": other_buffers,
    "servers": without_waiting,
    "program": own_name,
    "partitions": many_small_jobs,
}


def verdict(strategy: Strategy, here: Situation) -> Verdict:
    """Return the verdict on a strategy for this plan, with reasons in numbers of this job and machine."""
    return _JUDGES[strategy.kind](strategy, here)


def why_not(names: tuple[str, ...], here: Situation) -> StrategyAnswers:
    """Return the verdict on each named strategy. Raises UsageError for an unknown name."""
    rows = tuple(dict.fromkeys(strategy_named(name).id for name in names))
    return StrategyAnswers(
        layout=layout_title(here.plan.chosen),
        step_time_s=here.total_s,
        exposed_communication_s=here.time.exposed_communication,
        verdicts=tuple(verdict(load_strategies()[row], here) for row in rows),
    )


def experiments(here: Situation, used: Plan) -> tuple[Experiment, ...]:
    """Return the strategies that would make this plan clearly faster, one of each kind, the best first.

    `here` contains the plan that uses all ranks of the machine. `used` is the plan that the user gets, which
    may leave ranks idle. Nothing is suggested if exposed communication is too short to gain anything.
    """
    total, now = here.total_s, used.chosen.predicted.step_time_s.total
    worth = constant("strategy_worth")
    if isinstance(total, Unknown) or isinstance(now, Unknown) or here.exposed_s < worth * total:
        return ()
    best: dict[Kind, Experiment] = {}
    for row in load_strategies().values():
        if not row.is_suggested:
            continue
        answer = verdict(row, here)
        step = answer.step_time_s
        if answer.status != "recommended" or isinstance(step, Unknown) or step > (1 - worth) * now:
            continue
        known = best.get(row.kind)
        if known is None or step < known.step_time_s:
            best[row.kind] = Experiment(
                strategy=row.id,
                title=row.title,
                step_time_s=step,
                saved_share=1 - step / now,
                ranks=here.cluster.world_size,
                because=answer.because[0],
                unproven=row.unproven,
            )
    return tuple(sorted(best.values(), key=lambda row: row.step_time_s))
