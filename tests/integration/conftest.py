"""Fixtures that the tests with real programs share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recipes.launch.launch_files import launch_files
from recipes.launch.recipe import Recipe

Export = Callable[[str, Recipe, Path], Path]


@pytest.fixture
def export() -> Export:
    """Return `export(launcher, recipe, folder)`, which writes launch files and returns the start script."""

    def write(launcher: str, recipe: Recipe, folder: Path) -> Path:
        artifacts = launch_files(recipe, launcher)
        for artifact in artifacts:
            path = folder / artifact.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(artifact.text)
            path.chmod(artifact.mode)
        return folder / artifacts[0].path

    return write


class TrainingReport(NamedTuple):
    """The report of the reference program."""

    start: dict[str, Any]
    losses: list[float]
    done: dict[str, Any]


@pytest.fixture
def read_report() -> Callable[[Path], TrainingReport]:
    def read(path: Path) -> TrainingReport:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        by_event = {line["event"]: line for line in lines}
        losses = [line["loss"] for line in lines if line["event"] == "step"]
        return TrainingReport(by_event["start"], losses, by_event["done"])

    return read
