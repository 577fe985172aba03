"""Test that the files and data rows of checks, and the lines of the check table, agree."""

from __future__ import annotations

import ast
import inspect
import typing
from functools import partial
from pathlib import Path

import msgspec
import pytest

import probes.checks
from probes.base.table_rows import CheckRow
from probes.catalogue.check_rows import LimitCheck, LogCheck, limit_rows, log_rows
from probes.catalogue.thresholds import Cited, Thresholds, load_thresholds
from probes.facts.observed import EventKind
from probes.judging.check_table import CHECKS
from probes.judging.findings import Judge

FOLDER = Path(probes.checks.__file__ or "").parent
TABLES = {"__init__"}
FUNCTIONS = [row for row in CHECKS if row.rules is None]


def test_every_file_has_a_row_and_every_row_its_file() -> None:
    files = {path.relative_to(FOLDER) for path in FOLDER.rglob("*.py") if path.stem not in TABLES}
    modules = {row.module.removeprefix("probes.checks.") for row in CHECKS}
    assert {Path(f"{module.replace('.', '/')}.py") for module in modules} == files
    assert len({row.id for row in CHECKS}) == len(CHECKS)


def test_every_data_row_has_a_line_in_the_table() -> None:
    assert sorted([*limit_rows(), *log_rows()]) == sorted(row.id for row in CHECKS if row.rules is not None)


@pytest.mark.parametrize("check_id", limit_rows())
def test_a_data_row_is_well_formed(check_id: str) -> None:
    row = msgspec.convert(limit_rows()[check_id], LimitCheck)
    assert row.rules
    if all(rule.where for rule in row.rules):
        assert row.fact in row.known, "every rule has `where`: name the fact in `known`, or unknown passes"
    for rule in row.rules:
        numbers = (rule.at_least, rule.at_most, rule.below)
        conditions = (*numbers, rule.one_of, rule.none_of, rule.on, rule.as_most, rule.empty or None)
        assert sum(condition is not None for condition in conditions) == 1
        assert rule.fix or row.fix
        assert bool(rule.limit) == bool(rule.source) == bool(rule.date), (
            "a number that a policy can set cites its source"
        )


@pytest.mark.parametrize("check_id", log_rows())
def test_a_data_row_of_a_log_is_well_formed(check_id: str) -> None:
    row = msgspec.convert(log_rows()[check_id], LogCheck)
    assert row.source
    assert set(row.kinds) <= set(typing.get_args(EventKind))
    assert all(set(rule.kinds) <= set(row.kinds) and (rule.fix or row.fix) for rule in row.rules)
    assert not row.limit or row.limit in load_thresholds().numbers


@pytest.mark.parametrize("row", FUNCTIONS, ids=lambda row: row.id)
def test_modules_answer_to_their_row(row: CheckRow) -> None:
    module = row.load()
    judges = {value.check_id for value in vars(module).values() if isinstance(value, Judge)}
    judges |= {value.args[0].judge.check_id for value in vars(module).values() if isinstance(value, partial)}
    assert row.id in judges
    assert list(inspect.signature(getattr(module, row.function)).parameters) == ["evidence"]
    assert "Source:" in (module.__doc__ or ""), f"{row.module} names no source"


def test_every_limit_cites_its_source() -> None:
    limits = load_thresholds()
    rows = [
        *limits.numbers.values(),
        *(getattr(limits, name) for name in Thresholds.__struct_fields__ if name != "numbers"),
    ]
    cited = [row for value in rows for row in (value if isinstance(value, tuple) else (value,))]
    assert all(isinstance(row, Cited) and row.source and row.date[:2] == "20" for row in cited)


def test_every_limit_is_used_and_every_used_limit_exists() -> None:
    limits = load_thresholds()
    code = [ast.parse(path.read_text("utf-8")) for path in FOLDER.parent.rglob("*.py")]
    used = {node.attr for tree in code for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    used |= {node.value for tree in code for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    in_rows = f"{limit_rows()} {log_rows()}"
    assert not [name for name in limits.settable if name not in used and name not in in_rows]
    fields = {
        node.attr
        for tree in code
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "thresholds"
    } - {"items"}
    assert not [name for name in fields if not hasattr(limits, name)]
