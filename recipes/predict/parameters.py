"""Parameters of the prediction models, fitted to published measurements, and intervals around predictions.

Each parameter is a row. Its id is `group.name`, or `group.name.key` if there is a value for each chip,
precision, kind of kernels, implementation, optimizer, device or fabric. The row without a key is for keys
that have no row of their own; this row is missing if every key has a row. The source of a fitted value is the
source of its prior.

The scripts `tests/calibration/fit_*.py` rewrite the values and nothing else. The file
`tests/calibration/priors.toml` lists the figures that these scripts fit, each with its prior.
"""

import functools
from collections.abc import Mapping
from typing import Literal, NamedTuple

from probes.base.rows import load_rows
from recipes.constants import Constant
from recipes.job.workload import TransformerModel, VisionModel

FILES = ("cpu", "time", "memory", "vision", "collectives", "products", "intervals")
"""Names of the files in `recipes/data/parameters/`."""


@functools.lru_cache(maxsize=1)
def load_parameters() -> dict[str, Constant]:
    """Return all rows by id."""
    rows = (load_rows("recipes", "parameters", Constant, file=f"parameters/{file}") for file in FILES)
    return {row.id: row for of_file in rows for row in of_file}


@functools.lru_cache(maxsize=1)
def values_by_id() -> Mapping[str, float]:
    """Return the value of every row by its id."""
    return {row.id: row.value for row in load_parameters().values()}


@functools.cache
def parameter(*name_and_keys: str) -> float:
    """Return the value of `name.key` for the first key that has a row, else of `name` itself.

    Raises KeyError if neither has a row.
    """
    values = values_by_id()
    name, *keys = name_and_keys
    row_id = next((f"{name}.{key}" for key in keys if f"{name}.{key}" in values), name)
    if row_id not in values:
        raise KeyError(f"no row {name} in recipes/data/parameters")
    return values[row_id]


Kind = Literal["dense", "moe", "encoder", "cnn"]
Rates = Literal["catalogue", "measured"]
"""Source of the machine's rates: the catalogue, or measurements of this machine."""


def kind_of(model: TransformerModel | VisionModel) -> Kind:
    """Return the kind under which the step-time interval of this model is listed."""
    if isinstance(model, VisionModel):
        return "cnn"
    other: Kind = "encoder" if model.kind == "encoder" else "dense"
    return "moe" if model.is_moe else other


class Interval(NamedTuple):
    """Factors by which a prediction is multiplied to get its interval."""

    low: float
    high: float


def time_interval(kind: Kind, rates: Rates, seen: str = "seen-seen") -> Interval:
    """Return the interval around the time of a step.

    `seen` is what the fits have seen of software and GPU (`recipes/predict/familiarity.py`).
    """
    ends = (parameter(f"interval.step_time_{end}", f"{kind}-{rates}", rates, kind) for end in ("low", "high"))
    return _widened(Interval(*ends), parameter("interval.step_time_widening", seen))


def memory_interval(figure: str, seen: str = "") -> Interval:
    """Return the interval around a figure of peak memory: `allocated`, `reserved` or `device`.

    With `seen`, the interval is wide enough for published runs with the same `seen`. Without `seen`, the
    interval is that of a plan. It is narrower, because rigtune counts the memory of a plan's program tensor
    by tensor.
    """
    ends = (parameter(f"interval.peak_memory_{end}", figure) for end in ("low", "high"))
    return _widened(Interval(*ends), parameter("interval.peak_memory_widening", seen) if seen else 1.0)


def _widened(interval: Interval, power: float) -> Interval:
    """Return the interval with its ends at `power` times their distance from 1, on a logarithmic scale."""
    return Interval(interval.low**power, interval.high**power)
