"""Test deductions from several lines at the values where they begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from probes.logs.deducing.bandwidth import cliff
from probes.logs.deducing.course import unnamed_ranks
from probes.logs.deducing.gpu_deductions import driver_older, fabric_degraded
from probes.logs.deducing.networks import gdr_missing, gid_suspected, pcie_errors, port_flaps
from probes.logs.deducing.parted_collectives import stragglers
from probes.logs.event import Event
from probes.logs.logged_events import LoggedEvents
from tests.support.log_events import event

Deduction = Callable[[LoggedEvents], Iterator[Event[Any]]]
MIB = 1 << 20


def deduced(deduction: Deduction, *events: Event) -> list[Any]:
    return [each.what for each in deduction(LoggedEvents(events))]


def result(mib: int, gb_per_s: float, *, in_place: bool = False) -> Event:
    fields: dict[str, Any] = {
        "collective": "all_reduce",
        "bytes": mib * MIB,
        "busbw_gbps": gb_per_s,
        "in_place": in_place,
    }
    return event("nccl_tests.result", fields)


@pytest.mark.parametrize(
    ("states", "flaps"),
    [
        (["down"] * 3, "3 times"),
        (["down"] * 2, None),
        (["down", "up", "down"], "2 times"),
        (["down", "up"], None),
        (["up"], None),
    ],
)
def test_a_port_that_goes_down_again_and_again(states: list[str], flaps: str | None) -> None:
    events = [event("kernel.link", {"device": "eth0", "state": state}, host="n1") for state in states]
    deduced_events = deduced(port_flaps, *events)
    assert [each.why for each in deduced_events] == ([f"{flaps} in this log"] if flaps else [])


def test_ports_are_counted_by_host_and_device() -> None:
    events = [
        event("kernel.link", {"device": device, "state": "down"}, host=host)
        for device, host in (("eth0", "n1"), ("eth0", "n2"), ("eth1", "n1"))
    ]
    assert deduced(port_flaps, *events) == []
    assert len(deduced(port_flaps, event("kernel.link", {"device": "a", "state": "down"}, count=3))) == 1


@pytest.mark.parametrize(
    ("severity", "bus", "words"),
    [
        ("fatal", "0000:17:00.0", "(fatal) at 0000:17:00.0"),
        ("uncorrected", None, "(uncorrected) at a device"),
        ("corrected", "0000:17:00.0", None),
    ],
)
def test_a_pcie_error_that_was_not_corrected(severity: str, bus: str | None, words: str | None) -> None:
    fields: dict[str, Any] = {"severity": severity, "bus": bus} if bus else {"severity": severity}
    deduced_events = deduced(pcie_errors, event("kernel.aer", fields))
    assert [each.message for each in deduced_events] == ([f"a PCIe error {words}"] if words else [])


@pytest.mark.parametrize(
    ("api", "built", "actual"),
    [
        (11080, "12.2", "11.8"),
        (12020, "12.2", None),
        (12000, "12.9", None),
        (12090, "13.0", "12.9"),
        (11080, "x", None),
    ],
)
def test_a_driver_of_an_older_major_version(api: int, built: str, actual: str | None) -> None:
    events = (
        event("nccl.driver", {"api": api}),
        event("nccl.version", {"version": "2.20", "cuda": built}),
    )
    deduced_events = deduced(driver_older, *events)
    assert [(each.actual, each.needed) for each in deduced_events] == ([(actual, built)] if actual else [])


def channel(transport: str, network: str | None, *, gdr: bool, host: str = "n1") -> Event:
    fields: dict[str, Any] = {"transport": transport, "how": "x", "network": network, "gdr": gdr}
    given = {name: value for name, value in fields.items() if value is not None}
    line = f"Channel 00/0 : 0[0] -> 1[0] [send] via {transport}/{network}/0" + ("/GDRDMA" if gdr else "")
    return event("nccl.channel", given, text=line, host=host)


@pytest.mark.parametrize(
    ("channels", "is_missing"),
    [
        ([channel("NET", "IB", gdr=False)], True),
        ([channel("NET", "IB", gdr=True)], False),
        ([channel("NET", "IB", gdr=False), channel("NET", "IB", gdr=True)], False),
        ([channel("NET", "IB", gdr=False), channel("NET", "IB", gdr=True, host="n2")], True),
        ([channel("NET", "Socket", gdr=False)], False),
        ([channel("P2P", "IB", gdr=False)], False),
        ([], False),
    ],
)
def test_hosts_without_gpudirect(channels: list[Event], is_missing: bool) -> None:
    assert bool(deduced(gdr_missing, *channels)) is is_missing


@pytest.mark.parametrize(
    ("links", "status", "local_gid", "firm"),
    [
        (None, 12, None, [False]),
        ("RoCE", 12, None, [False]),
        ("IB", 12, None, []),
        (None, 5, None, []),
        ("RoCE", 12, "fe80::1", [True]),
        ("RoCE", 12, "::ffff:192.0.2.2", [False]),
    ],
)
def test_a_missing_answer_on_roce_may_come_from_the_gid(
    links: str | None, status: int, local_gid: str | None, firm: list[bool]
) -> None:
    fields: dict[str, Any] = {"status": status, "vendor": 129}
    events = [event("nccl.ib.completion-error", fields | ({"local_gid": local_gid} if local_gid else {}))]
    events += [event("nccl.hcas", {"names": "mlx5_0", "links": links, "count": 1})] if links else []
    assert [each.firm for each in deduced(gid_suspected, *events)] == firm


def start(rank: int, ranks: int, **envelope: Any) -> Event:
    return event("nccl.init-start", {"rank": rank, "ranks": ranks}, **envelope)


@pytest.mark.parametrize(
    ("events", "names"),
    [
        ([start(0, 4), start(1, 4)], "2-3"),
        ([start(0, 2), start(1, 2)], None),
        ([start(0, 2), start(1, 2, count=2)], None),
        ([start(0, 4), start(1, 4, count=2)], None),
        ([start(0, 4), start(1, 2)], "1-3"),
        ([start(0, 4), event("torch.exception", {}, rank=3)], "1-2"),
        ([start(0, 4097)], None),
        ([start(0, 4096)], "1-4095"),
        ([], None),
    ],
)
def test_ranks_that_no_line_names(events: list[Event], names: str | None) -> None:
    deduced_events = deduced(unnamed_ranks, *events)
    assert [each.names for each in deduced_events] == ([names] if names else [])


def status(rank: int, seq: int, enqueued: int) -> Event:
    return event("torch.work-status", {"seq": seq, "enqueued": enqueued, "completed": 1}, rank=rank)


@pytest.mark.parametrize(
    ("statuses", "names", "seq"),
    [
        ([status(0, 5, 5), status(1, 5, 4)], "1", 5),
        ([status(0, 5, 5), status(1, 5, 5)], None, None),
        ([status(0, 5, 6), status(1, 6, 6), status(2, 6, 5)], "2", 6),
        ([status(1, 6, 6), status(0, 5, 5)], "0", 6),
    ],
)
def test_ranks_that_never_enqueued_a_collective(
    statuses: list[Event], names: str | None, seq: int | None
) -> None:
    deduced_events = deduced(stragglers, *statuses)
    assert len(deduced_events) == (names is not None)
    if names is not None:
        assert deduced_events[0].seq == seq
        assert names in deduced_events[0].names


@pytest.mark.parametrize(
    ("rows", "is_cliff"),
    [
        ([(32, 100.0), (64, 39.9), (128, 39.9)], True),
        # 0.4 of the best rate is no collapse, one large message is no proof, and small messages do not count.
        ([(32, 100.0), (64, 40.0), (128, 39.9)], False),
        ([(32, 100.0), (64, 39.9)], False),
        ([(8, 100.0), (16, 39.9), (32, 39.9)], False),
        ([(32, 1.0), (64, 0.3), (128, 0.3)], True),
        ([(32, 0.9), (64, 0.3), (128, 0.3)], False),
        ([(32, 100.0), (64, 39.9), (128, 100.0)], False),
    ],
)
def test_a_bandwidth_that_collapses_for_large_messages(rows: list[tuple[int, float]], is_cliff: bool) -> None:
    assert bool(deduced(cliff, *(result(mib, rate) for mib, rate in rows))) is is_cliff
    assert not deduced(cliff, *(result(mib, rate, in_place=True) for mib, rate in rows))


@pytest.mark.parametrize(
    ("health", "state", "words"),
    [
        ("0x1", 3, "degraded"),
        ("0x2", 3, None),
        ("0x4", 3, "degraded"),
        ("0x10", 3, "degraded"),
        ("0x40", 3, "degraded"),
        ("0xaa", 3, None),
        # Bits above the four flags have another meaning.
        ("0x100", 3, None),
        ("x", 3, None),
        (None, 3, None),
        (None, 0, None),
        (None, 2, "state 2"),
        ("0x2", 1, "state 1"),
        (None, None, None),
    ],
)
def test_an_unhealthy_fabric(health: str | None, state: int | None, words: str | None) -> None:
    fields: dict[str, Any] = {"health": health, "state": state}
    deduced_events = deduced(
        fabric_degraded, event("nccl.mnnvl", {k: v for k, v in fields.items() if v is not None})
    )
    assert len(deduced_events) == (words is not None)
    assert words is None or words in deduced_events[0].why
