"""Judge strategies that the user names for a plan."""

from collections.abc import Generator

from assistant.usecases.events import Event, StageStarted, stage
from assistant.usecases.plan import plan_of, situation_of
from assistant.usecases.what_if import Place
from probes.base.units import plural
from recipes.strategies.strategy_table import strategy_named
from recipes.strategies.verdicts import StrategyAnswers
from recipes.strategies.why_not import why_not


@stage("plan")
def judge_strategies(place: Place, names: tuple[str, ...]) -> Generator[Event, None, StrategyAnswers]:
    """Judge each named strategy; the last event's result is a `StrategyAnswers`.

    Raises UsageError for an unknown name before anything is planned, and the errors of a plan.
    """
    for name in names:
        strategy_named(name)
    yield StageStarted(stage="plan", title=f"Planning for {plural(len(names), 'strategy')}")
    plan = plan_of(place.facts, place.measurements, place.request)
    return why_not(names, situation_of(plan, place.facts, place.measurements, place.request))
