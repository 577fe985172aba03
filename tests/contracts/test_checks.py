"""A check is a file, a row and a test: files and rows must agree."""

from __future__ import annotations

import inspect
from pathlib import Path

import probes.checks
from probes.catalogue.thresholds import Cited, Thresholds, load_thresholds
from probes.judging.findings import Judge
from probes.registry import CHECKS

FOLDER = Path(probes.checks.__file__ or "").parent


def test_every_file_has_a_row_and_every_row_its_file() -> None:
    files = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    assert sorted({row.module.rpartition(".")[2] for row in CHECKS}) == files
    assert len({row.id for row in CHECKS}) == len(CHECKS)


def test_modules_answer_to_their_row() -> None:
    for row in CHECKS:
        module = row.load()
        judges = {value.check_id for value in vars(module).values() if isinstance(value, Judge)}
        assert row.id in judges
        assert list(inspect.signature(getattr(module, row.function)).parameters) == ["evidence"]
        assert "Source:" in (module.__doc__ or ""), f"{row.module} names no source"


def test_every_limit_cites_its_source() -> None:
    limits = load_thresholds()
    rows = [getattr(limits, name) for name in Thresholds.__struct_fields__]
    cited = [row for value in rows for row in (value if isinstance(value, tuple) else (value,))]
    assert all(isinstance(row, Cited) and row.source and row.date[:2] == "20" for row in cited)
