"""Limit the numbers of rooms and of imports between them; test for circular imports and a current picture."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

from tests.rooms import PACKAGES, ROOT, Arrows, draw, floors, read_imports

MOST_ROOMS = 44
MOST_ARROWS = 270
"""Pairs of rooms of which one imports the other. A new arrow is a decision: raise this with a reason.

The rooms of environment, settings, advice, strategies and tuning brought thirty, the fleet ten.
"""
MOST_LOOSE_MODULES = 8
MOST_REPEATED_NAMES = 28
"""Module names that occur twice in a package: two halves of a benchmark, a launcher and its program."""
MOST_LINES = 450


@functools.cache
def _imports() -> tuple[Arrows, dict[str, int]]:
    return read_imports()


def _files() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def test_no_rooms_import_each_other_in_a_circle():
    arrows, _ = _imports()
    assert set(floors(arrows)) == set(arrows)


def test_there_are_few_rooms_and_few_arrows():
    arrows, _ = _imports()
    assert len(arrows) <= MOST_ROOMS
    assert sum(map(len, arrows.values())) <= MOST_ARROWS


def test_few_modules_stand_loose_beside_the_rooms():
    for package in PACKAGES:
        loose = [path.name for path in (ROOT / package).glob("*.py") if not path.name.startswith("_")]
        assert len(loose) <= MOST_LOOSE_MODULES, loose


def test_few_names_of_files_are_repeated():
    names = Counter(
        (path.relative_to(ROOT).parts[0], path.stem) for path in _files() if not path.stem.startswith("__")
    )
    repeated = [name for name, count in names.items() if count > 1]
    assert len(repeated) <= MOST_REPEATED_NAMES, repeated


def test_files_are_short():
    long = {str(path.relative_to(ROOT)): path.read_text("utf-8").count("\n") for path in _files()}
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES} == {}


def test_the_picture_in_the_docs_shows_every_room():
    arrows, lines = _imports()
    picture = (ROOT / "assistant" / "docs" / "rooms.svg").read_text("utf-8")
    drawn = draw(arrows, lines)
    assert _without_lines(picture) == _without_lines(drawn), "python -m tests.rooms assistant/docs/rooms.svg"


def _without_lines(picture: str) -> list[str]:
    """Return the picture without the counts of lines, which change with every commit."""
    return [line for line in picture.splitlines() if not line.endswith(" lines</text>")]
