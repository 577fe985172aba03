"""Well-known training strategies, each with the setting that turns it on in each program.

To add a strategy, add a row to `recipes/data/strategies.toml`. `kind` names the function that judges it.
"""

import functools
from typing import Literal

import msgspec

from probes.base.errors import UsageError
from probes.base.nearest import letters_and_digits, nearest, suggestion
from probes.base.record import Record, StrictRecord, quoted
from probes.base.rows import load_rows
from recipes.job.candidate import Sharding
from recipes.machine.mig_profiles import divisions, load_mig_models

Kind = Literal[
    "one-process",
    "layout",
    "compression",
    "low-rank",
    "local-steps",
    "hierarchical",
    "fusion",
    "servers",
    "program",
    "partitions",
]
"""Condition and model by which a strategy is judged; `why_not.py` has a function for each."""


class Strategy(StrictRecord, kw_only=True):
    """One strategy."""

    id: str
    title: str
    names: tuple[str, ...] = ()
    """Other names; case and separators do not matter."""
    kind: Kind
    how: str
    """One sentence that explains how the strategy works."""
    chosen_when: str
    not_when: str
    unproven: str = ""
    """Effects that no model of rigtune contains; empty if there are none."""
    settings: dict[str, str] = {}
    """The setting that turns the strategy on, by program (row of `programs.toml`)."""
    shardings: tuple[Sharding, ...] = ()
    """Shardings with which the strategy works; empty if the sharding does not matter."""
    layout: str = ""
    """Data-parallel strategy, or degree of parallelism, that the planner can pin."""
    replica: Literal["rank", "node"] = "rank"
    """Ranks that train together in local SGD: each alone, or all ranks of a node."""
    nodes: Literal["any", "one", "several"] = "any"
    """Number of nodes for which the program's own strategy is designed."""
    gpus: tuple[str, ...] = ()
    """Catalogue ids of the GPUs that have partitions, from the table of MIG profiles."""
    partitions: tuple[tuple[int, int, int], ...] = ()
    """Ways to divide the first of these GPUs.

    Each way has the number of instances, and sevenths of the processors and eighths of the memory of one.
    """
    figures: dict[str, float] = {}
    """Figures that the model needs; the comment at the top of `strategies.toml` explains each name."""
    is_suggested: bool = False
    """True if a plan may suggest the strategy as an experiment."""
    source: str
    date: str

    def figure(self, name: str) -> float:
        """Return a figure; 0 if the strategy has no such cost."""
        return self.figures.get(name, 0.0)


class StrategyList(Record, kw_only=True):
    """The answer of `rigtune list strategies --format json`."""

    schema_version: int = 1
    strategies: tuple[Strategy, ...]


@functools.lru_cache(maxsize=1)
def load_strategies() -> dict[str, Strategy]:
    """Return all rows of `recipes/data/strategies.toml` by id, in the file's order."""
    rows = load_rows("recipes", "strategies", Strategy)
    return {row.id: _with_partitions(row) if row.kind == "partitions" else row for row in rows}


def _with_partitions(row: Strategy) -> Strategy:
    models = load_mig_models()
    gpus = tuple(gpu for model in models for gpu in model.ids)
    return msgspec.structs.replace(row, gpus=gpus, partitions=divisions(models[0]))


def strategy_named(name: str) -> Strategy:
    """Return the strategy with this id or name, in any spelling.

    Raises UsageError, which names the nearest ids, if there is none.
    """
    rows = load_strategies()
    by_name = {letters_and_digits(word): row for row in rows.values() for word in (row.id, *row.names)}
    wanted = letters_and_digits(name)
    if wanted in by_name:
        return by_name[wanted]
    near = dict.fromkeys(by_name[close].id for close in nearest(wanted, by_name, most=3))
    raise UsageError(
        f"there is no strategy {quoted(name)}", suggestion(near, "see `rigtune list strategies`")
    )
