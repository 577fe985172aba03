"""nvbandwidth, as text between other lines and as a whole file, text or JSON.

Source: NVIDIA/nvbandwidth, output.cpp, json_output.cpp (read 2026-11); `probes/parsers/tools/nvbandwidth.py`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable

from probes.base.units import GB
from probes.facts import ToolResult
from probes.logs.event import Event, LogLine
from probes.logs.events.measurement_events import (
    NvbandwidthFailure,
    NvbandwidthResult,
    NvbandwidthSum,
    NvbandwidthVersion,
    NvbandwidthWarning,
)
from probes.logs.readers.row_readers import read_rows, row, signs
from probes.logs.readers.whole_files import Document
from probes.parsers.tools.nvbandwidth import parse_results, recognise

_ROWS = (
    row(NvbandwidthVersion, "nvbandwidth Version", r"nvbandwidth Version: v?(?P<version>[\d.]{1,12})"),
    row(NvbandwidthSum, "SUM ", r"^SUM (?P<test>[a-z][a-z0-9_]{3,80}) (?P<value>[\d.]{1,20})\b"),
    row(NvbandwidthFailure, "CUDA_ERROR_", r"(?P<reason>CUDA_ERROR_\w{3,60}.{0,160}nvbandwidth.{0,80})"),
    row(
        NvbandwidthFailure, "Invalid value when checking", r"(?P<reason>Invalid value when checking.{0,160})"
    ),
    row(NvbandwidthFailure, "NVML_ERROR_", r"(?P<reason>.{0,60}NVML_ERROR_\w{3,60}.{0,120})"),
)
SIGNS: tuple[bytes, ...] = (
    *(sign for sign in signs(_ROWS) if sign != b"SUM "),
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
)
_MOST = 256
_COMPLAINT = re.compile(r"fail|error|invalid|warning|not |[a-z] [a-z]", re.IGNORECASE)
"""Words of a test that failed. Half of a word is no complaint."""


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line; `read_document` reads matrices, which need the whole file."""
    return read_rows(_ROWS, line)


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """Return the spread of every test's bandwidths, and the failures."""
    document = Document(name, data)
    return tuple(_results(document, parse_results(document.text)))[:_MOST] if recognise(document.text) else ()


def _results(document: Document, results: tuple[ToolResult, ...]) -> Iterable[Event]:
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


def _value(result: ToolResult) -> float:
    return float(result.value) if isinstance(result.value, int | float) else 0.0
