"""The ordered tables of what rigtune can probe, check and measure. A new one is a file and a row here.

Rows name modules as text and load them on use, so that listing imports nothing.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Literal

from probes.record import Record


class Row(Record, kw_only=True):
    """One entry of a table."""

    id: str
    title: str
    module: str

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


class CheckRow(Row, kw_only=True):
    """A check: `check(evidence: Evidence) -> Iterator[Finding]` in its module."""

    group: Literal["driver", "gpu", "fabric", "network", "host", "software", "storage"]
    required: bool = True
    """An UNKNOWN of a required check makes the verdict UNKNOWN."""


class BenchmarkRow(Row, kw_only=True):
    """A benchmark: `requests(plan: BenchPlan)` and `interpret(request, results)` in its module."""

    suites: tuple[str, ...]
    occupies: str
    """What nobody else should use meanwhile: `one GPU at a time`, `all GPUs`, `all CPUs`."""
    cost_s: float
    """Rough duration on one machine, shown before it starts."""


PROBES: tuple[Row, ...] = ()
"""Collectors: `collect(source: Source, options: CollectOptions) -> dict[str, object]`, fields of `MachineFacts`."""

CHECKS: tuple[CheckRow, ...] = ()

BENCHMARKS: tuple[BenchmarkRow, ...] = ()
