"""Turn the user's options into the records of the use cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assistant.usecases.plan import PlanRequest
from recipes.job.workload import Pins
from recipes.launch.recipe import Command


def request_of(model: str, wanted: dict[str, Any]) -> PlanRequest:
    """Return the options of `plan_options` as a request."""
    pins = Pins(
        **{name: wanted.pop(name) for name in ("strategy", "micro_batch", "ranks_per_node", "learning_rate")}
    )
    return PlanRequest(model=model, pins=pins, **wanted)


def command_of(program: tuple[str, ...]) -> Command:
    """Return the user's training command: `script.py ARGS`, `python script.py ARGS` or `-m module ARGS`.

    It runs in the current folder, so that relative paths keep their meaning wherever the launch script is.
    """
    words = list(program)
    if words and Path(words[0]).name.startswith("python"):
        words.pop(0)
    if not words:
        return Command(kind="reference")
    if words[0] == "-m" and len(words) > 1:
        return Command(
            kind="module", target=words[1], arguments=tuple(words[2:]), working_directory=str(Path.cwd())
        )
    return Command(
        kind="script", target=words[0], arguments=tuple(words[1:]), working_directory=str(Path.cwd())
    )
