"""Start the training that a recipe describes."""

from __future__ import annotations

import shlex
from collections.abc import Generator
from pathlib import Path

from assistant.foreground import run_in_foreground
from assistant.usecases.events import Event, Progress, StageStarted, result_of, stage
from assistant.usecases.export import export_recipe, find_launcher
from recipes.launch.recipe import Recipe


@stage("run")
def run_recipe(
    recipe: Recipe, *, launcher: str = "torchrun", directory: Path, arguments: tuple[str, ...] = ()
) -> Generator[Event, None, int]:
    """Export into `directory` and run the job in the foreground; the last result is its exit code.

    `arguments` go to the program. A scheduler's launcher submits the job and returns. Raises the errors of
    `export_recipe`, UsageError if the launcher cannot start this recipe from here, and WorkerError if the
    start fails.
    """
    row = find_launcher(launcher)
    command: tuple[str, ...] = row.load().start(recipe, str(directory.absolute()), arguments)
    yield from result_of(export_recipe(recipe, (launcher,), directory))
    yield StageStarted(stage="run", title=f"Starting {recipe.name} with {row.id}")
    yield Progress(stage="run", message=shlex.join(command))
    return run_in_foreground(command)
