"""Show what `rigtune tune` measured: the answer, then every candidate with its ratio to the recipe."""

from collections.abc import Iterator

from assistant.pages.blocks import Cell, Column, Page, Section, Table, section, words
from probes.base.units import duration, gib, percent, plural
from recipes.tuning.tune_result import CandidateResult, StageResult, TuneResult, ratio_words


def tune_page(result: TuneResult) -> Page:
    """Return the answer, a table of candidates per stage, and where the trials and the recipe are."""
    return (
        section("", _answer(result)),
        *(_stage(stage) for stage in result.stages if len(stage.candidates) > 1),
        section("", _ending(result)),
    )


def _answer(result: TuneResult) -> Iterator[Cell]:
    """Yield the winner and its gain."""
    if not result.trials:
        yield words((f"{result.name}: nothing was measured", "strong"))
        most = sum(stage.most_trials for stage in result.stages)
        yield (
            f"a tune takes at most {plural(most, 'trial')} of {result.steps} steps within "
            f"{duration(result.budget_s)}"
        )
        return
    if result.changes:
        settings = ", ".join(f"{each.name} {each.value}" for each in result.changes)
        yield words((f"{settings}: {percent(result.speed_up)} more steps per second", "good"))
    elif result.is_complete:
        yield words(("The recipe stays: no candidate is faster by more than chance", "strong"))
    else:
        yield words(("No candidate is faster by more than chance so far", "strong"))
    yield (
        f"{plural(result.trials, 'trial')} of {result.steps} steps in {duration(result.took_s)}, "
        f"of at most {duration(result.budget_s)}"
    )


def _stage(stage: StageResult) -> Section:
    headings: tuple[str, ...] = ("", "step time", "ratio to the recipe", "runs", "predicted", "peak memory")
    rows = tuple(_row(stage, candidate) for candidate in stage.candidates)
    if not any(candidate.rounds or candidate.reason for candidate in stage.candidates):
        headings = ("", "predicted step time")
        rows = tuple((row[0], row[4] or "unknown") for row in rows)
    lines: list[Cell] = [_decision(stage)] if stage.because else []
    lines += [f"{each.name}: {each.reason}" for each in stage.candidates if each.reason]
    return section(
        f"{stage.title[0].upper()}{stage.title[1:]}",
        (Table(tuple(map(Column, headings)), rows, tone="strong"), *lines),
    )


def _decision(stage: StageResult) -> str:
    """Return the decision, with its p-value if the winner was tested."""
    if stage.p_value is None:
        return f"{stage.because}."
    return (
        f"{stage.because}: p = {stage.p_value:.3g} over {plural(len(stage.tested_rounds), 'paired run')} "
        f"after the selection (false winners at most {percent(stage.alpha)})."
    )


def _row(stage: StageResult, candidate: CandidateResult) -> tuple[Cell, ...]:
    tone = "good" if candidate.name == stage.winner else ""
    return (
        words((_shown(candidate.name), tone)),  # type: ignore[arg-type]
        "" if candidate.step_time_s is None else duration(candidate.step_time_s),
        "1" if candidate is stage.candidates[0] else ratio_words(candidate),
        str(candidate.rounds),
        "" if candidate.predicted_s is None else duration(candidate.predicted_s),
        "" if candidate.peak_memory_bytes is None else gib(candidate.peak_memory_bytes),
    )


def _shown(name: str) -> str:
    """Return the name as the plan writes settings, with spaces; environment variables keep their names."""
    return name if "=" in name else name.replace("_", " ")


def _ending(result: TuneResult) -> Iterator[Cell]:
    for note in result.notes:
        yield f"! {note}"
    if result.changes and not result.written:
        yield "The tune is not finished, so nothing is written yet."
    if result.written:
        yield f"written to {result.written}"
    if result.journal:
        yield f"trials in {result.journal}"
