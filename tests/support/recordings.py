"""Recorded servers outside the project, in the folder of RIGTUNE_SHARED, and the rows of their index."""

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
    """Return the rows of the index by path; none if the recordings are absent."""
    if not INDEX.exists():
        return {}
    with INDEX.open(encoding="utf-8", newline="") as file:
        return {row["path"]: row for row in csv.DictReader(file)}


def is_output(path: str) -> bool:
    """Return whether a file is the output of a tool.

    Test files of other projects among the recordings are not.
    """
    return not path.startswith("machines/") or path.endswith(".csv")
