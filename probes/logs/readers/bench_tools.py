"""Other benchmarks' whole outputs: CUDA's bandwidthTest, SuperBench's gpu_copy, fabtests, GPCNeT.

Source: the parsers of these tools in `probes/parsers` and what they name.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from probes.base.units import GB
from probes.facts import ToolResult
from probes.logs.event import Event, LogLine
from probes.logs.events.measurement_events import BenchFailure, BenchLatency, BenchResult
from probes.logs.readers.row_readers import read_rows, row, signs
from probes.logs.readers.whole_files import Document
from probes.parsers.tools import cuda_bandwidth, fabtests, gpcnet

DOCUMENT_SIGNS: tuple[bytes, ...] = (
    b"CUDA Bandwidth Test",
    b"Bandwidth(GB/s)",
    b"Bandwidth(MB/s)",
    b"bandwidthTest",
    b"cpu_to_gpu",
    b"gpu0_to_",
    b"usec/xfer",
    b"Network Tests v",
    b"NetworkLoad Tests v",
    b"Network Load Tests v",
    b"Congestion Tests",
    b"this application must be run on at least",
)
_ROWS = (
    row(
        BenchFailure,
        ", ret=-",
        r"(?P<reason>(?P<test>fi_\w{2,40})\(\): \S{3,60}:\d{1,6}, ret=-\d{1,6} \([^)\n]{1,100}\))",
        tool="fabtests",
    ),
)
SIGNS: tuple[bytes, ...] = signs(_ROWS)
_PARSERS = (("cuda-bandwidth", cuda_bandwidth), ("fabtests", fabtests), ("gpcnet", gpcnet))
_MICROSECONDS = 1e6
_MOST = 256


def read(line: LogLine) -> tuple[Event, ...]:
    """Return a failed call of libfabric in fabtests, which then end at once."""
    return read_rows(_ROWS, line)


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """Return the result of each test of a file."""
    document = Document(name, data)
    for tool, parser in _PARSERS:
        if parser.recognise(document.text):
            return tuple(_results(document, tool, parser.parse_results(document.text)))[:_MOST]
    return ()


def _results(document: Document, tool: str, results: tuple[ToolResult, ...]) -> Iterator[Event]:
    tests: dict[tuple[str, str], list[ToolResult]] = {}
    for result in results:
        if result.metric == "status" and result.message:
            failure = BenchFailure(tool=tool, test=result.test, reason=result.message[:200])
            yield document.event(failure, result.evidence)
        elif isinstance(result.value, int | float):
            tests.setdefault((result.test, result.metric), []).append(result)
    for (test, metric), measured in tests.items():
        largest = max(result.size_bytes or 0 for result in measured)
        ordered = sorted((result for result in measured if (result.size_bytes or 0) == largest), key=_value)
        first = ordered[0]
        if metric == "latency":
            lowest = min(measured, key=_value)
            latency = BenchLatency(tool=tool, test=test, usec=round(_value(lowest) * _MICROSECONDS, 3))
            yield document.event(latency, lowest.evidence)
        elif metric in {"bandwidth", "bus_bandwidth"}:
            rates = [_value(result) / GB for result in ordered]
            peak = max(_value(result) for result in measured) / GB
            rate = BenchResult(
                tool=tool,
                test=test,
                slowest=first.subject,
                slowest_gbps=round(rates[0], 3),
                median_gbps=round(statistics.median(rates), 3),
                fastest_gbps=round(rates[-1], 3),
                count=len(rates),
                peak_gbps=round(peak, 3) if peak > rates[-1] else None,
            )
            yield document.event(rate, first.evidence)


def _value(result: ToolResult) -> float:
    return float(result.value) if isinstance(result.value, int | float) else 0.0
