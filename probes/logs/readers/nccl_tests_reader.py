"""Reader of nccl-tests and rccl-tests (`all_reduce_perf` ...), alone or between NCCL's own lines.

Source: NVIDIA/nccl-tests, src/common.cu and doc/PERFORMANCE.md (read 2026-11);
`probes/parsers/tools/nccl_tests.py`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.measurement_events import (
    NcclTestsBelowMinimum,
    NcclTestsFailure,
    NcclTestsRank,
    NcclTestsRankTwice,
    NcclTestsResult,
    NcclTestsStart,
    NcclTestsSummary,
    NcclTestsWrong,
)
from probes.parsers.tools.nccl_tests import (
    average_of,
    bounds_of,
    collective,
    failure_of,
    rank_of,
    row_of,
    started,
    starts_table,
)
from probes.parsers.tools.tool_text import number

SIGNS: tuple[bytes, ...] = (
    b"float  ",
    b"half  ",
    b"bfloat16  ",
    b"double  ",
    b"int8  ",
    b"int32  ",
    b"int64  ",
    b"float8",
    b"reduce_perf",
    b"gather_perf",
    b"scatter_perf",
    b"alltoall_perf",
    b"alltoallv_perf",
    b"broadcast_perf",
    b"sendrecv_perf",
    b"hypercube_perf",
    b"  Rank ",
    b"# nThread ",
    b"algbw   busbw",
    b"# Out of bounds values",
    b"Avg bus bandwidth",
    b"Test NCCL failure",
    b"Test CUDA failure",
    b"Test failure",
    b"Test timeout",
    b"Failed: NCCL error",
    b"Failed: CUDA error",
)
_NUMBERED = pattern(r"Rank\s+(\d{1,6})(?: Group\s+\d{1,6})?(?:\s+Pid\s+(\d{1,9}))?")
_MOST_ROWS = 4096
_MOST_RANKS = 65536
_ROUNDED = 0.03
"""Accepted relative difference of time x bandwidth from the size, because times are printed rounded."""
_SMALLEST_GBPS = 0.01
"""Smallest bandwidth that two decimal places can show."""
_MOST_BUS = 2.02
"""Upper bound of bus bandwidth per algorithm bandwidth: 2 (n - 1) / n for all_reduce, less for others."""


class _Size(NamedTuple):
    line: LogLine
    size: int
    columns: tuple[str, str]
    rates: tuple[tuple[str, ...], tuple[str, ...]]


class Reader:
    """The tables of one source."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._processes: dict[int, tuple[str, str]] = {}
        """Host and process of each rank in the current list of devices."""
        self._name = ""
        self._rows: list[_Size] = []
        self._hosts: dict[str, None] = {}
        self._ranks = 0
        self._average: float | None = None

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Read a line and return events.

        Rows are returned at the end of their table, when their collective is known.
        """
        text = line.text
        if (row := row_of(text)) is not None:
            if len(self._rows) < _MOST_ROWS and all(_agrees(row[0], rates) for rates in row[2]):
                self._rows.append(_Size(line, row[0], row[1], row[2]))
            return ()
        if (rank := rank_of(text)) is not None:
            before = self._finish() if self._rows else ()
            self._ranks += self._ranks < _MOST_RANKS
            if len(self._hosts) < _MOST_RANKS:
                self._hosts.setdefault(rank[0], None)
            return (*before, *self._rank(line, rank))
        if text.startswith("# nThread "):
            self._processes.clear()
            return ()
        if (name := started(text)) or starts_table(text):
            before = self._finish() if self._rows else ()
            self._name = name or self._name
            return (*before, event_of(NcclTestsStart(collective=name), line)) if name else before
        return self._verdict(line)

    def _rank(self, line: LogLine, rank: tuple[str, int, str, str]) -> Iterator[Event]:
        """Yield a device of the list, and an event if a second process claims rank 0."""
        device = NcclTestsRank(host=rank[0], gpu=rank[1], bus=rank[2], name=rank[3])
        numbered = _NUMBERED.search(line.text)
        if numbered is None:
            yield event_of(device, line)
            return
        number, process = int(numbered[1]), (rank[0], numbered[2] or "")
        yield event_of(msgspec.structs.replace(device, rank=number), line)
        other = self._processes.setdefault(number, process) if len(self._processes) < _MOST_RANKS else process
        is_other = (
            other[1] not in process[1] and process[1] not in other[1]
        )  # otherwise the line is a damaged line of the same process
        if is_other and number == 0:  # separate measurements, each with a rank 0
            yield event_of(NcclTestsRankTwice(rank=number, host=process[0], other_host=other[0]), line)

    def _verdict(self, line: LogLine) -> tuple[Event, ...]:
        if (bounds := bounds_of(line.text)) is not None:
            count, failed = bounds
            return (event_of(NcclTestsWrong(count=count, collective=self._name), line),) if failed else ()
        if (average := average_of(line.text)) is not None:
            value, failed = average
            self._average = value
            events = self._finish(line)
            return (*events, event_of(NcclTestsBelowMinimum(average=value), line)) if failed else events
        if (failure := failure_of(line.text)) is not None:
            return (event_of(NcclTestsFailure(reason=failure), line),)
        return ()

    def end(self) -> tuple[Event, ...]:
        """Return the events of the last table."""
        return self._finish()

    def _finish(self, line: LogLine | None = None) -> tuple[Event, ...]:
        """Return the events of a table.

        If the log lacks the table, return only the average that `line` reports.
        """
        rows, hosts, listed, average, name = (
            self._rows,
            len(self._hosts),
            self._ranks,
            self._average,
            self._name,
        )
        self._begin()
        rows = [row for row in rows if row.size > 0]
        if not rows:
            if average is None or line is None:
                return ()
            return (event_of(NcclTestsSummary(collective=name, avg_busbw_gbps=average), line),)
        largest = max(rows, key=lambda row: row.size)
        names = collective(
            name, largest.columns, (_rate(largest.rates[0], 1), _rate(largest.rates[0], 2)), listed or None
        )
        ranks, nodes = names.ranks or None, hosts or None
        results = [
            event_of(_result(row, place, names.test, ranks, nodes), row.line)
            for row in rows
            for place in (0, 1)
        ]
        best = max(rows, key=lambda row: max(_rate(rates, 2) for rates in row.rates))
        summary = NcclTestsSummary(
            collective=names.test,
            ranks=ranks,
            nodes=nodes,
            sizes=len(rows),
            max_bytes=largest.size,
            max_busbw_gbps=max(_rate(rates, 2) for rates in largest.rates),
            peak_bytes=best.size,
            peak_busbw_gbps=max(_rate(rates, 2) for rates in best.rates),
            avg_busbw_gbps=average,
        )
        return (*results, event_of(summary, largest.line))


def _agrees(size: int, columns: tuple[str, ...]) -> bool:
    """Return whether size, time and both bandwidths of a row are consistent, unlike in damaged lines.

    A row without a time or algorithm bandwidth counts as consistent.
    """
    time_us, rate, bus = (_rate(columns, place) for place in range(3))
    if not (time_us and rate):
        return True
    rounded = _ROUNDED * size + 2 * _SMALLEST_GBPS * time_us * 1e3
    return abs(rate * time_us * 1e3 - size) <= rounded and bus <= _MOST_BUS * rate + _SMALLEST_GBPS


def _rate(columns: tuple[str, ...], place: int) -> float:
    return number(columns[place]) or 0.0


def _result(row: _Size, place: int, collective: str, ranks: int | None, nodes: int | None) -> NcclTestsResult:
    columns = row.rates[place]
    return NcclTestsResult(
        collective=collective,
        bytes=row.size,
        time_us=_rate(columns, 0),
        algbw_gbps=_rate(columns, 1),
        busbw_gbps=_rate(columns, 2),
        in_place=place == 1,
        ranks=ranks,
        nodes=nodes,
        wrong=number(columns[3]) or None,
    )
