"""The recorded servers outside the project, in the folder that RIGTUNE_SHARED names, and what their index
states.
"""

from __future__ import annotations

import csv
import functools
import os
from pathlib import Path

import pytest

MACHINES = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "machines"
INDEX = MACHINES / "INDEX.csv"

needs_recordings = pytest.mark.skipif(not INDEX.exists(), reason="no recorded servers: set RIGTUNE_SHARED")


@functools.cache
def index() -> dict[str, dict[str, str]]:
    """The rows of the index by path; none where the recordings are not there."""
    if not INDEX.exists():
        return {}
    with INDEX.open(encoding="utf-8", newline="") as file:
        return {row["path"]: row for row in csv.DictReader(file)}


def is_output(path: str) -> bool:
    """Return False for the test files of other projects among the recordings: no tool on a machine writes
    them.
    """
    return not path.startswith("machines/") or path.endswith(".csv")
