"""Data rows shipped beside the code."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_rows(name: str) -> dict[str, Any]:
    """The content of `probes/data/<name>.toml`. By path: importlib.resources costs every start several
    milliseconds.
    """
    return tomllib.loads(row_text(name))


def row_names(name: str) -> tuple[str, ...]:
    """The `name` of every row of `probes/data/<name>.toml` that stands on a line of its own.

    For long tables of which a start needs only this: reading all of it costs milliseconds.
    """
    return tuple(re.findall(r'^ *\{ name = "([^"\n]+)"', row_text(name), re.MULTILINE))


def row_on_line(name: str, row: str) -> dict[str, Any] | None:
    """The row of that `name` in a table whose rows stand on a line each; None where there is none."""
    line = re.search(rf'^ *(\{{ name = "{re.escape(row)}".*\}}),?$', row_text(name), re.MULTILINE)
    return None if line is None else tomllib.loads(f"row = {line[1]}")["row"]


def rows_with(name: str, words: str) -> list[dict[str, Any]]:
    """The rows of `[[name]]` in `probes/data/<name>.toml` in whose text `words` stand, in whatever case."""
    begin = f"[[{name}]]\n"
    blocks = row_text(name).split(begin)[1:]
    return [
        row
        for block in blocks
        if words.lower() in block.lower()
        for row in tomllib.loads(begin + block)[name]
    ]


@functools.lru_cache(maxsize=16)
def row_text(name: str) -> str:
    """Return the text of `probes/data/<name>.toml`."""
    return (Path(__file__).parent.parent / "data" / f"{name}.toml").read_text("utf-8")
