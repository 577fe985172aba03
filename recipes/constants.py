"""The constants of the speed and memory models; each constant is a row with its source and date."""

import functools

from probes.base.record import StrictRecord
from probes.base.rows import load_rows


class Constant(StrictRecord, kw_only=True):
    """One measured or published figure that the speed and memory models use."""

    id: str
    value: float
    unit: str
    meaning: str
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_constants() -> dict[str, Constant]:
    """Return all rows of `recipes/data/constants.toml` by id."""
    return {row.id: row for row in load_rows("recipes", "constants", Constant)}


def constant(constant_id: str) -> float:
    """Return the value of one row, in the row's unit."""
    return load_constants()[constant_id].value
