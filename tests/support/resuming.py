"""The program of a job that tests interrupt and start again, and a check of its losses."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from recipes.launch.recipe import Command

PROGRAM = Path(__file__).with_name("resumable.py")
STEPS = 12
LIMIT_S = 240


def resumable(folder: Path) -> Command:
    folder.mkdir(parents=True)
    return Command(kind="script", target=str(PROGRAM), arguments=(str(folder), str(STEPS)))


def wait_until(is_reached: Callable[[], object], what: Callable[[], str] = lambda: "") -> None:
    ends = time.monotonic() + LIMIT_S
    while not is_reached():
        assert time.monotonic() < ends, what()
        time.sleep(0.2)


def assert_resumed(folder: Path, world: int, starts: int = 2) -> None:
    """Check that every step was trained once, with the losses of a run without an interruption."""
    lines = [line.split() for line in (folder / "losses").read_text().splitlines()]
    assert [int(step) for _, step, *_ in lines] == list(range(1, STEPS + 1))
    assert [int(start) for start, *_ in lines] == [0] * (STEPS // 2) + [starts - 1] * (STEPS // 2)
    weight = 10.0
    for _, _, loss, *_ in lines:
        assert float(loss) == pytest.approx(sum((weight - rank) ** 2 for rank in range(world)) / world)
        weight -= 0.1 * sum(2 * (weight - rank) for rank in range(world)) / world
