"""A sentence of what diagnostics and measurements in a log found, where nothing is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probes.base.units import KIB, MIB
from probes.logs.bench_facts import BenchFacts
from probes.logs.event import Event
from probes.logs.machine_facts import MachineFacts

_MOST_TESTS = 4
_UNITS = {"gigabytes_per_s": "GB/s", "gigabits_per_s": "Gbit/s", "us": "us"}
"""Names of facts, and how they are written."""


def machine_words(events: list[Event]) -> str:
    """Return a sentence on the machine, its state before its speed; empty where no line reports on it."""
    machine, measured = MachineFacts(), BenchFacts()
    for event in events:
        machine.add(event)
        measured.add(event)
    facts: Mapping[str, Any] = machine.as_dict()
    parts = [
        *_nvlinks(facts),
        *_tests(facts),
        *_measured(measured.as_dict().get("measured")),
        *_versions(facts),
    ]
    return "; ".join(parts)


def _nvlinks(facts: Mapping[str, Any]) -> list[str]:
    parts = []
    for group in facts.get("nvlinks", ()):
        rate = group.get("gigabytes_per_s_each")
        others = [
            f"{group[state]} {state}"
            for state in ("down", "disabled")
            if group.get("up") and group.get(state)
        ]
        parts.append(
            ", ".join(
                [
                    f"{_gpus(group['gpus'], group.get('gpu', ''))} with {group.get('up') or 'no'} NVLinks up",
                    *others,
                ]
                + ([f"{rate:g} GB/s each"] if rate else [])
            )
        )
    parts += [
        f"{_gpus(count, name)} without NVLinks that can be told"
        for name, count in facts.get("nvlinks_missing", {}).items()
    ]
    if facts.get("nvlink_errors") == 0:
        parts.append("No NVLink errors are counted")
    return parts


def _tests(facts: Mapping[str, Any]) -> list[str]:
    parts = []
    if (dcgm := facts.get("dcgm")) is not None:
        version, gpus = facts.get("dcgm_version", ""), facts.get("dcgm_gpus", 0)
        others = [
            f"{dcgm[name]} {word}"
            for name, word in (("warned", "with warnings"), ("skipped", "skipped"))
            if dcgm.get(name)
        ]
        tool = f"dcgmi diag {version}".rstrip()
        words = f"Passed by {tool}: {dcgm.get('passed', 0)} results{f' of {gpus} GPUs' if gpus else ''}"
        parts.append(", ".join([words, *others]))
    if burnt := facts.get("gpu_burn", {}).get("tested"):
        parts.append(f"Passed by gpu-burn: {burnt} GPUs")
    if passed := facts.get("health_checks", {}).get("passed"):
        parts.append(f"{passed} health checks passed")
    if complaints := facts.get("nvbandwidth_complaints"):
        parts.append(f"Complaints of nvbandwidth: {str(complaints[0])[:80]}")
    return parts


def _measured(tests: Any) -> list[str]:
    parts = []
    for test, row in (tests or {}).items():
        unit = next(unit for unit in _UNITS if unit in row)
        words = f"{test} {row[unit]:.4g} {_UNITS[unit]}"
        if "fastest" in row:
            words += f" ({row['slowest']:.4g} to {row['fastest']:.4g})"
        words += f", at most {row['peak']:.4g}" if "peak" in row else ""
        parts.append(words + (f" at {_size(row['at_bytes'])}" if row.get("at_bytes") else ""))
    more = len(parts) - _MOST_TESTS
    parts = [*parts[:_MOST_TESTS], *([f"{more} more tests"] if more > 0 else [])]
    return [f"Measured: {', '.join(parts)}"] if parts else []


def _versions(facts: Mapping[str, Any]) -> list[str]:
    parts = [f"Driver {facts['driver']}"] if "driver" in facts else []
    parts += [f"Fabric Manager {facts['fabric_manager']}"] if "fabric_manager" in facts else []
    if (fabric := facts.get("fabric")) is not None:
        parts.append(f"{fabric.get('switches', 0)} NVSwitches and {fabric.get('gpus', 0)} GPUs in its fabric")
    if (teams := facts.get("multicast_teams", {}).get("set_up")) is not None:
        parts.append(f"{teams} multicast teams were set up")
    firmware = facts.get("nic_firmware", {})
    return [*parts, *([f"Network cards of firmware {', '.join(list(firmware)[:3])}"] if firmware else [])]


def _gpus(count: int, name: str) -> str:
    return f"{count} GPU{'s' if count != 1 else ''}{f' ({name})' if name else ''}"


def _size(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} bytes"
