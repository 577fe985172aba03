"""Data rows shipped beside the code."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_rows(name: str) -> dict[str, Any]:
    """The content of `probes/data/<name>.toml`. By path: importlib.resources costs every start several milliseconds."""
    return tomllib.loads(_text(name))


def row_names(name: str) -> tuple[str, ...]:
    """The `name` of every row of `probes/data/<name>.toml` that stands on a line of its own.

    For long tables of which a start needs only this: reading all of it costs milliseconds.
    """
    return tuple(re.findall(r'^ *\{ name = "([^"\n]+)"', _text(name), re.MULTILINE))


def _text(name: str) -> str:
    return (Path(__file__).parent / "data" / f"{name}.toml").read_text("utf-8")
