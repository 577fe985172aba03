"""A check is a file, a row and a test: files and rows must agree."""

from __future__ import annotations

import inspect
from pathlib import Path

import probes.checks
from probes.registry import CHECKS
from probes.thresholds import Cited, Thresholds, load_thresholds

FOLDER = Path(probes.checks.__file__ or "").parent


def test_every_file_has_one_row_and_every_row_its_file() -> None:
    files = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    assert sorted(row.id.replace("-", "_") for row in CHECKS) == files
    assert len({row.id for row in CHECKS}) == len(CHECKS)


def test_modules_answer_to_their_row() -> None:
    for row in CHECKS:
        module = row.load()
        assert module.JUDGE.check_id == row.id
        assert list(inspect.signature(module.check).parameters) == ["evidence"]
        assert "Source:" in (module.__doc__ or ""), f"{row.module} names no source"


def test_every_limit_cites_its_source() -> None:
    limits = load_thresholds()
    rows = [getattr(limits, name) for name in Thresholds.__struct_fields__]
    cited = [row for value in rows for row in (value if isinstance(value, tuple) else (value,))]
    assert all(isinstance(row, Cited) and row.source and row.date[:2] == "20" for row in cited)
