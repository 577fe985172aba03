"""Reads the data rows that ship with the planner: figures of the world, each with its source and date."""

from __future__ import annotations

import sys
from importlib import resources
from typing import TypeVar

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RowT = TypeVar("RowT")


def load_families(table: str, row_type: type[RowT]) -> tuple[RowT, ...]:
    """The `[[table]]` rows of all files of `recipes/data/<table>/`. What a file says in `[family]` holds for
    each of its rows.
    """
    rows: list[dict[str, object]] = []
    folder = resources.files("recipes").joinpath("data", table)
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        data = tomllib.loads(file.read_text("utf-8"))
        shared = data.get("family", {})
        rows += [{**shared, **row} for row in data[table]]
    return msgspec.convert(rows, tuple[row_type, ...])  # type: ignore[valid-type]


def load_rows(table: str, row_type: type[RowT], *, file: str | None = None) -> tuple[RowT, ...]:
    """The `[[table]]` rows of `recipes/data/<file>.toml`, in their order; the file is named after the table
    unless given.
    """
    text = resources.files("recipes").joinpath("data", f"{file or table}.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text)[table], tuple[row_type, ...])  # type: ignore[valid-type]
