"""The kinds of rows in the ordered tables of collectors, checks and benchmarks.

The tables are `probes/collect/collector_table.py`, `probes/judging/check_table.py` and
`probes/bench/benchmark_table.py`. A row names its module as text and loads the module at the first use.
Listing rows therefore imports nothing, and a broken module does not affect the others.
"""

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Literal

from probes.base.record import Record

Tier = Literal["quick", "deep"]
"""`quick` reads files and NVML, and starts a few fast commands; `deep` also starts slower commands.

On a stored source nothing is started, so both tiers are fast.
"""

Mode = Literal["accept", "monitor"]
"""`accept` judges all facts before a node's first use; `monitor` judges faults of a node in use."""


class Row(Record, kw_only=True):
    """One entry of a table."""

    id: str
    title: str
    module: str

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


class ProbeRow(Row, kw_only=True):
    """A collector: `function(source: Source, options: CollectOptions) -> dict[str, object]` in its module."""

    function: str = "collect"
    provides: tuple[str, ...]
    """Fields of `MachineFacts` that each run returns; `contradictions` and `unread` may be added to them."""
    tier: Tier = "quick"
    asks_driver: bool = False
    """True if the collector waits for the GPU driver, which may have to wake every GPU first."""


Group = Literal[
    "input", "driver", "gpu", "fabric", "pcie", "network", "host", "software", "storage", "logs", "tools",
    "measured", "policy"
]  # fmt: skip

Need = Literal[
    "gpus", "nics", "logs", "diagnoses", "tools", "fabric-discovery", "switches", "container", "policy",
    "measurements", "baselines"
]  # fmt: skip
"""Part of a machine that a check judges (`probes/judging/policies/selection.py`).

For a machine without the part, the check gives one SKIP, and its module is not loaded.
"""


class CheckRow(Row, kw_only=True):
    """A check: `function(evidence: Evidence)` in its module, which returns one or several `Finding`s."""

    function: str = "check"
    group: Group
    required: bool = True
    """An UNKNOWN of a required check makes the verdict UNKNOWN."""
    tier: Tier = "quick"
    needs: tuple[Need, ...] = ()
    is_state: bool = False
    """True if monitoring skips the check, because it judges a state or setting, not a fault.

    Examples are a program on the GPU, persistence mode, and a virtual machine that hides its topology.
    """
    rules: dict[str, Any] | None = None
    """Data row of the check, if any; the function then takes the row as its second argument."""

    def run(self, evidence: Any) -> Iterator[Any]:
        """Yield the `Finding`s of this check for an `Evidence`. Only the module of this check is loaded."""
        function = getattr(self.load(), self.function)
        findings = function(evidence) if self.rules is None else function(evidence, self.rules)
        return iter((findings,) if isinstance(findings, Record) else findings)


class BenchmarkRow(Row, kw_only=True):
    """A benchmark, which has two functions in its module.

    `requests(context: BenchContext) -> tuple[BenchRequest, ...]` returns no request if the benchmark does not
    apply; `interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement, ...] |
    BenchFailure` reads the answer.
    """

    suites: tuple[str, ...]
    """Suites: `quick`, `full`.

    Without a suite, the benchmark runs if the user names it or gives its input.
    """
    occupies: str
    """Resources that nothing else should use during the benchmark: `all GPUs`, `the file system` ..."""
    cost_s: float
    """Rough duration on a machine with eight H100, in the quick suite or without any suite.

    The duration is shown before the start. If several benchmarks share a start of torch, the first of them
    includes the start: ten seconds for eight ranks, twelve with NCCL.
    """
    full_cost_s: float
    """Rough duration in the full suite."""
    applies: str = ""
    """Condition under which the benchmark applies, such as `GPUs`, `several ranks` or `--hosts`; empty if it
    always applies.
    """
