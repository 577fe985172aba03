"""The stages of a tuning run: first layouts and settings, then environment variables on top of the winner.

The second stage begins when the first stage is over. Its baseline is the winner of the first stage.
Everything is computed from the recipe, the options and the trials, so that an interrupted tuning run
continues where it stopped.
"""

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from probes.base.record import Record
from recipes.launch.recipe import Environment, Recipe
from recipes.tuning.contest import Contest, Rules, Standing, Trial, expected_seconds, most_trials, standing
from recipes.tuning.variants import Variant, variable_variants, variants

MOST_STEPS = 1_000_000
MOST_CANDIDATES = 50


class Options(Record, kw_only=True):
    """The settings of a tuning run that must stay the same when the run is resumed."""

    steps: Annotated[int, msgspec.Meta(ge=2, le=MOST_STEPS)] = 20
    """Optimizer steps of each trial."""
    candidates: Annotated[int, msgspec.Meta(ge=1, le=MOST_CANDIDATES)] = 6
    """Largest number of layouts and settings to measure in addition to the recipe."""
    rules: Rules = Rules()
    """Rules of a contest; if there are several stages, each stage gets a share of `alpha`."""
    variables: tuple[Environment, ...] = ()
    """Environment variables to measure, each with one value."""


class Stage(NamedTuple):
    """One contest of a tuning run."""

    title: str
    variants: tuple[Variant, ...]
    """The candidates; the first is the baseline."""
    contest: Contest
    state: Standing
    is_out_of_time: bool
    """True if the time budget ended, or the next stage began, before the contest was decided."""

    @property
    def is_over(self) -> bool:
        """Return whether the stage needs no further trial."""
        return self.is_out_of_time or not self.state.due

    @property
    def winner(self) -> Variant | None:
        """The candidate that won; None if the baseline stays."""
        if self.state.decision != "winner":
            return None
        return next(each for each in self.variants if each.name == self.state.finalist)

    @property
    def recipe(self) -> Recipe:
        """The recipe after this stage: the winner's recipe, or the baseline's."""
        return (self.winner or self.variants[0]).recipe


def stages_of(
    recipe: Recipe,
    options: Options,
    trials: Sequence[Sequence[Trial]] = ((), ()),
    budget_s: float = math.inf,
) -> tuple[Stage, ...]:
    """Return the stages up to and including the first stage that is not over.

    `trials` has the trials of each stage. The budget is divided between the stages in proportion to the
    maximum number of trials of each stage. A stage is also over if the next stage has trials.
    """
    layouts, experiments = variants(recipe, options.candidates), options.variables
    number = 2 if experiments else 1
    alpha = options.rules.alpha / number
    rules = msgspec.structs.replace(options.rules, alpha=alpha)
    first = _stage("layout and settings", layouts, rules, trials[0])
    if not experiments:
        return (_within(first, budget_s),)
    share = most_trials(first.contest)
    for_second = most_trials(Contest(baseline="", challengers=("",) * len(experiments), rules=rules))
    first = _within(first, budget_s * share / (share + for_second), is_closed=bool(trials[1]))
    if not first.is_over:
        return (first,)
    second = _stage("environment variables", variable_variants(first.recipe, experiments), rules, trials[1])
    spent_s = sum(trial.took_s for trial in trials[0])
    return (first, _within(second, budget_s - spent_s))


def _stage(title: str, candidates: tuple[Variant, ...], rules: Rules, trials: Sequence[Trial]) -> Stage:
    baseline, *others = (each.name for each in candidates)
    contest = Contest(baseline=baseline, challengers=tuple(others), rules=rules, trials=tuple(trials))
    return Stage(title, candidates, contest, standing(contest), is_out_of_time=False)


def _within(stage: Stage, budget_s: float, *, is_closed: bool = False) -> Stage:
    """Return the stage, marked as out of time if the next trial is not expected to fit into the budget."""
    if not stage.state.due:
        return stage
    spent_s = sum(trial.took_s for trial in stage.contest.trials)
    next_s = expected_seconds(stage.contest, stage.state.due[0])
    return stage._replace(is_out_of_time=is_closed or spent_s + next_s > budget_s)
