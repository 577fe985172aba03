"""Priors of a fit, and the temporary replacement of figures by values that a fit tries."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import msgspec

from probes.base.record import StrictRecord
from recipes.predict import parameters
from recipes.predict.parameters import parameter, values_by_id
from recipes.predict.training_job import ByKey

_FILE = Path(__file__).resolve().parent / "priors.toml"
_READING = "recipes.predict.speed."
"""Prefix of the modules whose caches contain values that follow from figures."""


class Prior(StrictRecord, kw_only=True):
    """Prior of one figure."""

    id: str
    prior: float
    spread: float
    """Standard deviation: of ln(value) for `log`, of logit(value) for `fraction`."""
    scale: Literal["log", "fraction"] = "log"
    """`fraction` for a figure between 0 and 1, `log` for any positive figure."""

    @property
    def value(self) -> float:
        """Return the value of the figure that rigtune uses at present."""
        return values_by_id()[self.id]


@functools.lru_cache(maxsize=1)
def load_priors() -> dict[str, Prior]:
    """Return all rows by id."""
    rows = msgspec.toml.decode(_FILE.read_bytes(), type=dict[str, tuple[Prior, ...]])["priors"]
    return {row.id: row for row in rows}


@contextmanager
def trying(changes: Mapping[str, float]) -> Iterator[None]:
    """Give the models other values while the body runs; raise KeyError for a figure that has no row."""
    present = values_by_id()
    unknown = [name for name in changes if name not in present]
    if unknown:
        raise KeyError(unknown[0])
    with _table({**present, **changes}):
        yield


@contextmanager
def recording_reads() -> Iterator[set[str]]:
    """Yield a set that collects the ids of the figures that are read while the body runs."""
    table = _Recording(values_by_id())
    with _table(table):
        yield table.reads


class _Recording(dict[str, float]):
    def __init__(self, values: Mapping[str, float]) -> None:
        super().__init__(values)
        self.reads: set[str] = set()

    def __getitem__(self, name: str) -> float:
        self.reads.add(name)
        return super().__getitem__(name)


@contextmanager
def _table(values: Mapping[str, float]) -> Iterator[None]:
    """Replace the table of figures while the body runs; clear dependent caches before and after."""
    _forget()
    try:
        with patch.object(parameters, "values_by_id", lambda: values):
            yield
    finally:
        _forget()


def _forget() -> None:
    parameter.cache_clear()
    for name, module in list(sys.modules.items()):
        if name.startswith(_READING):
            for value in vars(module).values():
                # Imports of a module read rows too, and stay the same for every value that is tried.
                is_own = isinstance(value, functools._lru_cache_wrapper) and value.__module__ == name
                if is_own or isinstance(value, ByKey):
                    value.cache_clear()
