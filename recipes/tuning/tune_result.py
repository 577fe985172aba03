"""The result of a tune: every candidate with its ratio to the baseline, and the recipe with the settings that
won.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from probes.base.record import Record
from probes.base.units import duration, plural
from recipes.launch.edited import refreshed
from recipes.launch.recipe import Chosen, Recipe
from recipes.tuning.chance import ratio_intervals, sign_flip_p
from recipes.tuning.contest import Decision, Outcome, differences, most_trials
from recipes.tuning.tune_stages import Options, Stage
from recipes.tuning.variants import Setting, Variant

SCHEMA_VERSION = 1


class CandidateResult(Record, kw_only=True):
    """Measurements of one candidate."""

    name: str
    settings: tuple[Setting, ...]
    """Settings that differ from the baseline."""
    outcome: Outcome | Literal["not_run"]
    """Result of the last trial."""
    rounds: int
    """Number of measured trials."""
    step_time_s: float | None = None
    """Median over the trials; None without a measured trial."""
    ratio: float | None = None
    """Step time relative to the baseline: geometric mean of the ratios in the same rounds."""
    ratio_low: float | None = None
    """Lower end of the 95 % interval of the ratio; None if too few trials show the noise."""
    ratio_high: float | None = None
    predicted_s: float | None = None
    peak_memory_bytes: float | None = None
    """Largest peak of the trials."""
    reason: str = ""
    """Reason why the last trial has no step time."""


class StageResult(Record, kw_only=True):
    """Measurements and decision of one stage."""

    title: str
    decision: Decision
    """`winner`, `baseline`, `baseline-failed`, or blank if the tune was stopped before a decision.

    If the time budget ended after the first trial, the decision is `baseline`.
    """
    because: str
    winner: str
    """Name of the candidate that won; blank if the baseline stays."""
    p_value: float | None = None
    """Share of the sign patterns of the tested rounds that favour the finalist at least as much (p-value)."""
    alpha: float
    """Largest probability that this stage has a winner although all candidates are equal."""
    tested_rounds: tuple[int, ...] = ()
    """Rounds on which the decision about chance is based."""
    most_trials: int
    """Largest number of trials that the stage can take."""
    candidates: tuple[CandidateResult, ...]
    """The baseline, then the others by their ratio; candidates that failed come last."""


class TuneResult(Record, kw_only=True):
    """The result of `rigtune tune`."""

    schema_version: int = SCHEMA_VERSION
    name: str
    """Name of the recipe."""
    steps: int
    """Optimizer steps of each trial."""
    stages: tuple[StageResult, ...]
    changes: tuple[Setting, ...]
    """Settings that won; empty if the recipe stays."""
    speed_up: float
    """Steps per second relative to the recipe, minus 1; 0 if the recipe stays."""
    trials: int
    took_s: float
    """Seconds of all trials."""
    budget_s: float
    is_complete: bool
    """True if every stage was decided; False if time was short, the user stopped, or nothing was started."""
    notes: tuple[str, ...] = ()
    written: str = ""
    """Path of the recipe with the winner; blank if the recipe stays."""
    journal: str = ""
    """Path of the journal; blank if nothing was started."""


def result_of(
    recipe: Recipe, options: Options, stages: Sequence[Stage], budget_s: float, *, notes: Sequence[str] = ()
) -> TuneResult:
    """Return the result of the stages so far."""
    results = tuple(_stage_result(stage) for stage in stages)
    trials = [trial for stage in stages for trial in stage.contest.trials]
    is_complete = all(not stage.state.due for stage in stages) and len(stages) == (
        2 if options.variables else 1
    )
    return TuneResult(
        name=recipe.name,
        steps=options.steps,
        stages=results,
        changes=tuple(each for stage in stages if stage.winner for each in stage.winner.settings),
        speed_up=1 / math.prod(_winning_ratio(result) for result in results) - 1,
        trials=len(trials),
        took_s=math.fsum(trial.took_s for trial in trials),
        budget_s=budget_s,
        is_complete=is_complete,
        notes=tuple(notes),
    )


def _winning_ratio(result: StageResult) -> float:
    """Return the ratio of the stage's winner to its baseline; 1 without a winner."""
    ratios = [each.ratio for each in result.candidates if each.name == result.winner]
    return ratios[0] or 1.0 if ratios and result.winner else 1.0


def _stage_result(stage: Stage) -> StageResult:
    contest, state = stage.contest, stage.state
    ratios = differences(contest)
    intervals = ratio_intervals(ratios, seed=contest.rules.seed)
    first, *others = (
        _candidate_result(stage, variant, ratios.get(variant.name, []), intervals.get(variant.name))
        for variant in stage.variants
    )
    because = state.because
    if stage.is_out_of_time:
        because = "the time budget ended before a candidate was faster by more than chance"
    tested = state.round - len(state.tested) + 1
    return StageResult(
        title=stage.title,
        decision="baseline" if stage.is_out_of_time and contest.trials else state.decision,
        because=because,
        winner=state.finalist if state.decision == "winner" else "",
        p_value=sign_flip_p(state.tested) if state.tested else None,
        alpha=contest.rules.alpha,
        tested_rounds=tuple(range(tested, state.round + 1)) if state.tested else (),
        most_trials=most_trials(contest),
        candidates=(first, *sorted(others, key=lambda each: (each.ratio is None, each.ratio or 0.0))),
    )


def _candidate_result(
    stage: Stage, variant: Variant, ratios: Sequence[float], interval: tuple[float, float] | None
) -> CandidateResult:
    trials = [trial for trial in stage.contest.trials if trial.candidate == variant.name]
    times = [trial.step_time_s for trial in trials if trial.step_time_s is not None]
    peaks = [trial.peak_memory_bytes for trial in trials if trial.peak_memory_bytes is not None]
    return CandidateResult(
        name=variant.name,
        settings=variant.settings,
        outcome=trials[-1].outcome if trials else "not_run",
        rounds=len(times),
        step_time_s=statistics.median(times) if times else None,
        ratio=math.exp(math.fsum(ratios) / len(ratios)) if ratios else None,
        ratio_low=None if interval is None else interval[0],
        ratio_high=None if interval is None else interval[1],
        predicted_s=variant.predicted_s,
        peak_memory_bytes=max(peaks, default=None),
        reason=trials[-1].reason if trials else "",
    )


def ratio_words(candidate: CandidateResult) -> str:
    """Return the ratio with its interval, such as `0.905 (0.890 to 0.920)`.

    The result is the outcome if the last trial failed, and empty without a measured ratio.
    """
    if candidate.outcome not in ("measured", "not_run"):
        return candidate.outcome.replace("_", " ")
    if candidate.ratio is None:
        return ""
    if candidate.ratio_low is None or candidate.ratio_high is None:
        return f"{candidate.ratio:.3f}"
    return f"{candidate.ratio:.3f} ({candidate.ratio_low:.3f} to {candidate.ratio_high:.3f})"


def tuned_recipe(recipe: Recipe, stages: Sequence[Stage], result: TuneResult) -> Recipe:
    """Return the recipe with the settings that won; decisions about these settings cite the trials.

    Settings that a person edited stay, and are marked as edited. The prediction is made again for the
    resulting settings.
    """
    tuned = refreshed(recipe)
    for stage, measured in zip(stages, result.stages, strict=True):
        winner = stage.winner
        if winner is None:
            continue
        won = next(each for each in measured.candidates if each.name == measured.winner)
        evidence = _evidence(measured, won, result)
        others = tuple(
            f"{each.name}: {ratio_words(each)}"
            for each in measured.candidates
            if each.name != measured.winner
        )
        # Accumulation follows from the other settings. The first decision names the other candidates.
        settings = [setting for setting in winner.settings if setting.name != "grad_accum"]
        chosen = {
            setting.name: Chosen(
                name=setting.name,
                value=setting.value,
                basis="measured",
                because=evidence,
                alternatives=() if place else others,
            )
            for place, setting in enumerate(settings)
        }
        kept = tuple(each for each in tuned.decisions if each.name not in chosen)
        environment = tuple(
            msgspec.structs.replace(variable, why=f"{variable.why}; {evidence}")
            if variable.name in chosen
            else variable
            for variable in winner.recipe.environment
        )
        tuned = msgspec.structs.replace(
            tuned,
            parallelism=winner.recipe.parallelism,
            environment=environment,
            decisions=(*chosen.values(), *kept),
        )
    return refreshed(tuned)


def _evidence(measured: StageResult, won: CandidateResult, result: TuneResult) -> str:
    """Return what was measured of the winner, for the reason of a decision."""
    baseline = measured.candidates[0]
    times = (won.step_time_s or 0.0, baseline.step_time_s or 0.0)
    rounds = measured.tested_rounds
    return (
        f"rigtune tune measured {duration(times[0])} per step instead of {duration(times[1])}, ratio "
        f"{ratio_words(won)}, in {plural(won.rounds, 'paired run')} of {result.steps} steps; "
        f"p = {measured.p_value:.3g} in rounds {rounds[0]} to {rounds[-1]} of the journal {result.journal}"
    )
