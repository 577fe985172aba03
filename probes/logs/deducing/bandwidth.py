"""Deductions about bandwidth: comparison of measured values with the values that the hardware can reach."""

import itertools
from collections.abc import Iterator

from probes.base.grouping import grouped
from probes.base.units import GB
from probes.compare.reference_rows import load_bench_references
from probes.logs.deducing.common import deduced, gpu_id, nic_rate, nodes_of
from probes.logs.event import Event
from probes.logs.events.deduced_hardware_events import (
    DeducedBandwidthCliff,
    DeducedBandwidthFailed,
    DeducedBandwidthLow,
    DeducedSlowPeer,
    DeducedWrongResults,
)
from probes.logs.events.host_events import HostPortRate
from probes.logs.events.measurement_events import (
    NcclTestsBelowMinimum,
    NcclTestsRank,
    NcclTestsResult,
    NcclTestsWrong,
    NvbandwidthResult,
    PerftestResult,
)
from probes.logs.events.nccl_events import NcclVersion
from probes.logs.logged_events import LoggedEvents

_Result = Event[NcclTestsResult]

_LARGE = 64 << 20
"""Message size in bytes from which on the bandwidth of a healthy network does not fall."""
_CLIFF = 0.4
"""Share of the best rate of smaller messages.

If all larger messages stay below this share, the rate has collapsed.
"""
_FULL_RATE = 64 << 10
"""Message size in bytes from which one queue pair reaches the full rate of a port."""
_FEW_GBPS = 1.0
_ENOUGH_PEERS = 4
_BEHIND = 0.6
"""Share of the peers' median below which a GPU or pair is reported."""
_ENOUGH = 0.8
"""Share of the reference below which a bandwidth is reported as low."""


def failed_tests(logged: LoggedEvents) -> Iterator[Event]:
    """Yield the first test with wrong results, and the first test below the minimum that its user set."""
    for wrong in logged.of(NcclTestsWrong)[:1]:
        yield deduced(
            wrong, DeducedWrongResults(wrong=wrong.what.count, why="the results of a collective are wrong")
        )
    for event in logged.of(NcclTestsBelowMinimum)[:1]:
        value = f"{'?' if event.what.average is None else event.what.average} GB/s"
        yield deduced(
            event,
            DeducedBandwidthFailed(
                what="The average bus bandwidth",
                value=value,
                why="less than the minimum that was set for the test",
            ),
        )


def cliff(logged: LoggedEvents) -> Iterator[Event]:
    """Yield the first out-of-place bandwidth that collapses at a size and stays low for larger messages."""
    tables = grouped(
        ((event.source, event.what.collective), event)
        for event in logged.of(NcclTestsResult)
        if not event.what.in_place
    )
    for rows in tables.values():
        points = _points(rows) if _is_one(rows) else []
        for place in range(1, len(points)):
            best = max(rate for _, rate, _ in points[:place])
            size, _, event = points[place]
            after = [rate for _, rate, _ in points[place:]]
            if best >= _FEW_GBPS and len(after) >= 2 and size >= _LARGE and max(after) < _CLIFF * best:
                yield deduced(
                    event,
                    DeducedBandwidthCliff(
                        what="Bus bandwidth",
                        value=f"{max(after):g} GB/s from {size >> 20} MiB on",
                        expected=f"at least the {best:g} GB/s of smaller messages",
                        why=(
                            "large messages pass a slower path between the GPUs of this machine"
                            if nodes_of(logged) == 1
                            else "the network between some hosts loses packets or is congested, which "
                            "happens with RoCE without flow control"
                        ),
                    ),
                )
                return


def _is_one(rows: list[_Result]) -> bool:
    """Return whether the rows form one table: sizes grow, and may start again only at the smallest size."""
    sizes = [size for event in rows if not event.what.in_place and (size := event.what.bytes)]
    falls = sum(after <= before for before, after in itertools.pairwise(sizes))
    return falls < max(sizes.count(min(sizes, default=0)), 1)


def low(logged: LoggedEvents) -> Iterator[Event]:
    """Yield collectives whose bandwidth for large messages is clearly below the hardware's reference."""
    collectives = grouped((event.what.collective, event) for event in logged.of(NcclTestsResult))
    for collective, rows in collectives.items():
        large = (point for point in _points(rows) if point[0] >= _LARGE and _is_one(rows))
        best = max(large, key=lambda point: point[1], default=None)
        if best is None:
            continue
        size, rate, event = best
        expected = reference(logged, collective, size)
        if expected is not None and rate * GB < _ENOUGH * expected:
            yield deduced(
                event,
                DeducedBandwidthLow(
                    what=f"{collective} of {size >> 20} MiB",
                    value=f"{rate:g} GB/s",
                    expected=f"{expected / GB:.0f} GB/s",
                    fraction=round(rate * GB / expected, 3),
                ),
            )


def slow_peer(logged: LoggedEvents) -> Iterator[Event]:
    """Yield the first GPU, or pair of GPUs, that is much slower than the others in the same test."""
    for event in logged.of(NvbandwidthResult):
        slowest, median = event.what.slowest_gbps, event.what.median_gbps
        if not median or event.what.pairs < _ENOUGH_PEERS or slowest >= _BEHIND * median:
            continue
        what = f"{event.what.test} of {event.what.slowest}"
        yield deduced(
            event,
            DeducedSlowPeer(
                what=what, value=f"{slowest:g} GB/s", expected=f"the {median:g} GB/s of the others"
            ),
        )
        return


def line_rate(logged: LoggedEvents) -> Iterator[Event]:
    """Yield each RDMA test that is clearly below the rate of its port, if the same log reports that rate."""
    rates = {(event.source, event.what.device): event.what.gbit_per_s for event in logged.of(HostPortRate)}
    for event in logged.of(PerftestResult):
        rate, value = rates.get((event.source, event.what.device)), event.what.gbit_per_s
        if not rate or value is None or event.what.bytes < _FULL_RATE:
            continue
        test = event.what.test
        expected = rate * (2 if "bidirectional" in test else 1)
        if value < _ENOUGH * expected:
            yield deduced(
                event,
                DeducedBandwidthLow(
                    what=f"{test} on {event.what.device}",
                    value=f"{value:g} Gbit/s",
                    expected=f"the {expected:g} Gbit/s of its port",
                    fraction=round(value / expected, 3),
                ),
            )


def reference(logged: LoggedEvents, collective: str, size: int) -> float | None:
    """Return the lowest reference bus bandwidth of this hardware in bytes per second; None if unknown."""
    references = load_bench_references()
    nodes = nodes_of(logged)
    if nodes > 1:
        across = references.across(collective, size)
        rate = nic_rate(logged)
        return None if across is None or rate is None else rate * across.fraction
    gpu = gpu_id(logged)
    ranks = len({(event.host, event.what.bus, event.what.gpu) for event in logged.of(NcclTestsRank)})
    version = next((event.what.version for event in logged.of(NcclVersion)), "")
    rows = {} if gpu is None else references.collective_rates(gpu, collective, ranks, size, version)
    rates = [row.rates[collective] for row in rows.values()]
    return min(rates, default=None)


def _points(rows: list[_Result]) -> list[tuple[int, float, _Result]]:
    points = ((event.what.bytes, event.what.busbw_gbps, event) for event in rows)
    return sorted(points, key=lambda point: point[:2])


DEDUCTIONS = (failed_tests, cliff, low, slow_peer, line_rate)
