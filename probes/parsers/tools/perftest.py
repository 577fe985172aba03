"""Parse perftest: `ib_write_bw`, `ib_read_bw`, `ib_send_bw`, the `_lat` variants, `raw_ethernet_*` and
`rdma`.

Server and client print the same table, and one text may contain both, so the last line of each size is used.
Units: MB/sec are 2^20 bytes per second, Gb/sec 1e9 bits. Source: linux-rdma/perftest,
src/perftest_resources.c and perftest_parameters.h (read 2026-11).
"""

import re
from typing import Literal

from probes.base.record import line_ref
from probes.base.units import MIB
from probes.facts import ToolResult
from probes.parsers.tools.tool_text import number, status_result, untagged, untagged_lines

TOOL = "perftest"

_TITLE = re.compile(
    r"\s{0,60}(?:RDMA_)?(Write|Read|Send|Atomic|Raw|Write_?With_?Immediate|Write_Imm)(?:[_ ][A-Za-z]{1,20})?"
    r" (?:Bidirectional )?(BW|Latency|Post List BW)(?:[ _][A-Za-z]{1,20}){0,3} Test\s*"
)
_BIDIRECTIONAL = re.compile(r"\bBidirectional\b|\bDuplex\b")
_DEVICE = re.compile(r"\bDevice\s{0,12}:\s{0,4}([A-Za-z][A-Za-z0-9_.-]{0,40})")
_BANDWIDTH = re.compile(
    r"\s{0,4}#bytes\s+#iterations\s+BW peak\[(MB|Gb|MiB|GB)/sec\]\s+BW average\[(MB|Gb|MiB|GB)/sec\].*"
)
_LATENCY = re.compile(r"\s{0,4}#bytes\s+#iterations\s+t_(?:min|avg)\[usec\].*")
_DURATION = re.compile(r"\s{0,4}#bytes\s+#iterations\s+t_avg\[usec\]\s+tps average.*")
_ROW = re.compile(r"\s{0,4}(\d{1,12})\s+(\d{1,12})((?:\s+-?\d{1,12}(?:\.\d{1,9})?){2,10})\s*")
_ERROR = re.compile(
    r".{0,120}(?:Couldn't |Could not |Unable to |Failed to |Failed status |Completion with error|failed to "
    r"|Problems with warm up|No IB devices found|IB device .{0,40}not found|Connection mismatch"
    r"|Bad wc status|Couldnt |"
    r"Perftest supports |cannot be used without |exited with Error).{0,200}"
)
_GPU_BUFFER = re.compile(r"^(?:cuMemAlloc\(\) of a|allocated GPU buffer address at) ", re.MULTILINE)
"""Lines of a run with --use_cuda that failed before its table."""
_ERROR_ALONE = re.compile(
    r"^\s{0,8}(?:Failed status \d{1,3}: wr_id |Perftest (?:supports|doesn't supports?) CUDA "
    r"|Parser function exited with Error)",
    re.M,
)
"""Errors that only perftest prints. They identify texts that contain only the error."""
_UNITS = {"MB": float(MIB), "MiB": float(MIB), "Gb": 1e9 / 8, "GB": 1e9}
_AVERAGE, _TYPICAL = 1, 2
"""Columns after size and iterations: peak and average bandwidth, or minimum, maximum and typical latency."""


def recognise(text: str) -> bool:
    if "#iterations" in text:
        return any(_BANDWIDTH.fullmatch(line) or _LATENCY.fullmatch(line) for _, line in untagged_lines(text))
    if _GPU_BUFFER.search(text) is not None or _ERROR_ALONE.search(text) is not None:
        return True
    return any(_TITLE.fullmatch(untagged(line)) for line in text.split("\n") if " Test" in line)


def parse_results(text: str) -> tuple[ToolResult, ...]:
    """Return average bandwidth or typical latency (average with -D) by size, and the tool's errors."""
    reader = _Reader()
    for line_number, line in untagged_lines(text):
        reader.read(line, line_number)
    return (*reader.rows.values(), *reader.errors)


class _Reader:
    """Collects the results of the lines, which are given one after the other."""

    def __init__(self) -> None:
        self.test, self.device, self.factor, self.column = "", "", 0.0, _AVERAGE
        self.metric: Literal["bandwidth", "latency"] = "bandwidth"
        self.rows: dict[tuple[str, str, int], ToolResult] = {}
        self.errors: list[ToolResult] = []

    def read(self, line: str, line_number: int) -> None:
        if (match := _TITLE.fullmatch(line)) is not None:
            self.test = _name(line, match)
        elif (match := _BANDWIDTH.fullmatch(line)) is not None:
            self.factor, self.metric, self.column = _UNITS[match[2]], "bandwidth", _AVERAGE
        elif _LATENCY.fullmatch(line):
            # A run with a duration (-D) prints the average first, and no typical value.
            column = 0 if _DURATION.fullmatch(line) else _TYPICAL
            self.factor, self.metric, self.column = 1e-6, "latency", column
        elif self.factor and (match := _ROW.fullmatch(line)) is not None:
            self._add_row(int(match[1]), match[3].split(), line_number)
        elif (match := _DEVICE.search(line)) is not None:
            self.device = match[1]
        elif _ERROR.fullmatch(line):
            test, subject = self.test or "run", self.device or "host"
            self.errors.append(status_result(TOOL, line, line_number, test=test, subject=subject))

    def _add_row(self, size: int, cells: list[str], line: int) -> None:
        value = number(cells[self.column]) if self.column < len(cells) else None
        if value is not None:
            test, subject = self.test or self.metric, self.device or "host"
            self.rows[test, subject, size] = ToolResult(
                tool=TOOL,
                test=test,
                subject=subject,
                metric=self.metric,
                value=value * self.factor,
                unit="s" if self.metric == "latency" else "B/s",
                size_bytes=size,
                evidence=(line_ref(line),),
            )


def _name(line: str, match: re.Match[str]) -> str:
    """Return the command that prints a title: `ib_write_bw`; both directions at once add ` bidirectional`."""
    kind = "lat" if match[2] == "Latency" else "bw"
    operation = match[1].lower().partition("_")[0].removesuffix("withimmediate")
    prefix = "raw_ethernet" if operation == "raw" else f"ib_{operation}"
    return f"{prefix}_{kind}" + (" bidirectional" if _BIDIRECTIONAL.search(line) else "")
