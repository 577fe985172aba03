"""Verify a recipe's prediction by a short run of the reference program with the recipe's shapes."""

from collections.abc import Generator
from pathlib import Path

import msgspec

from assistant.storage import default_run_directory
from assistant.usecases.events import Event, Progress, StageStarted, stage
from assistant.usecases.short_run import Done, Start, short_run
from probes.base.errors import WorkerError
from recipes.launch.edited import refreshed
from recipes.launch.recipe import Command, Prediction, Recipe
from recipes.launch.verification import (
    Verification,
    compare_peak_memory,
    compare_reserved_memory,
    compare_step_time,
    compare_worst_memory,
)


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
    recipe = refreshed(recipe)
    folder = (directory or default_run_directory() / "verify").absolute()
    resources = msgspec.structs.replace(recipe.resources, python=python or recipe.resources.python)
    trial = msgspec.structs.replace(recipe, command=Command(kind="reference"), resources=resources)
    title = f"Training {recipe.name} for {steps} steps on {trial.parallelism.world_size} ranks"
    yield StageStarted(stage="verify", title=title)
    run = yield from short_run(
        trial,
        folder,
        stage="verify",
        steps=steps,
        title="verify",
        python=resources.python if python else "",
        limit_s=timeout_s,
    )
    log = folder / "verify.log"
    if run.failure or run.start is None or run.done is None:
        for words in run.output:
            yield Progress(stage="verify", message=words)
        raise WorkerError(
            f"the verification of {recipe.name} failed: {run.failure}", f"the whole output is in {log}"
        )
    return _verification(recipe, run.start, run.done, log)


def _verification(recipe: Recipe, start: Start, done: Done, log: Path) -> Verification:
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
