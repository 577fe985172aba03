"""Data rows shipped beside the code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_rows(name: str) -> dict[str, Any]:
    """The content of `probes/data/<name>.toml`. By path: importlib.resources costs every start several milliseconds."""
    return tomllib.loads((Path(__file__).parent / "data" / f"{name}.toml").read_text("utf-8"))
