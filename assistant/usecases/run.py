"""Start the training that a recipe describes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path

from assistant.foreground import run_in_foreground
from assistant.usecases.events import Event, Progress, StageFinished, StageStarted
from assistant.usecases.export import export_recipe, find_launcher
from recipes.launch.recipe import Recipe


def run_recipe(
    recipe: Recipe, *, launcher: str = "torchrun", directory: Path, arguments: tuple[str, ...] = ()
) -> Iterator[Event]:
    """Export into `directory` and run the job in the foreground; the last result is its exit code.

    `arguments` go to the program. A scheduler's launcher submits the job and returns. Raises the errors of
    `export_recipe`, UsageError if the launcher cannot start this recipe from here, and WorkerError if the
    start fails.
    """
    started = time.monotonic()
    row = find_launcher(launcher)
    command: tuple[str, ...] = row.load().start(recipe, str(directory.absolute()), arguments)
    yield from (
        event
        for event in export_recipe(recipe, (launcher,), directory)
        if not isinstance(event, StageFinished)
    )
    yield StageStarted(stage="run", title=f"Starting {recipe.name} with {row.id}")
    yield Progress(stage="run", message=shlex.join(command))
    code = run_in_foreground(command)
    yield StageFinished(stage="run", result=code, duration_s=time.monotonic() - started)
