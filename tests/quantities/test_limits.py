"""Test that doubling or halving a limit changes the verdict of a check on a machine near the limit.

The exceptions are listed with their reasons.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from probes.catalogue.check_rows import limit_rows
from probes.catalogue.thresholds import Thresholds, load_thresholds
from probes.facts import counts
from probes.judging.check_table import CHECKS
from tests.support.check_case import NODE, Case
from tests.support.check_cases import CASES
from tests.support.check_cases_pci import GPU2, with_device
from tests.support.machines import evidence_of, with_gpus, with_nics

ROWS = {row.id: row for row in CHECKS}
FARTHER = {
    "application_clock_drift_mhz": 1000.0,
    "carrier_changes": 10.0,
    "earlier_difference_fraction": 10.0,
    "equal_load_fraction": 10.0,
    "flat_topology_devices_minimum": 10.0,
    "gpu_memory_in_use_bytes": 10.0,
    "gpus_of_grace_board_maximum": 10.0,
    "gpus_on_two_sockets_minimum": 10.0,
    "idle_power_fraction": 10.0,
    "links_of_switched_pair_minimum": 10.0,
    "memory_available_minimum_fraction": 10.0,
    "numa_memory_spread": 10.0,
    "pcie_read_request_rate_gbps": 10.0,
    "peer_difference_fraction": 10.0,
    "roce_headers_bytes": 1000.0,
    "shm_minimum_bytes": 10.0,
}
"""Limits that doubling or halving does not move past the machine of any case, with a sufficient factor."""
UNMOVED = {
    "nofile_recommended": "appears only in the command that raises a lower limit",
    "monitor_event_window_s": "decides only in the mode `monitor`: test_monitoring.py",
}
"""Limits that decide no verdict of these cases, each with the reason."""


def _near_cases() -> Iterator[Case]:
    """Yield a machine for each rule of a data row whose fact is a number; the fact is 1.5 times the limit."""
    for row in limit_rows().values():
        for rule in row["rules"]:
            if "limit" not in rule:
                continue
            value = 1.5 * next(rule[key] for key in ("at_least", "at_most", "below") if key in rule)
            facts = _with_fact(row.get("each", ""), rule.get("fact", row.get("fact", "")), value)
            if facts is not None:
                yield Case(row["id"], rule["limit"], facts, ())


def _with_fact(each: str, path: str, value: float) -> Any:
    whole = int(value) if value >= 1 else value
    counter = re.fullmatch(r"counters\[(\w+)\]", path)
    if each == "nics":
        changes = {"counters": counts({counter[1]: int(value)})} if counter else {path: whole}
        return _replaced(lambda: with_nics(NODE, "mlx5_0", **changes))
    if each == "gpus":
        return _replaced(lambda: with_gpus(NODE, 0, **{path: whole}))
    part, _, field = path.partition(".")
    if each or not field or "." in field or "[" in path:
        return None
    return _replaced(
        lambda: msgspec.structs.replace(
            NODE, **{part: msgspec.structs.replace(getattr(NODE, part), **{field: whole})}
        )
    )


def _replaced(change: Any) -> Any:
    try:
        return change()
    except (AttributeError, TypeError):  # a computed fact, or a field of a nested record
        return None


_SLOW_RESTARTS = with_nics(NODE, "mlx5_8", counters=counts({"roce_slow_restart": 1500}))
ALL_CASES = (
    *CASES,
    *_near_cases(),
    Case("roce-congestion", "near the limit", _SLOW_RESTARTS, ()),
    Case("pcie-errors", "near the limit", with_device(GPU2, aer_correctable=1500), ()),
)


class _Recording(dict[str, Any]):
    """Numbers that remember which of them were read."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.reads: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.reads.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.reads.add(name)
        return super().get(name, default)


def _verdict(case: Case, thresholds: Thresholds) -> list[tuple[str, str]]:
    inputs = {
        "measurements": case.measured.measurements,
        "bench_failures": case.measured.failures,
        "baselines": case.baselines,
        "policy": case.policy,
        "today": case.today,
        "thresholds": thresholds,
    }
    evidence = msgspec.structs.replace(evidence_of(case.facts), **inputs)
    return [(finding.status.value, finding.subject) for finding in ROWS[case.check_id].run(evidence)]


@functools.cache
def _present() -> dict[int, list[tuple[str, str]]]:
    return {index: _verdict(case, load_thresholds()) for index, case in enumerate(ALL_CASES)}


@functools.cache
def _readers() -> dict[str, tuple[int, ...]]:
    """Return the indexes of the cases whose check reads each limit."""
    readers: dict[str, tuple[int, ...]] = {}
    for index, case in enumerate(ALL_CASES):
        numbers = _Recording(load_thresholds().numbers)
        thresholds = msgspec.structs.replace(load_thresholds())
        msgspec.structs.force_setattr(thresholds, "numbers", numbers)
        _verdict(case, thresholds)
        for name in numbers.reads:
            readers[name] = (*readers.get(name, ()), index)
    return readers


@pytest.mark.parametrize("name", load_thresholds().numbers)
def test_another_limit_moves_a_verdict(name: str) -> None:
    row = load_thresholds().numbers[name]
    factor = FARTHER.get(name, 2.0)
    values = (row.value * factor, row.value / factor) if row.value else (1.0, -1.0)
    moved = any(
        _verdict(ALL_CASES[index], _with_number(name, value)) != _present()[index]
        for value in values
        for index in _readers().get(name, ())
    )
    assert moved == (name not in UNMOVED)


def _with_number(name: str, value: float) -> Thresholds:
    present = load_thresholds()
    changed = msgspec.structs.replace(present.numbers[name], value=value)
    return msgspec.structs.replace(present, numbers={**present.numbers, name: changed})
