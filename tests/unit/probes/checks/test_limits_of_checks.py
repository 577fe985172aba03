"""Test checks at their limits: the value that just passes and the value that just does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.base.units import GIB
from probes.catalogue.thresholds import load_thresholds
from probes.facts import (
    Gpu,
    GpuLimits,
    GpuProcess,
    Link,
    LogEvent,
    MachineFacts,
    NumaNode,
    ToolResult,
    counts,
)
from probes.judging.check_table import CHECKS
from tests.support.check_cases_logs import logged, xid
from tests.support.machines import evidence_of, h100_node, with_gpus, with_part

ROWS = {row.id: row for row in CHECKS}
NODE = h100_node()
OTHER_MODEL = "a GPU that the catalogue does not contain"


def results(check_id: str, facts: MachineFacts) -> list[str]:
    """Return status and subject of each finding of one check."""
    return [f"{row.status.value} {row.subject}" for row in ROWS[check_id].run(evidence_of(facts))]


def limits(**changes: Any) -> MachineFacts:
    """Return the node with changed limits of GPU3."""
    assert isinstance(NODE.gpus, tuple)
    return with_gpus(NODE, 3, limits=msgspec.structs.replace(NODE.gpus[3].limits, **changes))


def heat(temperature_c: int, **changes: Any) -> MachineFacts:
    return with_gpus(NODE, 3, temperature_c=temperature_c, limits=GpuLimits(**changes))


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        # GPUs that report a margin: clocks fall at a margin of -2 degrees.
        (heat(85, temperature_margin_c=1, temperature_slowdown_c=-2), None),
        (heat(85, temperature_margin_c=0, temperature_slowdown_c=-2), "WARN"),
        (heat(85, temperature_margin_c=-1, temperature_slowdown_c=-2), "WARN"),
        (heat(85, temperature_margin_c=-2, temperature_slowdown_c=-2), "FAIL"),
        (heat(85, temperature_margin_c=-2), "WARN"),
        # A margin of 0 on a cool board is no reading; from 70 degrees on it is.
        (heat(69, temperature_margin_c=0, temperature_slowdown_c=-2), "SKIP"),
        (heat(70, temperature_margin_c=0, temperature_slowdown_c=-2), "WARN"),
        # Older GPUs report degrees.
        (heat(89, temperature_slowdown_c=90), None),
        (heat(90, temperature_slowdown_c=90), "FAIL"),
        (heat(84, temperature_slowdown_c=90, temperature_max_operating_c=85), None),
        (heat(85, temperature_slowdown_c=90, temperature_max_operating_c=85), "WARN"),
        (heat(85, temperature_slowdown_c=90, temperature_max_operating_c=0), None),
        (heat(85, temperature_slowdown_c=0), "UNKNOWN"),
        (heat(1, temperature_slowdown_c=1), "FAIL"),
        (heat(85), "UNKNOWN"),
    ],
)
def test_temperatures(facts: MachineFacts, status: str | None) -> None:
    others = [] if status is None else [f"{status} GPU3"]
    healthy = ["PASS GPU0-7"] if status is None else ["PASS GPU0-2, GPU4-7"]
    assert sorted(results("gpu-temperature", facts)) == sorted(others + healthy)


def at_work(hot_c: int, *, power_w: float = 650.0, load: int = 90, model: str = "") -> MachineFacts:
    """Return GPUs at 60 degrees and 650 W, and GPU3 as stated."""
    facts = with_gpus(NODE, temperature_c=60, power_w=650.0, utilization_percent=90)
    named = {"name": model} if model else {}
    return with_gpus(facts, 3, temperature_c=hot_c, power_w=power_w, utilization_percent=load, **named)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (at_work(70), "PASS host"),
        (at_work(71), "WARN GPU3"),
        (at_work(49), "WARN GPU0"),
        (at_work(71, load=50), "WARN GPU3"),
        (at_work(71, load=49), "SKIP host"),
        # The powers may differ by at most 15 % of the highest: beside 650 W, at least 552.5 W is needed.
        (at_work(71, power_w=553.0), "WARN GPU3"),
        (at_work(71, power_w=552.0), "SKIP host"),
        (at_work(71, model=OTHER_MODEL), "SKIP host"),
        (with_gpus(at_work(71), 0, power_w=NOT_RECORDED), "SKIP host"),
        (with_gpus(at_work(71), 0, utilization_percent=NOT_RECORDED), "SKIP host"),
        (with_gpus(at_work(71), 0, temperature_c=NOT_RECORDED), "WARN GPU3"),
        (with_gpus(NODE, temperature_c=NOT_RECORDED), "UNKNOWN host"),
    ],
)
def test_one_hot_gpu_among_equals(facts: MachineFacts, expected: str) -> None:
    (result,) = results("gpu-temperature-spread", facts)
    assert result.split()[0] == expected.split(maxsplit=1)[0]
    assert result == expected or "GPU0" in expected


@pytest.mark.parametrize(
    ("fan", "temperature_c", "expected"),
    [
        (0, 69, "PASS GPU0-7"),
        (0, 70, "FAIL GPU0-7"),
        (1, 90, "PASS GPU0-7"),
        (Unknown(Reason.ERROR, "Unknown Error"), 30, "WARN GPU0-7"),
        (Unknown(Reason.ERROR, "GPU is lost"), 30, "UNKNOWN GPU0-7"),
        (Unknown(Reason.NOT_SUPPORTED, "[N/A]"), 30, "SKIP GPU0-7"),
    ],
)
def test_fans(fan: Any, temperature_c: int, expected: str) -> None:
    facts = with_gpus(NODE, temperature_c=temperature_c, limits=GpuLimits(fan_percent=fan))
    assert {result.split()[0] for result in results("gpu-fan", facts)} == {expected.split(maxsplit=1)[0]}


@pytest.mark.parametrize(
    ("violations_us", "expected"),
    [
        ({"hw_thermal_slowdown": 1_000_000}, None),
        ({"hw_thermal_slowdown": 1_000_001}, "WARN GPU3"),
        ({"sw_thermal_slowdown": 60_000_000}, None),
        ({"sw_thermal_slowdown": 60_000_001}, "WARN GPU3"),
        # The power limit slowed all other GPUs of the node too, so GPU3 is no exception.
        ({"sw_power_cap": 9_000_000}, None),
        ({}, None),
    ],
)
def test_time_that_clocks_were_held_down(violations_us: dict[str, int], expected: str | None) -> None:
    findings = results("gpu-violations", limits(violations_us=counts(violations_us)))
    assert findings[0] == (expected or "PASS GPU0-7")


def mesh(links_of: Callable[[int, int], int], gpus: int = 8, name: str = OTHER_MODEL) -> MachineFacts:
    """Return GPUs whose pairs have `links_of` NVLinks; 0 means a pair over PCIe."""
    assert isinstance(NODE.gpus, tuple)
    links = tuple(
        Link(
            a=f"GPU{a}", b=f"GPU{b}", kind="NVLINK" if links_of(a, b) else "PHB", nvlink_count=links_of(a, b)
        )
        for a in range(gpus)
        for b in range(a + 1, gpus)
    )
    return with_gpus(h100_node(gpus=NODE.gpus[:gpus], links=links), name=name)


def one_pair_of(other: int, usual: int, gpus: int) -> MachineFacts:
    return mesh(lambda a, b: other if (a, b) == (0, 1) else usual, gpus)


H100_NAME = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (mesh(lambda _a, _b: 18), "PASS GPU0-7"),
        (mesh(lambda a, b: 17 if 3 in (a, b) else 18), "FAIL GPU3"),
        (mesh(lambda a, b: 4 if a // 2 == b // 2 else 0), "PASS GPU0-7"),
        # One bridge joins up to four GPUs; if more GPUs have NVLink, every GPU must have it.
        (mesh(lambda _a, b: 4 if b < 4 else 0), "PASS GPU0-7"),
        (mesh(lambda _a, b: 4 if b < 5 else 0), "FAIL GPU5-7"),
        (mesh(lambda a, b: 0 if (a, b) == (0, 1) else 18, name=H100_NAME), "FAIL GPU0-1"),
        # With up to three links, four GPUs may be a part of a hybrid cube. More links, and a link between
        # every pair, show a full mesh.
        (one_pair_of(2, 3, 4), "SKIP host"),
        (one_pair_of(3, 4, 4), "FAIL GPU0-1"),
        (one_pair_of(0, 4, 4), "SKIP host"),
        (one_pair_of(17, 18, 8), "FAIL GPU0-1"),
        (mesh(lambda _a, _b: 18, 2), "PASS GPU0-1"),
        (mesh(lambda _a, _b: 18, 1), "SKIP host"),
        (h100_node(links=()), "UNKNOWN host"),
        (h100_node(links=NOT_RECORDED), "UNKNOWN host"),
        # A bridge from GPU0 to GPU4 joins cards of two NUMA nodes.
        (mesh(lambda a, b: 4 if b - a == 4 else 0), "WARN GPU0-7"),
    ],
)
def test_nvlinks_between_all_pairs(facts: MachineFacts, expected: str) -> None:
    assert results("nvlink-mesh", facts) == [expected]


LINK_FAULT = xid(74, fatal=True)


@pytest.mark.parametrize(
    ("check_id", "events", "expected"),
    [
        ("xid-hardware", (xid(79),), ["FAIL GPU4"]),
        ("xid-hardware", (xid(79, settled=True),), ["WARN GPU4"]),
        # A GPU that falls off the bus again is not repaired by a boot.
        ("xid-hardware", (xid(79, settled=True, count=2),), ["FAIL GPU4"]),
        ("xid-hardware", (xid(48, settled=True, count=2),), ["PASS host"]),
        ("xid-hardware", (LINK_FAULT,), ["FAIL GPU4"]),
        ("xid-hardware", (xid(74, fatal=False),), ["WARN GPU4"]),
        ("xid-hardware", (xid(74, fatal=False), LINK_FAULT), ["FAIL GPU4"]),
        ("xid-hardware", (xid(74, fatal=False, settled=True),), ["PASS host"]),
        ("xid-hardware", (xid(79, device="0000:ff:00"),), ["FAIL 0000:ff:00"]),
        ("xid-hardware", (xid(79), xid(154, after=79)), ["FAIL GPU4"]),
        ("xid-hardware", (xid(31), xid(48)), ["PASS host"]),
        ("xid-reset", (xid(48), xid(48, device="0000:3b:00")), ["FAIL GPU4", "FAIL GPU1"]),
        ("xid-reset", (xid(119),), ["PASS host"]),
        ("xid-application", (xid(31),), ["WARN GPU4"]),
        ("xid-application", (xid(31, settled=True),), ["PASS host"]),
        ("xid-application", (xid(999),), ["PASS host"]),
        ("driver-messages", (xid(999),), ["WARN GPU4"]),
        ("gsp-timeout", (xid(119),), ["FAIL GPU4"]),
        ("gsp-timeout", (xid(79),), ["PASS host"]),
    ],
)
def test_xids_by_their_class_and_state(
    check_id: str, events: tuple[LogEvent, ...], expected: list[str]
) -> None:
    assert results(check_id, logged(*events)) == expected


def nodes(*sizes_gib: int, cpus: tuple[str, ...] = ()) -> MachineFacts:
    return h100_node(
        numa_nodes=tuple(
            NumaNode(index=place, cpus=cpus[place] if cpus else f"{place}", memory_bytes=size * GIB)
            for place, size in enumerate(sizes_gib)
        )
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (nodes(1000, 1000), "PASS host"),
        (nodes(1000, 800), "PASS host"),
        (nodes(1000, 799), "WARN host"),
        (nodes(799, 1000), "WARN host"),
        (nodes(1000), "SKIP host"),
        (nodes(1000, 80, cpus=("0-7", "")), "SKIP host"),
        (h100_node(numa_nodes=NOT_RECORDED), "UNKNOWN host"),
    ],
)
def test_memory_of_numa_nodes(facts: MachineFacts, expected: str) -> None:
    assert results("memory-balance", facts) == [expected]


def placed(*gpu_nodes: int | None, numa_nodes: int = 2, sockets: int = 2) -> MachineFacts:
    """Return one GPU on each of the stated NUMA nodes."""
    assert isinstance(NODE.gpus, tuple)
    gpus: tuple[Gpu, ...] = tuple(
        msgspec.structs.replace(NODE.gpus[place], numa_node=node) for place, node in enumerate(gpu_nodes)
    )
    facts = h100_node(gpus=gpus, numa_nodes=tuple(NumaNode(index=n, cpus=f"{n}") for n in range(numa_nodes)))
    return with_part(facts, "cpu", sockets=sockets)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (placed(0, 0, 1), "SKIP host"),
        (placed(0, 0, 1, 1), "PASS host"),
        (placed(0, 0, 0, 1), "WARN host"),
        (placed(0, 0, 0, 0), "WARN host"),
        (placed(0, 1, 2, 3, numa_nodes=4), "PASS host"),
        (placed(0, 0, 1, 1, numa_nodes=4), "WARN host"),
        (placed(0, 0, 2, 2, numa_nodes=4), "PASS host"),
        (placed(0, 1, 2, 3, numa_nodes=4, sockets=1), "SKIP host"),
        (placed(0, 0, 1, 1, numa_nodes=3), "UNKNOWN host"),
        (placed(0, 0, 1, None), "UNKNOWN host"),
    ],
)
def test_the_spread_of_gpus_over_sockets(facts: MachineFacts, expected: str) -> None:
    assert results("gpu-sockets", facts) == [expected]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (NODE, "PASS host"),
        (with_gpus(NODE, numa_node=0), "WARN host"),
        (with_gpus(NODE, numa_node=None), "SKIP host"),
        (with_gpus(NODE, 3, numa_node=NOT_RECORDED), "UNKNOWN host"),
        (with_gpus(mesh(lambda _a, _b: 8), numa_node=0), "WARN host"),
        (with_gpus(mesh(lambda _a, _b: 7), numa_node=0), "SKIP host"),
        (with_gpus(mesh(lambda _a, _b: 18, 7), numa_node=0), "SKIP host"),
        (with_gpus(h100_node(links=()), numa_node=0), "SKIP host"),
    ],
)
def test_numa_nodes_that_are_hidden(facts: MachineFacts, expected: str) -> None:
    assert results("numa-hidden", facts) == [expected]


def used(memory_bytes: Any, processes: Any = NOT_RECORDED, **changes: Any) -> MachineFacts:
    return with_gpus(NODE, memory_used_bytes=memory_bytes, processes=processes, **changes)


PROCESS = GpuProcess(pid=7)
IN_USE_BYTES = int(load_thresholds().gpu_memory_in_use_bytes.value)


@pytest.mark.parametrize(
    ("check_id", "facts", "status"),
    [
        ("gpu-busy", used(0, ()), "PASS"),
        ("gpu-busy", used(0, (PROCESS,)), "WARN"),
        ("gpu-busy", used(IN_USE_BYTES), "UNKNOWN"),
        ("gpu-busy", used(IN_USE_BYTES + 1), "WARN"),
        ("gpu-busy", used(NOT_RECORDED), "UNKNOWN"),
        ("gpu-memory-leftover", used(IN_USE_BYTES, ()), "PASS"),
        ("gpu-memory-leftover", used(IN_USE_BYTES + 1, ()), "WARN"),
        ("gpu-memory-leftover", used(IN_USE_BYTES + 1, (PROCESS,)), "PASS"),
        ("gpu-memory-leftover", used(IN_USE_BYTES + 1), "UNKNOWN"),
        ("gpu-memory-leftover", used(NOT_RECORDED, ()), "UNKNOWN"),
    ],
)
def test_memory_in_use(check_id: str, facts: MachineFacts, status: str) -> None:
    assert results(check_id, facts) == [f"{status} {name}" for name in _subjects(status)]


def _subjects(status: str) -> list[str]:
    """Return the subjects of a finding about all GPUs: each GPU for a problem, one list otherwise."""
    return [f"GPU{index}" for index in range(8)] if status == "WARN" else ["GPU0-7"]


def loaded(load: Any, power_w: Any, cap_w: Any = 700.0, **changes: Any) -> MachineFacts:
    changes = {"processes": (), **changes}
    return with_gpus(NODE, utilization_percent=load, power_w=power_w, power_limit_w=cap_w, **changes)


IDLE_W = 700.0 * load_thresholds().idle_power_fraction.value


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        (loaded(49, 70.0), "PASS"),
        (loaded(50, IDLE_W - 1), "WARN"),
        (loaded(50, IDLE_W), "PASS"),
        (loaded(100, 70.0, processes=(PROCESS,)), "PASS"),
        (loaded(100, 70.0, processes=NOT_RECORDED, memory_used_bytes=IN_USE_BYTES), "WARN"),
        (loaded(100, 70.0, processes=NOT_RECORDED, memory_used_bytes=IN_USE_BYTES + 1), "PASS"),
        (loaded(100, 70.0, processes=NOT_RECORDED, memory_used_bytes=NOT_RECORDED), "PASS"),
        (loaded(100, NOT_RECORDED), "UNKNOWN"),
        (loaded(100, 70.0, NOT_RECORDED), "UNKNOWN"),
        (loaded(NOT_RECORDED, 70.0), "UNKNOWN"),
    ],
)
def test_load_without_a_process(facts: MachineFacts, status: str) -> None:
    assert results("gpu-idle", facts) == [f"{status} {name}" for name in _subjects(status)]


@pytest.mark.parametrize(("count", "words"), [(4, "(pid 3)"), (5, "and 1 more"), (1, "(pid 0)")])
def test_at_most_four_processes_are_named(count: int, words: str) -> None:
    facts = used(0, tuple(GpuProcess(pid=pid, name="/usr/bin/python3 -m train") for pid in range(count)))
    finding = next(iter(ROWS["gpu-busy"].run(evidence_of(facts))))
    assert finding.observed.endswith(words)
    assert finding.observed.startswith("python3 (pid 0)")
    assert finding.observed.count("pid") == min(count, 4)


def transfers(*rows: tuple[str, str, float | Unknown, int | None], gpus: object = NODE.gpus) -> MachineFacts:
    """Return results of perftest and nvbandwidth: test, subject, bytes/s or seconds, and message size."""
    return h100_node(
        gpus=gpus,
        tool_results=tuple(
            ToolResult(
                tool="t",
                test=test,
                subject=subject,
                metric="latency" if test.endswith("_lat") else "bandwidth",
                value=value,
                size_bytes=size,
            )
            for test, subject, value, size in rows
        ),
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # A port of 400 Gb/s should reach 96 % of 50 GB/s: 48 GB/s. Nine tenths of it are 43.2 GB/s.
        ([("ib_write_bw", "mlx5_2", 43.3e9, 65536)], "PASS mlx5_2"),
        ([("ib_write_bw", "mlx5_2", 43.1e9, 65536)], "WARN mlx5_2"),
        ([("ib_write_bw", "mlx5_2", 35.9e9, 65536)], "FAIL mlx5_2"),
        ([("ib_write_bw", "mlx5_2", 48e9, 65535)], "SKIP host"),
        ([("ib_write_bw", "mlx5_2", 48e9, None)], "SKIP host"),
        ([("ib_write_bw", "mlx5_2", NOT_RECORDED, 65536)], "SKIP host"),
        ([("ib_write_bw", "mlx5_99", 48e9, 65536)], "SKIP host"),
        # The best large message counts.
        ([("ib_write_bw", "mlx5_2", 20e9, 65536), ("ib_write_bw", "mlx5_2", 48e9, 2**20)], "PASS mlx5_2"),
        ([("ib_write_lat", "mlx5_2", 9e-6, 64)], "PASS mlx5_2"),
        ([("ib_write_lat", "mlx5_2", 9.1e-6, 64)], "WARN mlx5_2"),
        ([("ib_write_lat", "mlx5_2", 9.1e-6, 2), ("ib_write_lat", "mlx5_2", 2e-6, 8)], "PASS mlx5_2"),
        ([("ib_write_lat", "mlx5_2", 90e-6, 65)], "SKIP host"),
        ([("ib_write_lat", "mlx5_2", 90e-6, None)], "SKIP host"),
    ],
)
def test_transfers_over_a_port(rows: list[tuple[str, str, float, int]], expected: str) -> None:
    assert results("network-bandwidth", transfers(*rows)) == [expected]


def host_copies(
    *rates_gb: float, test: str = "host_to_device_memcpy_ce"
) -> list[tuple[str, str, float, None]]:
    return [(test, f"GPU{place}", rate * 1e9, None) for place, rate in enumerate(rates_gb)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # Three GPUs or more: one is slow below three quarters of the median of all.
        (host_copies(24.0, 24.0, 24.0, 18.0), ["PASS GPU0-3"]),
        (host_copies(24.0, 24.0, 24.0, 17.9), ["WARN GPU3"]),
        (host_copies(24.0, 24.0, 10.0), ["WARN GPU2"]),
        (host_copies(24.0, 10.0), ["SKIP GPU0-1"]),
        # The best of several results of one GPU counts.
        ([*host_copies(24.0, 24.0, 10.0), *host_copies(24.0, 24.0, 24.0)], ["PASS GPU0-2"]),
        ([("all_to_host", "GPU0", NOT_RECORDED, None)], ["SKIP host"]),
    ],
)
def test_copies_of_unknown_gpus_are_compared_with_each_other(
    rows: list[tuple[str, str, float, None]], expected: list[str]
) -> None:
    assert results("host-bandwidth", transfers(*rows, gpus=())) == expected
