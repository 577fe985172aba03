"""Measured bandwidth against what the hardware gives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from probes.base.units import GB
from probes.compare.bench_references import load_bench_references
from probes.logs.deducing.common import found, nodes_of, whole
from probes.logs.deducing.run_hardware import gpu_id, nic_rate
from probes.logs.event import Event
from probes.logs.seen import Seen, number

_LARGE = 64 << 20
"""From which size on the bandwidth of a healthy network no longer falls."""
_CLIFF = 0.4
"""Share of the best of smaller messages below which all larger ones lie behind a cliff."""
_FULL_RATE = 64 << 10
"""From which size on one queue pair fills a port."""
_FEW_GBPS = 1.0
_ENOUGH_PEERS = 4
_BEHIND = 0.6
"""Share of the median of its peers below which one is named."""
_ENOUGH = 0.8
"""Share of a reference that still counts as reached."""


def failed_tests(seen: Seen) -> Iterator[Event]:
    """Tests that judged themselves."""
    for event in seen.of("nccl_tests.wrong")[:1]:
        yield found(
            "wrong-results",
            event,
            wrong=event.fields.get("count", 1),
            why="the results of a collective are wrong",
        )
    for event in seen.of("nccl_tests.below-minimum")[:1]:
        value = f"{event.fields.get('average', 0)} GB/s"
        yield found(
            "bandwidth-failed",
            event,
            what="The average bus bandwidth",
            value=value,
            why="less than the minimum that the test was given",
        )


def cliff(seen: Seen) -> Iterator[Event]:
    """Bandwidth that collapses above a size, out of place and for all larger messages."""
    tables: dict[tuple[object, ...], list[Event]] = {}
    for event in seen.of("nccl_tests.result"):
        if not whole(event.fields.get("in_place")):
            tables.setdefault((event.source, event.fields.get("collective")), []).append(event)
    for rows in tables.values():
        points = _points(rows) if _is_one(rows) else []
        for place in range(1, len(points)):
            best = max(rate for _, rate, _ in points[:place])
            size, _, event = points[place]
            after = [rate for _, rate, _ in points[place:]]
            if best >= _FEW_GBPS and len(after) >= 2 and size >= _LARGE and max(after) < _CLIFF * best:
                yield found(
                    "bandwidth-cliff",
                    event,
                    what="Bus bandwidth",
                    value=f"{max(after):g} GB/s from {size >> 20} MiB on",
                    expected=f"at least the {best:g} GB/s of smaller messages",
                    why="the network between some hosts loses packets or is congested, as RoCE without flow control",
                )
                return


def _is_one(rows: list[Event]) -> bool:
    """Whether sizes grow from the smallest on, so that no other table was written into this one."""
    sizes = [
        size
        for event in rows
        if not whole(event.fields.get("in_place")) and (size := whole(event.fields.get("bytes")))
    ]
    falls = sum(after <= before for before, after in itertools.pairwise(sizes))
    return falls < max(sizes.count(min(sizes, default=0)), 1)


def low(seen: Seen) -> Iterator[Event]:
    """The best of large messages of each collective against the references of this hardware."""
    collectives: dict[str, list[Event]] = {}
    for event in seen.of("nccl_tests.result"):
        collectives.setdefault(str(event.fields.get("collective", "")), []).append(event)
    for collective, rows in collectives.items():
        large = (point for point in _points(rows) if point[0] >= _LARGE and _is_one(rows))
        best = max(large, key=lambda point: point[1], default=None)
        if best is None:
            continue
        size, rate, event = best
        expected = reference(seen, collective, size)
        if expected is not None and rate * GB < _ENOUGH * expected:
            yield found(
                "bandwidth-low",
                event,
                what=f"{collective} of {size >> 20} MiB",
                value=f"{rate:g} GB/s",
                expected=f"{expected / GB:.0f} GB/s",
                fraction=round(rate * GB / expected, 3),
            )


def slow_peer(seen: Seen) -> Iterator[Event]:
    """A GPU or pair that is far behind the others of its kind in one test."""
    for event in seen.of("nvbandwidth.result"):
        slowest, median = number(event.fields.get("slowest_gbps")), number(event.fields.get("median_gbps"))
        if (
            slowest is None
            or not median
            or (whole(event.fields.get("pairs")) or 0) < _ENOUGH_PEERS
            or slowest >= _BEHIND * median
        ):
            continue
        what = f"{event.fields.get('test', 'a copy')} of {event.fields.get('slowest', 'one GPU')}"
        yield found(
            "slow-peer",
            event,
            what=what,
            value=f"{slowest:g} GB/s",
            expected=f"the {median:g} GB/s of the others",
        )
        return


def line_rate(seen: Seen) -> Iterator[Event]:
    """A test of RDMA far below the rate of its port, where the same log tells it."""
    rates = {
        (event.source, event.fields.get("device")): event.fields.get("gbit_per_s")
        for event in seen.of("host.port-rate")
    }
    for event in seen.of("perftest.result"):
        rate, value = (
            number(rates.get((event.source, event.fields.get("device")))),
            number(event.fields.get("gbit_per_s")),
        )
        if not rate or value is None or (whole(event.fields.get("bytes")) or 0) < _FULL_RATE:
            continue
        test = str(event.fields.get("test"))
        expected = rate * (2 if "bidirectional" in test else 1)
        if value < _ENOUGH * expected:
            yield found(
                "bandwidth-low",
                event,
                what=f"{test} on {event.fields.get('device')}",
                value=f"{value:g} Gbit/s",
                expected=f"the {expected:g} Gbit/s of its port",
                fraction=round(value / expected, 3),
            )


def reference(seen: Seen, collective: str, size: int) -> float | None:
    """Bus bandwidth in bytes per second that this hardware reached elsewhere; None where that is not
    known.
    """
    references = load_bench_references()
    nodes = nodes_of(seen)
    if nodes > 1:
        across = references.across(collective, size)
        rate = nic_rate(seen)
        return None if across is None or rate is None else rate * across.fraction
    gpu = gpu_id(seen)
    ranks = len(
        {
            (event.host, event.fields.get("bus"), event.fields.get("gpu"))
            for event in seen.of("nccl_tests.rank")
        }
    )
    version = next((str(event.fields.get("version", "")) for event in seen.of("nccl.version")), "")
    rows = {} if gpu is None else references.collective_rates(gpu, collective, ranks, size, version)
    rates = [row.rates[collective] for row in rows.values()]
    return min(rates, default=None)


def _points(rows: list[Event]) -> list[tuple[int, float, Event]]:
    points = []
    for event in rows:
        size, rate = whole(event.fields.get("bytes")), number(event.fields.get("busbw_gbps"))
        if size is not None and rate is not None:
            points.append((size, rate, event))
    return sorted(points, key=lambda point: point[:2])


DEDUCTIONS = (failed_tests, cliff, low, slow_peer, line_rate)
