"""The kinds of rows in the ordered tables of what rigtune can probe, check and measure.

The tables stand beside what they list: `probes/collect/collector_table.py`, `probes/judging/check_table.py`
and `probes/bench/benchmark_table.py`. Rows name modules as text and load them on use, so that listing imports
nothing, and a broken module fails on its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Literal

from probes.base.record import Record

Tier = Literal["quick", "deep"]
"""`quick` reads files and NVML; `deep` also starts commands. A stored source answers both at no cost."""


class Row(Record, kw_only=True):
    """One entry of a table."""

    id: str
    title: str
    module: str

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


class ProbeRow(Row, kw_only=True):
    """A collector: `collect(source: Source, options: CollectOptions) -> dict[str, object]` in its module."""

    provides: tuple[str, ...]
    """The fields of `MachineFacts` that it returns, all of them each time. `contradictions` and `unread` may
    come on top; those of all collectors are joined."""
    tier: Tier = "quick"


Group = Literal[
    "input", "driver", "gpu", "fabric", "pcie", "network", "host", "software", "storage", "logs", "tools",
    "measured", "policy"
]  # fmt: skip

Need = Literal[
    "gpus", "nics", "logs", "diagnoses", "tools", "fabric-discovery", "switches", "container", "policy",
    "measurements", "baselines"
]  # fmt: skip
"""Part of a machine that a check judges (`probes/judging/policies/selection.py`).

A machine without it gives one SKIP, and the module is not even loaded.
"""


class CheckRow(Row, kw_only=True):
    """A check: `function(evidence: Evidence)` in its module, which returns one `Finding`, or some."""

    function: str = "check"
    group: Group
    required: bool = True
    """An UNKNOWN of a required check makes the verdict UNKNOWN."""
    tier: Tier = "quick"
    needs: tuple[Need, ...] = ()
    rules: dict[str, Any] | None = None
    """The data row of a check that is a row; its module's function takes the row beside the evidence."""

    def run(self, evidence: Any) -> Iterator[Any]:
        """Yield the `Finding`s of this check on an `Evidence`. Only its own module is loaded."""
        function = getattr(self.load(), self.function)
        findings = function(evidence) if self.rules is None else function(evidence, self.rules)
        return iter((findings,) if isinstance(findings, Record) else findings)


class BenchmarkRow(Row, kw_only=True):
    """A benchmark. Its module has `requests(context: BenchContext) -> tuple[BenchRequest, ...]`, none where
    it does not apply, and `interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement,
    ...] | BenchFailure`.
    """

    suites: tuple[str, ...]
    """`quick` and `full`; one that stands in neither runs when the user names it or gives what it needs."""
    occupies: str
    """Resources that nobody else should use meanwhile: `one GPU at a time`, `all GPUs`, `all CPUs`."""
    cost_s: float
    """Rough duration on one machine (calculated for eight H100) in the quick suite, or where it stands in
    none, shown before it starts. A start of torch that several share counts at the first of them: ten seconds
    for eight ranks, with NCCL twelve.
    """
    full_cost_s: float
    """The same in the full suite."""
    applies: str = ""
    """Condition in words: `GPUs`, `several ranks`, `--hosts`, `--step`; empty if it applies everywhere."""
