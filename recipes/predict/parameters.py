"""The figures of the prediction models that are fitted to published measurements.

Each is a row: what it means physically, what was believed before any fit (`prior`, from a source), how far
the fit may go from it (`spread`), and the fitted `value`. The scripts `tests/calibration/fit_*.py` rewrite
the values and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, cast

from probes.base.record import StrictRecord
from probes.base.rows import load_rows

CallT = TypeVar("CallT", bound=Callable[..., Any])


class Parameter(StrictRecord, kw_only=True):
    """One fitted figure."""

    id: str
    """`group.name`, or `group.name.key` where the figure differs by what it is about: a chip, a precision, a
    kind of kernels, an implementation, an optimizer, a device, a fabric. The row without a key serves what
    has none of its own; it is missing where every key has one.
    """
    unit: str
    meaning: str
    prior: float
    spread: float
    """Standard deviation of the prior: of ln(value) for `log`, of logit(value) for `fraction`. 0: not
    fitted.
    """
    scale: Literal["log", "fraction"] = "log"
    """`fraction` for what lies between 0 and 1."""
    value: float
    source: str
    """Of the prior. The value is from the fit, or where `spread` is 0 from this source too."""
    date: str


FILES = ("cpu", "time", "memory", "vision", "collectives", "products", "intervals")
"""Files of `recipes/data/parameters/`."""


@functools.lru_cache(maxsize=1)
def load_parameters() -> dict[str, Parameter]:
    """All rows by id."""
    return {
        row.id: row
        for file in FILES
        for row in load_rows("recipes", "parameters", Parameter, file=f"parameters/{file}")
    }


_VALUES: dict[str, float] = {}
_FOUND: dict[tuple[str, ...], str] = {}
_caches: list[Callable[[], None]] = []
reads: set[str] | None = None
"""While the fit asks for it, the ids that were read."""


def parameter(*name_and_keys: str) -> float:
    """The value of `name.key` for the first key that has a row, else of `name` itself. Raises KeyError where
    neither has.
    """
    row_id = _FOUND.get(name_and_keys)
    if row_id is None:
        row_id = _find(name_and_keys)
    if reads is not None:
        reads.add(row_id)
    return _VALUES[row_id]


def _find(name_and_keys: tuple[str, ...]) -> str:
    if not _VALUES:
        _VALUES.update({row.id: row.value for row in load_parameters().values()})
    name, *keys = name_and_keys
    row_id = next((f"{name}.{key}" for key in keys if f"{name}.{key}" in _VALUES), name)
    if row_id not in _VALUES:
        raise KeyError(f"no row {name} in recipes/data/parameters")
    _FOUND[name_and_keys] = row_id
    return row_id


def cached(maxsize: int = 4096) -> Callable[[CallT], CallT]:
    """Like `functools.lru_cache`, for functions that read parameters: `trying` empties it, and recording
    reads passes it by.
    """

    def decorate(function: CallT) -> CallT:
        kept = functools.lru_cache(maxsize=maxsize)(function)
        _caches.append(kept.cache_clear)

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            return kept(*arguments) if reads is None else function(*arguments)

        return cast("CallT", call)

    return decorate


@contextmanager
def trying(changes: Mapping[str, float]) -> Iterator[None]:
    """Other values while the body runs; for the fit alone."""
    for name in changes:
        _find((name,))
    before = {name: _VALUES[name] for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(changes: Mapping[str, float]) -> None:
    _VALUES.update(changes)
    for clear in _caches:
        clear()


@contextmanager
def recording_reads() -> Iterator[set[str]]:
    """The ids that are read while the body runs; for the fit alone."""
    global reads  # noqa: PLW0603 - one flag that the hot path looks at
    reads = set()
    try:
        yield reads
    finally:
        reads = None
