"""Parse `nvbandwidth`, text of all versions and `--json`: copies between host and GPUs and among GPUs.

A row and a column of a matrix are the two ends of a copy; the line above the matrix shows which of them is
the host. Units: GB/s are 1e9 bytes per second. Tests that a machine cannot run (device to device with one
GPU) are waived, which does not mean a fault.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Literal

from probes.base.record import NOT_RECORDED, Reason, Unknown, line_ref
from probes.base.units import GB
from probes.facts import Gpu, ToolResult, Unread
from probes.parsers.tools.tool_text import (
    gpus_measured,
    json_object,
    line_at,
    number,
    status_result,
    untagged_lines,
)
from probes.parsers.topology.pci_addresses import normal_address

TOOL = "nvbandwidth"

_RUNNING = re.compile(r"Running (?:benchmark )?([a-z][a-z0-9_]{3,80})\.?\s*")
_TITLE = re.compile(
    r".{0,60}?(CPU|GPU)\(row\) ?(<->|<-|->) ?(CPU|GPU)\(column\).{0,20}?\((GB/s|ns|us)\).{0,20}"
)
_ROW = re.compile(r"\s{0,8}(\d{1,4})((?:\s+(?:-?\d{1,12}(?:\.\d{1,12})?|N/A|nan|-nan|inf)){1,512})\s*")
_DEVICE = re.compile(
    r"(?:Process \d{1,4} .{0,80}?: )?[Dd]evice (\d{1,4}): (.{1,100}?)(?: \(([0-9a-fA-F:.]{7,16})\).{0,40})?"
)
_LISTED = re.compile(r"(\d{1,4}): (.{1,100}?) \(([0-9a-fA-F:.]{7,16})\).{0,40}")
"""A device in the list of the JSON output."""
_ERROR = re.compile(
    r"\s{0,8}(?:WARNING|ERROR)\b.*|.*(?:CUDA_ERROR_|NVML_ERROR_|Invalid value when checking).*"
)
_WAIVED = re.compile(r"\s*(?:Test )?\.?Waived[.:]?.*", re.IGNORECASE)
_MOST_RESULTS = 65536
_NAMES = {
    ("CPU", "->", "GPU"): "host_to_device_memcpy",
    ("CPU", "<-", "GPU"): "device_to_host_memcpy",
    ("CPU", "<->", "GPU"): "host_to_device_bidirectional_memcpy",
    ("GPU", "->", "GPU"): "device_to_device_memcpy_write",
    ("GPU", "<-", "GPU"): "device_to_device_memcpy_read",
    ("GPU", "<->", "GPU"): "device_to_device_bidirectional_memcpy",
}
"""Name of the test of a matrix whose first line was not pasted."""
_HEADS = (
    "Running host_to_device",
    "Running device_to_",
    "Running host_device_latency",
    "Running all_to_",
    "Running one_to_",
)


def recognise(text: str) -> bool:
    if json_object(text, TOOL) is not None or "nvbandwidth Version" in text:
        return True
    if not any(head in text for head in _HEADS) and "memcpy " not in text:
        return False
    return any(_TITLE.fullmatch(line.strip()) for line in text.split("\n") if "(row)" in line)


def parse_results(text: str) -> tuple[ToolResult, ...]:
    """Return the numbers of all matrices, the tool's errors, and the tests in JSON that did not pass."""
    decoded = json_object(text, TOOL)
    if decoded is None:
        return _first_numbers(_text_results(text))
    document, start, end = decoded
    body = document[TOOL]
    results = _json_results(body, line_at(text, start)) if isinstance(body, dict) else ()
    errors = (*_errors(text[:start], 1), *_errors(text[end:], line_at(text, end)))
    return (*_first_numbers(results), *errors)


def _first_numbers(results: Iterable[ToolResult]) -> tuple[ToolResult, ...]:
    """Return the first `_MOST_RESULTS` results, and every status."""
    room = itertools.count(1)
    return tuple(result for result in results if result.metric == "status" or next(room) <= _MOST_RESULTS)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs in the list of devices, or else the measured GPUs.

    They have CUDA's numbers, which equal NVML's if all GPUs are visible and of one kind.
    """
    gpus: dict[int, Gpu] = {}
    document = json_object(text, TOOL)
    body = document[0][TOOL] if document else None
    listed = body.get("GPU Device list") if isinstance(body, dict) else None
    pattern, lines = (_LISTED, listed) if isinstance(listed, list) else (_DEVICE, text.split("\n"))
    for line in lines:
        match = pattern.fullmatch(line.strip()) if isinstance(line, str) and ": " in line else None
        if match is not None:
            gpus.setdefault(
                int(match[1]), Gpu(index=int(match[1]), name=match[2], pci_bus_id=_address(match[3] or ""))
            )
    for index in () if gpus else gpus_measured(parse_results(text)):
        gpus[index] = Gpu(index=index)
    return tuple(gpus[index] for index in sorted(gpus))


def _address(printed: str) -> str | Unknown:
    """Return the PCI address; nvbandwidth prints addresses without the function number (`00000009:01:00`)."""
    return normal_address(printed if "." in printed else f"{printed}.0") if printed else NOT_RECORDED


def parse_unread(text: str) -> tuple[Unread, ...]:
    """Report a JSON output whose end is missing."""
    if f'"{TOOL}"' in text and json_object(text, TOOL) is None:
        return (Unread(source="", text=f'"{TOOL}"', why="the JSON object is incomplete"),)
    return ()


def _text_results(text: str) -> Iterator[ToolResult]:
    test, title, is_named = "", None, False
    for line_number, raw in untagged_lines(text):
        line = raw.rstrip()
        if (match := _RUNNING.fullmatch(line)) is not None:
            test, title, is_named = match[1], None, True
        elif (match := _TITLE.fullmatch(line.strip())) is not None:
            title, test = match, test if is_named else _name(match)
        elif _WAIVED.fullmatch(line):
            # Old versions print the line without a name, or before the next test, so its test is unknown.
            title = None
        elif (
            title is not None
            and test
            and (match := _ROW.fullmatch(line)) is not None
            and not _is_column_line(match)
        ):
            yield from _cells(test, title, int(match[1]), match[2].split(), line_number)
        elif _ERROR.fullmatch(line):
            yield status_result(TOOL, line, line_number)


def _name(title: re.Match[str]) -> str:
    """Return the test that the title of a matrix implies; empty for latencies, which have several tests."""
    if title[4] != "GB/s":
        return ""
    return f"{_NAMES.get((title[1], title[2], title[3]), 'copy')}_{'sm' if ' SM ' in title[0] else 'ce'}"


def _is_column_line(match: re.Match[str]) -> bool:
    """Return whether the line contains the numbers of the columns above a matrix: 0 1 2 ..."""
    words = [match[1], *match[2].split()]
    return words == [str(index) for index in range(len(words))]


def _cells(test: str, title: re.Match[str], row: int, cells: list[str], line: int) -> Iterator[ToolResult]:
    metric: Literal["bandwidth", "latency"] = "bandwidth" if title[4] == "GB/s" else "latency"
    factor = {"GB/s": float(GB), "ns": 1e-9, "us": 1e-6}[title[4]]
    is_pair = title[1] == title[3] == "GPU"
    for column, cell in enumerate(cells):
        value = None if is_pair and row == column else number(cell)
        gpu = f"GPU{column if title[3] == 'GPU' else row}"
        subject = f"GPU{row}-GPU{column}" if is_pair else gpu
        if value is not None:
            yield ToolResult(
                tool=TOOL,
                test=test,
                subject=subject,
                metric=metric,
                value=value * factor,
                unit="B/s" if metric == "bandwidth" else "s",
                evidence=(line_ref(line),) if line else (),
            )


def _json_results(body: dict[str, object], line: int) -> Iterator[ToolResult]:
    tests = body.get("testcases")
    for test in tests if isinstance(tests, list) else ():
        if not isinstance(test, dict) or not isinstance(name := test.get("name"), str):
            continue
        status = test.get("status")
        title = _TITLE.fullmatch(str(test.get("bandwidth_description", "")).strip())
        matrix = test.get("bandwidth_matrix")
        if title is not None and isinstance(matrix, list):
            for row, cells in enumerate(matrix):
                words = [str(cell) for cell in cells] if isinstance(cells, list) else []
                yield from _cells(name[:80], title, row, words, line)
        if status == "Waived":
            yield status_result(TOOL, "", line, test=name[:80], value=Unknown(Reason.NOT_SUPPORTED, "waived"))
        elif status != "Passed":
            reason = test.get("error") or test.get("reason") or status or "no status"
            value = Unknown(Reason.ERROR, str(status)[:60])
            yield status_result(TOOL, str(reason), line, test=name[:80], value=value)
    error = body.get("error")
    if isinstance(error, str) and error:
        yield status_result(TOOL, error, line, value=Unknown(Reason.ERROR, "error"))


def _errors(text: str, first: int) -> Iterator[ToolResult]:
    for line_number, line in enumerate(text.split("\n"), first):
        if _ERROR.fullmatch(line):
            yield status_result(TOOL, line, line_number)
