"""Measure the best few candidates of a recipe for real, and write the winner into the recipe."""

import math
import statistics
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

import msgspec

from assistant.processes.runner import busy_host
from assistant.storage import appending, make_directory, read_bytes, refuse_unwritable, write_bytes
from assistant.usecases.events import Event, Progress, StageStarted, Written, stage
from assistant.usecases.export import refuse_edited_recipe
from assistant.usecases.run_report import median_step_s
from assistant.usecases.short_run import ShortRun, never, other_program_notes, short_run
from probes.base.errors import UsageError, WorkerError
from probes.base.record import Record
from probes.base.units import duration, plural
from probes.facts import MachineFacts
from recipes.environment.choosing_variables import environment_of
from recipes.environment.job_situation import Situation
from recipes.launch.edited import refreshed
from recipes.launch.launch_files import find_launcher
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import Command, Environment, Recipe
from recipes.launch.recipe_file import dump_recipe, require_valid
from recipes.tuning.contest import Rules, Trial, most_trials
from recipes.tuning.journal import Ran, Started, digest_of, line_of, read_journal
from recipes.tuning.tune_result import TuneResult, result_of, tuned_recipe
from recipes.tuning.tune_stages import Options, Stage, stages_of
from recipes.tuning.variants import BASELINE, Variant, memory_of_recipe, variable_variants

JOURNAL = "journal.jsonl"
BEFORE = "recipe-before.toml"
"""Copy of the recipe as it was before the winner was written into it."""
_SLOWEST = 3.0
"""A candidate is ended when its run takes this many times as long as the baseline's."""
_MARGIN_S = 60.0
"""Seconds that every run may take in addition, for a slow start."""


class TuneRequest(Record, kw_only=True):
    """The settings of a tune."""

    steps: int = 20
    candidates: int = 6
    budget_s: float = 1200.0
    seed: int = 0
    variables: tuple[Environment, ...] = ()
    """Environment variables to measure."""
    python: str | None = None
    """Training interpreter; None for the interpreter of the recipe."""
    uses_reference: bool = False
    """True if the reference workload runs instead of the recipe's own program."""
    resume: bool = False
    dry_run: bool = False


def experiment_variables(recipe: Recipe, facts: MachineFacts) -> tuple[Environment, ...]:
    """Return the variables of tier `experiment` that apply to the recipe on this machine.

    The result is empty if the recipe describes no machine.
    """
    if recipe.machine is None:
        return ()
    candidate = recipe.parallelism.candidate
    _, environment = environment_of(
        Situation(
            facts=facts,
            cluster=recipe.machine,
            memory=memory_of_recipe(recipe, recipe.machine),
            program=recipe.program,
            degrees=candidate.degrees,
            sharding=candidate.sharding_stage,
        )
    )
    return tuple(
        Environment(name=each.name, value=each.value, why=each.why, source=each.source)
        for each in environment.experiments
    )


@stage("tune")
def tune_recipe(
    recipe: Recipe,
    source: Path,
    request: TuneRequest,
    *,
    folder: Path,
    output: Path | None = None,
    is_stopped: Callable[[], bool] = never,
) -> Generator[Event, None, TuneResult]:
    """Measure the candidates of the recipe in the file `source`; the last event's result is a `TuneResult`.

    Trials, logs and the journal are written to `folder`, the recipe with the winner to `output`, by default
    to `source`. If `is_stopped` returns True, the running trial is ended, and the result so far is returned.
    Raises UsageError for a recipe that cannot be started here, or a journal of another tune, OutputError if a
    file cannot be written, and WorkerError if the recipe itself cannot run.
    """
    before = read_bytes(source)
    recipe = refreshed(recipe)
    measured = _as_measured(recipe, request)
    require_runnable(measured)
    find_launcher("torchrun").load().start(measured, str(folder), ())
    begun = _begun(measured, request, folder / JOURNAL)
    variables = variable_variants(measured, begun.options.variables)
    for variant in (*(each for tuned in begun.stages() for each in tuned.variants), *variables):
        require_valid(variant.recipe)
    notes = other_program_notes(recipe, measured)
    if request.dry_run:
        names = ", ".join(each.name for each in variables[1:])
        notes += (f"Then, on top of the winner: {names}",) if names else ()
        return result_of(measured, begun.options, begun.stages(), request.budget_s, notes=notes)
    refuse_unwritable(output or source)
    if output is not None and output != source:
        refuse_edited_recipe(output, "rigtune plan -o FILE")
        make_directory(output.absolute().parent)
    yield from _measure(begun, request, make_directory(folder), is_stopped)
    result = msgspec.structs.replace(
        result_of(measured, begun.options, begun.stages(), request.budget_s, notes=notes),
        journal=str(folder / JOURNAL),
    )
    if not result.changes or any(not each.is_over for each in begun.stages()):
        return result
    tuned = dump_recipe(tuned_recipe(recipe, begun.stages(), result)).encode()
    target = yield from _write(tuned, before, source, output, folder)
    return msgspec.structs.replace(result, written=str(target))


class _Begun(NamedTuple):
    """A tune with the trials so far."""

    recipe: Recipe
    options: Options
    budget_s: float
    trials: tuple[list[Trial], ...]
    """Trials of each stage; the list grows."""
    whole_bytes: int
    """Bytes of the complete lines of the journal."""

    def stages(self) -> tuple[Stage, ...]:
        """Return the stages up to the first that is not over."""
        return stages_of(self.recipe, self.options, self.trials, self.budget_s)


def _measure(
    begun: _Begun, request: TuneRequest, folder: Path, is_stopped: Callable[[], bool]
) -> Generator[Event, None, None]:
    """Run trials until every stage is over or the user stops.

    Each trial is added to the journal and to `begun`. Raises WorkerError if the baseline fails.
    """
    yield StageStarted(stage="tune", title=_announcement(begun))
    for warning in _warnings(begun):
        yield Progress(stage="tune", message=warning)
    with appending(folder / JOURNAL, begun.whole_bytes) as append:
        if not begun.whole_bytes:
            start = Started(recipe=digest_of(begun.recipe), options=begun.options, budget_s=begun.budget_s)
            append(line_of(start))
        while not (stages := begun.stages())[-1].is_over:
            number = len(stages) - 1
            trial = yield from _trial(
                stages[-1],
                folder / f"stage-{number + 1}",
                steps=begun.options.steps,
                python=request.python or "",
                budget_s=begun.budget_s,
                is_stopped=is_stopped,
            )
            if trial is None:
                return
            append(line_of(Ran(stage=number, trial=trial)))
            begun.trials[number].append(trial)
            yield Progress(stage="tune", message=_trial_words(trial, stages[-1]))
            if trial.candidate == BASELINE and trial.outcome != "measured":
                hint = "give a longer --budget if it only started slowly; " * (trial.outcome == "too_slow")
                raise WorkerError(
                    f"{begun.recipe.name} itself failed, so nothing can be compared: {trial.reason}",
                    f"{hint}the output is in {folder}; `rigtune verify` runs the recipe alone",
                )


def _write(
    tuned: bytes, before: bytes, source: Path, output: Path | None, folder: Path
) -> Generator[Event, None, Path]:
    """Write the recipe with the winner, and return its path.

    The recipe that the user named is replaced only if it has not changed since the start; a copy of the old
    recipe stays in `folder`.
    """
    target = output or source
    if target == source and read_bytes(source) != before:
        target = folder / "tuned.toml"
        message = f"{source} was changed during the tune, so it is not replaced; the winner is in {target}"
        yield Progress(stage="tune", message=message)
    elif target == source:
        write_bytes(folder / BEFORE, before)
    write_bytes(target, tuned)
    yield Written(path=str(target), what="recipe with the winner")
    return target


def _as_measured(recipe: Recipe, request: TuneRequest) -> Recipe:
    """Return the recipe with the interpreter and the program of the trials. Raises UsageError."""
    resources = msgspec.structs.replace(recipe.resources, python=request.python or recipe.resources.python)
    command = recipe.command
    if request.uses_reference and command.kind != "reference":
        if recipe.not_in_reference:
            raise UsageError(
                f"the reference workload does not build all of {recipe.name}: "
                f"{', '.join(recipe.not_in_reference)}",
                "leave --reference out, and let your program report its steps",
            )
        command = Command(kind="reference")
    return msgspec.structs.replace(recipe, resources=resources, command=command)


def _begun(recipe: Recipe, request: TuneRequest, path: Path) -> _Begun:
    """Return the tune with the trials of the journal, if it is resumed.

    Raises UsageError if the journal belongs to another recipe, or would be overwritten.
    """
    options = Options(
        steps=request.steps,
        candidates=request.candidates,
        rules=Rules(seed=request.seed),
        variables=request.variables,
    )
    known = read_journal(read_bytes(path), str(path)) if path.exists() and not request.dry_run else None
    if known is None:
        return _Begun(recipe, options, request.budget_s, ([], []), 0)
    if not request.resume:
        raise UsageError(
            f"{path} has the trials of an earlier tune",
            "continue it with --resume, or name another folder with --out",
        )
    if known.started.recipe != digest_of(recipe):
        raise UsageError(
            f"{path} belongs to another recipe, or to this one before it was changed",
            "name another folder with --out, and measure without --resume",
        )
    trials = tuple(list(part) for part in known.trials)
    return _Begun(recipe, known.started.options, request.budget_s, trials, known.whole_bytes)


def _trial(
    stage: Stage,
    folder: Path,
    *,
    steps: int,
    python: str,
    budget_s: float,
    is_stopped: Callable[[], bool],
) -> Generator[Event, None, Trial | None]:
    """Run the next trial of a stage; return None if the user stopped it."""
    name, state = stage.state.due[0], stage.state
    place, variant = next((at, each) for at, each in enumerate(stage.variants) if each.name == name)
    yield Progress(
        stage="tune", message=f"round {state.round}: {name}", total=stage.contest.rules.most_rounds
    )
    if is_stopped():
        return None
    # The plan's reasons and notes do not apply to a candidate.
    bare = msgspec.structs.replace(variant.recipe, decisions=(), notes=())
    running = short_run(
        bare,
        folder / f"candidate-{place}",
        stage="tune",
        steps=steps,
        title=f"round-{state.round}",
        python=python,
        limit_s=_limit_s(stage, name),
        # The budget ends candidates between their runs, but a first run that hangs has no limit of its own.
        most_s=math.inf if stage.contest.trials else budget_s,
        is_stopped=is_stopped,
    )
    run = yield from _steps_only(running)
    return None if run.is_stopped else _trial_of(run, state.round, variant)


def _steps_only(running: Generator[Event, None, ShortRun]) -> Generator[Event, None, ShortRun]:
    """Forward the steps of a run, without the files that the run writes, and return the run."""
    while True:
        try:
            event = next(running)
        except StopIteration as end:
            run: ShortRun = end.value
            return run
        if isinstance(event, Progress) and event.total:
            yield event


def _limit_s(stage: Stage, name: str) -> float | None:
    """Return the longest time of a candidate's run; None for the baseline, and until the baseline has run."""
    known = [trial.took_s for trial in stage.contest.trials if trial.candidate == BASELINE]
    return None if name == BASELINE or not known else _SLOWEST * statistics.median(known) + _MARGIN_S


def _trial_of(run: ShortRun, number: int, variant: Variant) -> Trial:
    """Return the record of a run as trial number `number` of `variant`."""
    if run.failure or not run.steps_s:
        is_short = run.is_out_of_memory and not run.is_too_slow
        return Trial(
            round=number,
            candidate=variant.name,
            outcome="out_of_memory" if is_short else "too_slow" if run.is_too_slow else "failed",
            steps_s=run.steps_s,
            reason=run.failure or "it reported no step",
            took_s=run.took_s,
        )
    done = run.done
    return Trial(
        round=number,
        candidate=variant.name,
        outcome="measured",
        step_time_s=median_step_s(run.steps_s) if done is None else done.median_step_time_s,
        steps_s=run.steps_s,
        peak_memory_bytes=run.allocated_bytes,
        took_s=run.took_s,
    )


def _trial_words(trial: Trial, stage: Stage) -> str:
    """Return a finished trial in words, with the number of candidates that are left."""
    result = trial.reason if trial.step_time_s is None else f"{duration(trial.step_time_s)} per step"
    left = plural(len(stage.state.remaining) + 1, "candidate")
    return f"round {trial.round} ({left}), {trial.candidate}: {result}"


def _announcement(begun: _Begun) -> str:
    """Return the devices that a tune occupies, and the longest time."""
    sizes, options, first = begun.recipe.parallelism, begun.options, begun.stages()[0]
    device = "GPU" if begun.recipe.resources.device == "cuda" else "CPU rank"
    where = f"{plural(sizes.world_size, device)} of {plural(sizes.nodes, 'node')}"
    candidates = len(first.variants) + len(options.variables)
    return (
        f"Tuning {begun.recipe.name}: occupies {where} for {duration(begun.budget_s)} at most; "
        f"{plural(candidates, 'candidate')}, {options.steps} steps per trial, at most "
        f"{plural(most_trials(first.contest), 'trial')} of layouts and settings"
    )


def _warnings(begun: _Begun) -> list[str]:
    """Return warnings about disturbed measurements, missing candidates and missing predictions."""
    first, warnings = begun.stages()[0], []
    if begun.recipe.resources.device == "cpu" and (busy := busy_host()):
        warnings.append(f"Warning: {busy}; the trials will scatter")
    if not first.contest.challengers:
        warnings.append("No other layout or setting fits that rigtune can start, so none is measured.")
    elif first.variants[0].predicted_s is None:
        warnings.append("No step time is predicted, so the candidates are in no order.")
    return warnings
