"""Verify a recipe: a smoke test of its launch, then some steps, compared with the prediction."""

import itertools
from collections.abc import Generator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from assistant.processes.runner import busy_host
from assistant.usecases.bench.baseline import save_verified
from assistant.usecases.events import Event, Progress, StageStarted, stage
from assistant.usecases.run_report import WARM_UP, Done, Start, median_step_s, warm_steps
from assistant.usecases.short_run import ShortRun, other_program_notes, short_run, started_by
from assistant.usecases.smoke_run import LIMIT_S, SmokeTest, smoke_command, smoke_test
from probes.base.errors import OutputError, WorkerError
from probes.base.record import Record
from probes.base.units import plural
from probes.facts.measurements import Measurement, MeasurementSet, Parameter
from probes.logs.run_figures import figures_of
from recipes.launch.edited import refreshed, text_workload_of
from recipes.launch.launch_files import find_launcher, launch_files
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import Command, Prediction, Recipe
from recipes.launch.reference_files import helper_file, imports_helper
from recipes.launch.verification import (
    Verification,
    VerifyPlan,
    compare_peak_memory,
    compare_reserved_memory,
    compare_step_time,
    compare_worst_memory,
)
from recipes.launch.verifying.differences import judge_memory, judge_step_time
from recipes.launch.verifying.own_output import with_output_slots, with_own_output
from recipes.launch.verifying.smoke_judging import assertions
from recipes.launch.verifying.smoke_recipe import SMOKE
from recipes.planning.programs import REFERENCE_PROGRAM
from recipes.planning.verified_step import BENCHMARK, step_parameters

OUTPUT = "output"
"""Folder, inside the folder of a run, for the checkpoints and logs of the user's program."""
_NO_FALL = "The loss did not fall in these few steps."
_NOT_FINITE = "The loss was no finite number in the last step: the training diverged."


class VerifyRequest(Record, kw_only=True):
    """The settings of a verification."""

    steps: int = 20
    python: str | None = None
    """Training interpreter; None for the interpreter of the recipe."""
    launcher: str = "torchrun"
    program: Literal["reference", "own", ""] = ""
    """The program to measure; empty for the recipe's own program if its checkpoints are safe."""
    limit_s: float | None = None
    """Longest time of the steps; None for the default of `short_run`."""
    smoke_limit_s: float = LIMIT_S
    stores: bool = True
    """True if the measured step is stored for the next plan."""


class _Chosen(NamedTuple):
    """The program to measure, with remarks for the user."""

    recipe: Recipe
    notes: tuple[str, ...] = ()
    output: Path | None = None
    """New folder for the results and logs of the user's program; None for the reference workload."""

    @property
    def is_own(self) -> bool:
        """Return whether the recipe's own program runs, and not the reference workload."""
        return self.recipe.command.kind != "reference"


@stage("verify")
def verify_launch(
    recipe: Recipe, request: VerifyRequest, folder: Path
) -> Generator[Event, None, Verification]:
    """Prove the launch of a recipe and measure some steps; the last event's result is a `Verification`.

    The smoke test comes first; if one of its assertions fails, no step is measured. The measured step is
    stored for the next plan if the request says so. Files are written to `folder`. Raises UsageError for a
    recipe that cannot be started from here, OutputError if a file cannot be written, and WorkerError if the
    launch cannot start, or if the program fails after the smoke test.
    """
    recipe, folder = refreshed(recipe), folder.absolute()
    chosen = _chosen(recipe, request, folder)
    find_launcher(request.launcher)
    smoke = yield from smoke_test(
        chosen.recipe,
        folder / SMOKE,
        launcher=request.launcher,
        python=request.python or "",
        limit_s=request.smoke_limit_s,
    )
    if not smoke.is_proven:
        return _unproven(recipe, request, smoke)
    result = yield from _steps(recipe, chosen, request, folder, smoke)
    stored, note = "", ""
    if request.stores:
        stored, note = _store(recipe, result, chosen.is_own, smoke)
    notes = (*result.notes, *filter(None, (note,)))
    return msgspec.structs.replace(result, stored=stored, notes=notes)


def plan_verification(recipe: Recipe, request: VerifyRequest, folder: Path) -> VerifyPlan:
    """Return what `verify_launch` would run; nothing is started or written. Raises UsageError."""
    recipe, folder = refreshed(recipe), folder.absolute()
    chosen = _chosen(recipe, request, folder)
    smoke = smoke_command(chosen.recipe, folder / SMOKE, request.launcher, 1, request.smoke_limit_s)
    arguments = () if chosen.is_own else ("--steps", str(request.steps), "--report", "report.jsonl")
    command, _ = started_by(chosen.recipe, request.launcher, folder, arguments, "verify")
    helper = helper_file() if imports_helper(chosen.recipe) else None
    artifacts = launch_files(chosen.recipe, request.launcher, helper)
    return VerifyPlan(
        name=recipe.name,
        launcher=request.launcher,
        program="own" if chosen.is_own else "reference",
        steps=request.steps,
        folder=str(folder),
        smoke_command=smoke,
        command=command,
        files=tuple(artifact.path for artifact in artifacts if "/" not in artifact.path),
        asserted=assertions(recipe),
        notes=chosen.notes,
    )


def _chosen(recipe: Recipe, request: VerifyRequest, folder: Path) -> _Chosen:
    """Return the program to measure: the recipe's own, if its checkpoints are safe or the user asks for it.

    Raises UsageError for a program that cannot run here.
    """
    resources = msgspec.structs.replace(recipe.resources, python=request.python or recipe.resources.python)
    recipe = msgspec.structs.replace(recipe, resources=resources)
    reference = msgspec.structs.replace(recipe, command=Command(kind="reference"))
    if recipe.command.kind == "reference":
        return _Chosen(reference)
    if request.program == "reference":
        return _Chosen(reference, notes=tuple(other_program_notes(recipe, reference)))
    require_runnable(recipe)
    # An earlier run's logs and checkpoints would count as those of this run.
    names = itertools.chain((OUTPUT,), (f"{OUTPUT}-{number}" for number in itertools.count(2)))
    output = next(path for name in names if not (path := folder / name).exists())
    own = with_own_output(recipe, str(output))
    if own is not None:
        note = f"Your program wrote its checkpoints to {output}, so that none of yours is lost."
        return _Chosen(own, (note,), output)
    if request.program == "own":
        return _Chosen(with_output_slots(recipe, str(output)), output=output)
    note = (
        "This ran the reference program with the recipe's shapes, not the recipe's own program, whose "
        "arguments name no output folder that rigtune knows (--output_dir, --save ...): a short run could "
        "replace its checkpoints. --own runs your program nevertheless."
    )
    return _Chosen(reference, notes=(note,))


def _steps(
    recipe: Recipe, chosen: _Chosen, request: VerifyRequest, folder: Path, smoke: SmokeTest
) -> Generator[Event, None, Verification]:
    """Run some steps and compare them with the prediction. Raises WorkerError if the program fails."""
    ranks = chosen.recipe.parallelism.world_size
    title = f"Training {recipe.name} for {plural(request.steps, 'step')} on {plural(ranks, 'rank')}"
    yield StageStarted(stage="verify", title=title)
    busy = busy_host() if recipe.resources.device == "cpu" else ""
    run = yield from short_run(
        chosen.recipe,
        folder,
        stage="verify",
        steps=request.steps,
        title="verify",
        python=request.python or "",
        limit_s=request.limit_s,
        launcher=request.launcher,
        logs=chosen.output,
    )
    if run.failure:
        for words in run.output:
            yield Progress(stage="verify", message=words)
        raise WorkerError(
            f"the verification of {recipe.name} failed: {run.failure}", f"the whole output is in {run.log}"
        )
    if not chosen.is_own and run.start is not None and run.done is not None:
        result = _of_reference(recipe, chosen, run.start, run.done, run)
    else:
        result = _of_own(recipe, chosen, run)
    result = msgspec.structs.replace(result, launcher=request.launcher, log=run.log)
    return _judged(recipe, result, smoke, busy)


def _of_reference(recipe: Recipe, chosen: _Chosen, start: Start, done: Done, run: ShortRun) -> Verification:
    """Return the figures that the reference program reports."""
    notes = [*chosen.notes]
    predicted = recipe.predicted
    if recipe.not_in_reference:
        parts = ", ".join(recipe.not_in_reference)
        notes.append(
            f"The reference program does not build all of the model ({parts}): it trained a dense decoder "
            "of the recipe's other sizes. Its time and memory cannot be compared with the prediction."
        )
        predicted = Prediction()
    result = Verification(
        name=recipe.name,
        steps=done.steps,
        world_size=start.world_size,
        backend=start.backend,
        device_name=start.device_name,
        torch_version=start.torch_version,
        step_time_s=compare_step_time(predicted, done.median_step_time_s),
        steps_s=warm_steps(run.steps_s),
        loss_first=done.loss_first,
        loss_last=done.loss_last,
        notes=(*notes, *_loss_notes((done.loss_first, done.loss_last))),
    )
    return _with_memory(result, predicted, done.peak_memory_bytes, done.peak_reserved_bytes)


def _of_own(recipe: Recipe, chosen: _Chosen, run: ShortRun) -> Verification:
    """Return the figures that the recipe's own program reports, or that its log contains."""
    notes = [*chosen.notes]
    losses: tuple[float | None, ...] = tuple(
        line.loss for line in run.reported if line.loss is not msgspec.UNSET
    )
    times, step_s = warm_steps(run.steps_s), median_step_s(run.steps_s)
    allocated, reserved, steps = run.allocated_bytes, run.reserved_bytes, len(run.reported)
    if not run.reported:
        parallelism = recipe.parallelism
        sequence_length = recipe.model.sequence_length if recipe.model is not None else 1
        tokens = parallelism.global_batch * sequence_length / parallelism.world_size
        figures = figures_of(run.own_log, tokens_per_gpu=tokens, left_out=WARM_UP)
        if figures is not None:
            step_s, times, steps = figures.step_time_s, figures.steps_s, figures.steps
            allocated, reserved = figures.allocated_bytes, figures.reserved_bytes
            losses = (figures.loss_first, figures.loss_last)
            notes += [f"The figures are those of the program's log ({figures.format}).", *figures.notes]
    if step_s is None:
        notes.append("The program's log has no step times: let it write steps to the file in RIGTUNE_REPORT.")
    finite = [loss for loss in losses if loss is not None]
    predicted = recipe.predicted
    result = Verification(
        name=recipe.name,
        program="own",
        steps=steps,
        world_size=recipe.parallelism.world_size,
        backend=recipe.resources.backend,
        device_name=recipe.resources.device_name,
        torch_version="",
        step_time_s=None if step_s is None else compare_step_time(predicted, step_s),
        steps_s=times,
        loss_first=finite[0] if finite else None,
        loss_last=finite[-1] if finite else None,
        notes=(*notes, *_loss_notes(losses)),
    )
    return _with_memory(result, predicted, allocated, reserved)


def _with_memory(
    result: Verification, predicted: Prediction, allocated: float | None, reserved: float | None
) -> Verification:
    """Return the result with the measured memory; figures that the program does not report are None."""
    return msgspec.structs.replace(
        result,
        peak_memory_bytes=None if allocated is None else compare_peak_memory(predicted, allocated),
        reserved_memory_bytes=None if reserved is None else compare_reserved_memory(predicted, reserved),
        worst_memory_bytes=None if reserved is None else compare_worst_memory(predicted, reserved),
    )


def _loss_notes(losses: Sequence[float | None]) -> tuple[str, ...]:
    """Return a note if the reported loss did not fall, or was no finite number (None) in the end."""
    if not any(loss is not None for loss in losses):
        return ()
    first, last = losses[0], losses[-1]
    if last is None:
        return (_NOT_FINITE,)
    return (_NO_FALL,) if len(losses) > 1 and first is not None and last >= first else ()


def _judged(recipe: Recipe, result: Verification, smoke: SmokeTest, busy: str) -> Verification:
    """Return the result with the findings on the launch, the step time and the memory."""
    is_own = result.program == "own"
    findings = [*smoke.findings]
    time, memory = result.step_time_s, result.peak_memory_bytes
    if time is not None and time.predicted is not None:
        judged = judge_step_time(
            recipe, time.measured, time.predicted, launch=smoke.findings, busy=busy, is_own=is_own
        )
        findings.append(judged)
    findings += judge_memory(memory, result.reserved_memory_bytes, result.worst_memory_bytes)
    first = smoke.ranks[0]
    return msgspec.structs.replace(
        result,
        findings=tuple(findings),
        transports=smoke.transports,
        device_name=result.device_name or first.device_name,
        torch_version=result.torch_version or first.torch_version,
    )


def _unproven(recipe: Recipe, request: VerifyRequest, smoke: SmokeTest) -> Verification:
    """Return the result of a launch that failed the smoke test."""
    first = smoke.ranks[0] if smoke.ranks else None
    return Verification(
        name=recipe.name,
        program="none",
        launcher=request.launcher,
        findings=smoke.findings,
        world_size=first.world_size if first else 0,
        backend=first.backend if first else "",
        transports=smoke.transports,
        device_name=first.device_name if first else "",
        torch_version=first.torch_version if first else "",
        notes=("No step was measured, because the launch failed the smoke test.",),
        log=str(smoke.log),
    )


def _store(recipe: Recipe, result: Verification, is_own: bool, smoke: SmokeTest) -> tuple[str, str]:
    """Store the measured step for the next plan; return its file, and a remark if it cannot be stored.

    Both are empty if there is nothing to store.
    """
    if result.step_time_s is None or not result.steps_s or (recipe.not_in_reference and not is_own):
        return "", ""
    if recipe.images is not None:
        return "", "The measured step was not stored: stored steps are those of transformers."
    if recipe.made_for is None:
        return "", "The measured step was not stored: the recipe does not name the machine it was made for."
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    program = recipe.program if is_own else REFERENCE_PROGRAM
    ranks = plural(result.world_size, "rank")
    conditions: dict[str, Parameter] = {
        "date": now[:10],
        "threads": max(each.threads for each in smoke.ranks),
        "device_name": result.device_name,
        "torch_version": result.torch_version,
        "launcher": result.launcher,
    }
    parameters = step_parameters(text_workload_of(recipe), recipe.parallelism.candidate, program)
    figures = [("step_time_s", "s", result.steps_s)]
    if result.peak_memory_bytes is not None:
        figures.append(("peak_memory_bytes", "byte", (result.peak_memory_bytes.measured,)))
    measurements = tuple(
        Measurement(
            bench_id=BENCHMARK,
            subject=ranks,
            metric=metric,
            unit=unit,
            samples=samples,
            parameters=parameters,
            conditions=conditions,
        )
        for metric, unit, samples in figures
    )
    measured = MeasurementSet(
        suite=BENCHMARK, started=now, machine=recipe.made_for.machine, measurements=measurements
    )
    try:
        return str(save_verified(measured)), ""
    except OutputError as error:
        return "", f"The measured step was not stored: {error.message}."
