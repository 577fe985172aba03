"""Reader of benchmarks: nvbandwidth, perftest, CUDA's bandwidthTest, SuperBench's gpu_copy, fabtests, GPCNeT.

Failures are read line by line, between other lines. Results are read from whole files, because a table needs
all its lines.

Source: NVIDIA/nvbandwidth, output.cpp, json_output.cpp; linux-rdma/perftest, src/perftest_resources.c,
perftest_communication.c (read 2026-11); the parsers of these tools in `probes/parsers/tools`.
"""

import itertools
import re
import statistics
from collections.abc import Iterator

from probes.base.units import GB
from probes.facts import ToolResult
from probes.logs.event import Event, LogLine
from probes.logs.events.measurement_events import (
    BenchFailure,
    BenchLatency,
    BenchResult,
    NvbandwidthFailure,
    NvbandwidthResult,
    NvbandwidthSum,
    NvbandwidthVersion,
    NvbandwidthWarning,
    PerftestCompletionError,
    PerftestConnectFailed,
    PerftestFailure,
    PerftestNoDevice,
    PerftestPeerClosed,
    PerftestQpFailed,
    PerftestRegistration,
    PerftestResult,
)
from probes.logs.readers.row_readers import read_rows, row, signs
from probes.logs.readers.whole_files import Document
from probes.parsers.tools import cuda_bandwidth, fabtests, gpcnet, nvbandwidth, perftest

_NVBANDWIDTH = (
    row(NvbandwidthVersion, "nvbandwidth Version", r"nvbandwidth Version: v?(?P<version>[\d.]{1,12})"),
    row(NvbandwidthSum, "SUM ", r"^SUM (?P<test>[a-z][a-z0-9_]{3,80}) (?P<value>[\d.]{1,20})\b"),
    row(NvbandwidthFailure, "CUDA_ERROR_", r"(?P<reason>CUDA_ERROR_\w{3,60}.{0,160}nvbandwidth.{0,80})"),
    row(
        NvbandwidthFailure, "Invalid value when checking", r"(?P<reason>Invalid value when checking.{0,160})"
    ),
    row(NvbandwidthFailure, "NVML_ERROR_", r"(?P<reason>.{0,60}NVML_ERROR_\w{3,60}.{0,120})"),
)
_PERFTEST = (
    row(
        PerftestCompletionError,
        "Failed status ",
        r"Failed status (?P<status>\d{1,3}): wr_id \d{1,20}(?:.{0,40}?vendor_err (?P<vendor>\d{1,5}))?",
    ),
    row(PerftestCompletionError, "Completion with error at ", r"(?P<text>Completion with error at \w{1,20})"),
    row(PerftestCompletionError, "Problems with warm up", r"(?P<text>Problems with warm up)"),
    row(PerftestQpFailed, "Failed to modify QP", r"(?P<reason>Failed to modify QP.{0,100})"),
    row(
        PerftestQpFailed,
        "Unable to Connect the HCA's through the link",
        r"(?P<reason>Unable to Connect the HCA's through the link)",
    ),
    row(PerftestQpFailed, "Unable to create QP", r"(?P<reason>Unable to create QP.{0,60})"),
    row(PerftestRegistration, "Couldn't allocate MR", r"(?P<reason>Couldn't allocate MR.{0,60})"),
    row(PerftestRegistration, "ailed to create mr", r"(?P<reason>[Ff]ailed to create mr.{0,60})"),
    row(PerftestRegistration, "allocate MR", r"(?P<reason>.{0,40}allocate MR.{0,60})"),
    row(
        PerftestConnectFailed,
        "Couldn't connect to ",
        r"(?P<reason>Couldn't connect to (?P<host>[^\s:]{1,120}):(?P<port>\d{1,5}))",
    ),
    row(PerftestConnectFailed, "Unable to open file descriptor for socket connection"),
    row(PerftestConnectFailed, "Unexpected CM event", r"(?P<reason>Unexpected CM event.{0,60})"),
    row(
        PerftestConnectFailed,
        "Unable to perform rdma_client",
        r"(?P<reason>Unable to perform rdma_client function)",
    ),
    row(PerftestPeerClosed, "Couldn't read remote address", r"(?P<reason>Couldn't read remote address)"),
    row(
        PerftestPeerClosed,
        "Failed to exchange data between",
        r"(?P<reason>Failed to exchange data between.{0,60})",
    ),
    row(PerftestNoDevice, "No IB devices found", r"(?P<reason>No IB devices found)"),
    row(PerftestNoDevice, "IB device ", r"(?P<reason>IB device \S{1,40} not found)"),
    row(
        PerftestNoDevice,
        "Unable to find the Infiniband/RoCE device",
        r"(?P<reason>Unable to find the Infiniband/RoCE device)",
    ),
    row(PerftestFailure, " Couldn't get device attributes", r"(?P<reason>Couldn't get device attributes)"),
    row(PerftestFailure, "Connection mismatch", r"(?P<reason>Connection mismatch.{0,100})"),
    row(
        PerftestFailure, "Parser function exited with Error", r"(?P<reason>Parser function exited with Error)"
    ),
    row(
        PerftestFailure,
        "Perftest doesn't support",
        r"(?P<reason>Perftest doesn't support(?!s? CUDA tests with inline).{0,100})",
    ),
)
_FABTESTS = (
    row(
        BenchFailure,
        ", ret=-",
        r"(?P<reason>(?P<test>fi_\w{2,40})\(\): \S{3,60}:\d{1,6}, ret=-\d{1,6} \([^)\n]{1,100}\))",
        tool="fabtests",
    ),
)
_OTHERS = (("cuda-bandwidth", cuda_bandwidth), ("fabtests", fabtests), ("gpcnet", gpcnet))
_VAGUE = (b"SUM ", b"IB device ")
SIGNS: tuple[bytes, ...] = (
    *(sign for sign in signs((*_NVBANDWIDTH, *_PERFTEST, *_FABTESTS)) if sign not in _VAGUE),
    b"SUM host",
    b"SUM device",
    b"SUM all_",
    b"SUM one_",
)
DOCUMENT_SIGNS: tuple[bytes, ...] = (
    b"nvbandwidth",
    b"memcpy CE ",
    b"memcpy SM ",
    b"Running host_to_device",
    b"Running device_to_",
    b"#iterations",
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
_COMPLAINT = re.compile(r"fail|error|invalid|warning|not |[a-z] [a-z]", re.IGNORECASE)
"""Texts that report a failure: they contain one of these words, or consist of several words."""
_GBIT = 8e-9
_MICROSECONDS = 1e6
_MOST = 256


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the failures that one line reports, and the version and sums of nvbandwidth."""
    return tuple(event for rows in (_NVBANDWIDTH, _PERFTEST, _FABTESTS) for event in read_rows(rows, line))


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """Return the main result and the failures of each test in a file."""
    document = Document(name, data)
    text = document.text
    events: list[Event] = []
    if nvbandwidth.recognise(text):
        events += itertools.islice(_copies(document, nvbandwidth.parse_results(text)), _MOST)
    if perftest.recognise(text):
        events += itertools.islice(_transfers(document, perftest.parse_results(text)), _MOST)
    for tool, parser in _OTHERS:
        if parser.recognise(text):
            events += itertools.islice(_results(document, tool, parser.parse_results(text)), _MOST)
            break
    return tuple(events)


def _copies(document: Document, results: tuple[ToolResult, ...]) -> Iterator[Event]:
    """Yield the lowest, median and highest bandwidth of each nvbandwidth test, and the tests' complaints."""
    tests: dict[str, list[ToolResult]] = {}
    for result in results:
        if result.metric == "status" and _COMPLAINT.search(result.message):
            complaint = NvbandwidthWarning if result.message.startswith("WARNING") else NvbandwidthFailure
            yield document.event(complaint(test=result.test, reason=result.message[:200]), result.evidence)
        elif result.metric == "bandwidth" and isinstance(result.value, int | float) and result.value > 0:
            tests.setdefault(result.test, []).append(result)
    for test, bandwidths in tests.items():
        ordered = sorted(bandwidths, key=_value)
        record = NvbandwidthResult(
            test=test,
            slowest=ordered[0].subject,
            slowest_gbps=round(_value(ordered[0]) / GB, 3),
            median_gbps=round(statistics.median(map(_value, ordered)) / GB, 3),
            fastest_gbps=round(_value(ordered[-1]) / GB, 3),
            pairs=len(ordered),
        )
        yield document.event(record, ordered[0].evidence)


def _transfers(document: Document, results: tuple[ToolResult, ...]) -> Iterator[Event]:
    """Yield the main figure of each test of perftest."""
    best: dict[tuple[str, str], ToolResult] = {}
    for result in results:
        if not isinstance(result.value, int | float) or result.size_bytes is None:
            continue
        key = (result.test, result.subject)
        known = best.get(key)
        if known is None or _is_better(result, known):
            best[key] = result
    for result in best.values():
        is_latency = result.metric == "latency"
        record = PerftestResult(
            test=result.test,
            device=result.subject,
            bytes=result.size_bytes or 0,
            usec=round(_value(result) * _MICROSECONDS, 3) if is_latency else None,
            gbit_per_s=None if is_latency else round(_value(result) * _GBIT, 3),
        )
        yield document.event(record, result.evidence)


def _is_better(one: ToolResult, other: ToolResult) -> bool:
    """Return whether a row is the better main result.

    For bandwidth, the largest size is the main result; for latency, the smallest size."""
    first, second = one.size_bytes or 0, other.size_bytes or 0
    return first < second if one.metric == "latency" else first > second


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
