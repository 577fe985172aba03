"""Verify a recipe's prediction by a short run of the reference program with the recipe's shapes."""

import contextlib
import re
import shlex
import time
from collections.abc import Generator
from pathlib import Path
from typing import TypeAlias

import msgspec

from assistant.runner import Job
from assistant.storage import default_run_directory
from assistant.usecases.events import Event, Progress, StageStarted, result_of, stage
from assistant.usecases.export import export_recipe, find_launcher
from probes.base.errors import WorkerError
from probes.base.record import Record
from probes.base.units import duration
from recipes.launch.edited import refreshed
from recipes.launch.recipe import Command, Prediction, Recipe
from recipes.launch.verification import (
    Verification,
    compare_peak_memory,
    compare_reserved_memory,
    compare_step_time,
    compare_worst_memory,
)

_START_S = 300.0
"""Time to import torch on every rank, from a network file system without caches, and to connect the ranks."""
_STEP_S = 60.0
"""Time limit for one step if no step time is predicted."""
_PATIENCE = 10.0
"""A run is stopped when its time exceeds the prediction by this factor."""
_POLL_S = 0.5
_TAIL_LINES = 12
_CAUSE = re.compile(
    r"^((launch(-all)?\.sh|rigtune_worker): |(\[rank\d+\]: )?\w[\w.]*(Error|Exception)\b)|No module named"
)


class _Start(Record, kw_only=True, tag_field="event", tag="start"):
    world_size: int
    backend: str
    device_name: str
    torch_version: str


class _Step(Record, kw_only=True, tag_field="event", tag="step"):
    step: int
    loss: float
    duration_s: float


class _Done(Record, kw_only=True, tag_field="event", tag="done"):
    steps: int
    interrupted: bool
    median_step_time_s: float
    peak_memory_bytes: float
    peak_reserved_bytes: float | None = None
    loss_first: float
    loss_last: float


class _Failed(Record, kw_only=True, tag_field="event", tag="failed"):
    message: str


_Line: TypeAlias = _Start | _Step | _Done | _Failed


@stage("verify")
def verify_recipe(
    recipe: Recipe,
    *,
    steps: int = 20,
    python: str | None = None,
    directory: Path | None = None,
    timeout_s: float | None = None,
) -> Generator[Event, None, Verification]:
    """Train `steps` steps with the torchrun launch script; the last event's result is a `Verification`.

    The run always uses the reference program, whose model has the recipe's shapes; for a recipe with the
    user's own program the result contains a note. If the model has parts that the reference program does not
    build, such as experts, nothing is compared with the prediction. `python` overrides the recipe's
    interpreter. Files are written to `directory`, by default a new run folder. Raises UsageError for a recipe
    that cannot be started on this machine, and WorkerError if the run fails or takes longer than `timeout_s`
    (by default a multiple of the prediction); before this error, `Progress` events show the end of the
    output.
    """
    started = time.monotonic()
    recipe = refreshed(recipe)
    folder = (directory or default_run_directory() / "verify").absolute()
    resources = msgspec.structs.replace(recipe.resources, python=python or recipe.resources.python)
    trial = msgspec.structs.replace(recipe, command=Command(kind="reference"), resources=resources)
    log, report = folder / "verify.log", folder / "report.jsonl"
    arguments = ("--steps", str(steps), "--report", str(report))
    command: tuple[str, ...] = find_launcher("torchrun").load().start(trial, str(folder), arguments)
    yield from result_of(export_recipe(trial, ("torchrun",), folder, overwrite=True))
    report.unlink(missing_ok=True)

    yield StageStarted(
        stage="verify",
        title=f"Training {recipe.name} for {steps} steps on {trial.parallelism.world_size} ranks",
    )
    yield Progress(stage="verify", message=shlex.join(command))
    deadline_s = timeout_s if timeout_s is not None else _deadline_s(recipe, steps)
    lines: list[_Line] = []
    # The interpreter that the user named for this run has precedence over RIGTUNE_PYTHON of the shell.
    environment = {"RIGTUNE_PYTHON": trial.resources.python} if python else {}
    with Job(command, directory=Path.cwd(), environment=environment, log=log) as job:
        code: int | None = None
        while code is None and time.monotonic() - started < deadline_s:
            code = job.wait(_POLL_S)
            # The report is small, so reading all of it again is simpler than reading only its new lines.
            reported, lines = len(lines), _read_report(report)
            for line in lines[reported:]:
                if isinstance(line, _Step):
                    message = f"step {line.step}: loss {line.loss:.3f}, {duration(line.duration_s)}"
                    yield Progress(stage="verify", message=message, done=line.step, total=steps)
        tail = job.log_tail()
    failure = _failure(lines, code, tail, deadline_s)
    if failure:
        for words in tail.splitlines()[-_TAIL_LINES:]:
            yield Progress(stage="verify", message=words)
        raise WorkerError(
            f"the verification of {recipe.name} failed: {failure}", f"the whole output is in {log}"
        )
    return _verification(recipe, lines, log)


def _deadline_s(recipe: Recipe, steps: int) -> float:
    predicted_s = recipe.predicted.step_time_s
    return _START_S + steps * (_STEP_S if predicted_s is None else _PATIENCE * predicted_s)


def _read_report(path: Path) -> list[_Line]:
    """Return the complete lines of the report; the last line may still be incomplete."""
    lines: list[_Line] = []
    with contextlib.suppress(OSError, UnicodeError, msgspec.DecodeError):
        for line in path.read_bytes().splitlines():
            lines.append(msgspec.json.decode(line, type=_Line))
    return lines


def _failure(lines: list[_Line], code: int | None, tail: str, deadline_s: float) -> str:
    """Return the reason why the run failed; empty if it succeeded."""
    for line in lines:
        if isinstance(line, _Failed):
            return line.message
    if code is None:
        return f"it did not end within {duration(deadline_s)}"
    done = [line for line in lines if isinstance(line, _Done)]
    if code == 0 and done and not done[0].interrupted and isinstance(lines[0], _Start):
        return ""
    cause = next((line for line in tail.splitlines() if _CAUSE.search(line)), "")
    if code:
        return f"{cause} (exit code {code})" if cause else f"exit code {code}"
    return cause or "it ended without a report"


def _verification(recipe: Recipe, lines: list[_Line], log: Path) -> Verification:
    start = next(line for line in lines if isinstance(line, _Start))
    done = next(line for line in lines if isinstance(line, _Done))
    notes = []
    if recipe.command.kind != "reference":
        notes.append("This ran the reference program with the recipe's shapes, not the recipe's own program.")
    predicted = recipe.predicted
    if recipe.not_in_reference:
        parts = ", ".join(recipe.not_in_reference)
        notes.append(
            f"The reference program does not build all of the model ({parts}): it trained a dense decoder "
            "of the recipe's other sizes. Its time and memory cannot be compared with the prediction."
        )
        predicted = Prediction()
    if done.loss_last >= done.loss_first:
        notes.append("The loss did not fall in these few steps.")
    reserved = done.peak_reserved_bytes
    return Verification(
        name=recipe.name,
        steps=done.steps,
        world_size=start.world_size,
        backend=start.backend,
        device_name=start.device_name,
        torch_version=start.torch_version,
        step_time_s=compare_step_time(predicted, done.median_step_time_s),
        peak_memory_bytes=compare_peak_memory(predicted, done.peak_memory_bytes),
        reserved_memory_bytes=None if reserved is None else compare_reserved_memory(predicted, reserved),
        worst_memory_bytes=None if reserved is None else compare_worst_memory(predicted, reserved),
        loss_first=done.loss_first,
        loss_last=done.loss_last,
        notes=tuple(notes),
        log=str(log),
    )
