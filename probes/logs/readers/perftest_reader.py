"""perftest (`ib_write_bw`, `ib_read_lat` ...): errors between other lines, results of whole files.

Source: linux-rdma/perftest, src/perftest_resources.c, perftest_communication.c (read 2026-11);
`probes/parsers/tools/perftest.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.facts import ToolResult
from probes.logs.event import Event, LogLine
from probes.logs.events.measurement_events import (
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
from probes.parsers.tools.perftest import parse_results, recognise

_ROWS = (
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
SIGNS: tuple[bytes, ...] = tuple(sign for sign in signs(_ROWS) if sign != b"IB device ")
DOCUMENT_SIGNS: tuple[bytes, ...] = (b"#iterations",)
_GBIT = 8e-9
_MICROSECONDS = 1e6
_MOST = 256


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line; `read_document` reads tables, which need the whole file."""
    return read_rows(_ROWS, line)


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """Return the main figure of each test of a file."""
    document = Document(name, data)
    return tuple(_results(document, parse_results(document.text)))[:_MOST] if recognise(document.text) else ()


def _results(document: Document, results: tuple[ToolResult, ...]) -> Iterator[Event]:
    best: dict[tuple[str, str], ToolResult] = {}
    for result in results:
        if not isinstance(result.value, int | float) or result.size_bytes is None:
            continue
        key = (result.test, result.subject)
        known = best.get(key)
        if known is None or _is_better(result, known):
            best[key] = result
    for result in best.values():
        value = float(result.value) if isinstance(result.value, int | float) else 0.0
        is_latency = result.metric == "latency"
        record = PerftestResult(
            test=result.test,
            device=result.subject,
            bytes=result.size_bytes or 0,
            usec=round(value * _MICROSECONDS, 3) if is_latency else None,
            gbit_per_s=None if is_latency else round(value * _GBIT, 3),
        )
        yield document.event(record, result.evidence)


def _is_better(one: ToolResult, other: ToolResult) -> bool:
    """Return whether a row is better: the largest size counts for bandwidth, the smallest for latency."""
    first, second = one.size_bytes or 0, other.size_bytes or 0
    return first < second if one.metric == "latency" else first > second
