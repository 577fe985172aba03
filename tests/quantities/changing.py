"""Predict the representative cases with the shipped rows of data and with changed rows."""

from __future__ import annotations

import csv
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec

from recipes.cases.collective import predict_collective_row
from recipes.cases.prediction import predict_row
from recipes.predict.parameters import values_by_id
from recipes.predict.training_job import ByKey
from tests.calibration.priors import recording_reads
from tests.support.clusters import cpu_cluster

_CASES = Path(__file__).resolve().parent / "cases.csv"


class Case(NamedTuple):
    """One prediction.

    `door` states what is predicted: a training run (`run`), a training run on two CPU ranks (`here`) or a
    collective (`collective`).
    """

    case_id: str
    door: str
    cells: Mapping[str, str]

    def predict(self) -> Any:
        """Return the answer of `rigtune predict` to this case."""
        if self.door == "collective":
            return predict_collective_row(self.cells)
        here = (lambda gpus, _: cpu_cluster(ranks=gpus or 2)) if self.door == "here" else None
        return predict_row(self.cells, here)


@functools.lru_cache(maxsize=1)
def load_cases() -> dict[str, Case]:
    """Return the representative cases by id; together they read every parameter that can be read."""
    with _CASES.open(newline="", encoding="utf-8") as file:
        rows = [{name: cell for name, cell in row.items() if cell} for row in csv.DictReader(file)]
    return {row["case_id"]: Case(row["case_id"], row.pop("door"), row) for row in rows}


def figures(answer: Any) -> tuple[float | bool, ...]:
    """Return every number and truth value of a prediction, in order. Words do not count."""
    return tuple(_numbers(msgspec.to_builtins(answer)))


def _numbers(value: Any) -> Iterator[float | bool]:
    match value:
        case dict():
            for part in value.values():
                yield from _numbers(part)
        case list() | tuple():
            for part in value:
                yield from _numbers(part)
        case bool() | int() | float():
            yield value


@functools.lru_cache(maxsize=1)
def present_figures() -> dict[str, tuple[float | bool, ...]]:
    """Return the figures of every case with the shipped rows."""
    return {name: figures(case.predict()) for name, case in load_cases().items()}


@functools.lru_cache(maxsize=1)
def cases_by_parameter() -> dict[str, tuple[str, ...]]:
    """Return the ids of the cases that read each parameter."""
    readers: dict[str, list[str]] = {}
    for case in load_cases().values():
        forget("recipes.predict")
        with recording_reads() as reads:
            case.predict()
        for name in reads:
            readers.setdefault(name, []).append(case.case_id)
    return {name: tuple(ids) for name, ids in readers.items()}


def first_moved(case_ids: Iterable[str]) -> str:
    """Return the first case whose figures differ from those with the shipped rows; blank if none do."""
    present = present_figures()
    return next((name for name in case_ids if figures(load_cases()[name].predict()) != present[name]), "")


@contextmanager
def with_rows(table: dict[str, Any], changes: Mapping[str, Any], *prefixes: str) -> Iterator[None]:
    """Put other rows into a table while the body runs; clear the caches of the modules before and after."""
    present_figures()
    forget(*prefixes)
    try:
        with patch.dict(table, changes):
            yield
    finally:
        forget(*prefixes)


def with_parameter(name: str, value: float) -> Any:
    """Give one parameter another value while the body runs."""
    table = values_by_id()
    assert isinstance(table, dict)
    return with_rows(table, {name: value}, "recipes.predict")


def forget(*prefixes: str) -> None:
    """Clear the caches of modules whose names begin with a prefix, except those of tables from files."""
    for cache in _caches(*prefixes):
        cache.cache_clear()


@functools.cache
def _caches(*prefixes: str) -> tuple[Any, ...]:
    return tuple(
        value
        for name, module in list(sys.modules.items())
        if name.startswith(prefixes)
        for value in vars(module).values()
        if isinstance(value, ByKey)
        or (
            isinstance(value, functools._lru_cache_wrapper)
            and value.__module__ == name
            and not value.__name__.startswith(("load_", "values_by_id"))
        )
    )
