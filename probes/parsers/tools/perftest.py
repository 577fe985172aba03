"""Parse perftest: `ib_write_bw`, `ib_read_bw`, `ib_send_bw`, their `_lat` twins, `raw_ethernet_*` and `rdma`.

Server and client print the same table, and two terminals may be mixed in one text, so the last line of a size
counts. Units: MB/sec are 2^20 bytes per second, Gb/sec 1e9 bits; MsgRate is left out. Lines about CPU
frequency do not matter. Source: linux-rdma/perftest, src/perftest_resources.c and perftest_parameters.h (read
2026-11).
"""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.base.units import MIB
from probes.facts import ToolResult
from probes.parsers.tools.tool_text import number, status_result, untagged

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
"""A run with --use_cuda that failed before its table."""
_ERROR_ALONE = re.compile(
    r"^\s{0,8}(?:Failed status \d{1,3}: wr_id |Perftest (?:supports|doesn't supports?) CUDA "
    r"|Parser function exited with Error)",
    re.M,
)
"""Errors that only perftest prints, for texts without more than the error."""
_UNITS = {"MB": float(MIB), "MiB": float(MIB), "Gb": 1e9 / 8, "GB": 1e9}
_TYPICAL = 2
"""Position of t_typical behind size and iterations."""


def recognise(text: str) -> bool:
    if "#iterations" in text:
        return any(
            _BANDWIDTH.fullmatch(line) or _LATENCY.fullmatch(line) for line in map(untagged, text.split("\n"))
        )
    if _GPU_BUFFER.search(text) is not None or _ERROR_ALONE.search(text) is not None:
        return True
    return " Test" in text and any(
        _TITLE.fullmatch(untagged(line)) for line in text.split("\n") if " Test" in line
    )


def parse_results(text: str) -> tuple[ToolResult, ...]:
    """Return average bandwidth or typical latency by size, and the errors of the tool."""
    reader = _Reader()
    for line_number, raw in enumerate(text.split("\n"), 1):
        reader.read(untagged(raw), line_number)
    return (*reader.rows.values(), *reader.errors)


class _Reader:
    """Collects the results of the lines, which are given one after the other."""

    def __init__(self) -> None:
        self.test, self.device, self.factor, self.is_latency, self.by_duration = "", "", 0.0, False, False
        self.rows: dict[tuple[str, str, int], ToolResult] = {}
        self.errors: list[ToolResult] = []

    def read(self, line: str, line_number: int) -> None:
        if (match := _TITLE.fullmatch(line)) is not None:
            self.test = _name(line, match)
        elif (match := _BANDWIDTH.fullmatch(line)) is not None:
            self.factor, self.is_latency = _UNITS[match[2]], False
        elif _LATENCY.fullmatch(line):
            self.factor, self.is_latency, self.by_duration = 1e-6, True, _DURATION.fullmatch(line) is not None
        elif self.factor and (match := _ROW.fullmatch(line)) is not None:
            self._row(int(match[1]), match[3].split(), line_number)
        elif (match := _DEVICE.search(line)) is not None:
            self.device = match[1]
        elif _ERROR.fullmatch(line):
            test, subject = self.test or "run", self.device or "host"
            self.errors.append(status_result(TOOL, line, line_number, test=test, subject=subject))

    def _row(self, size: int, cells: list[str], line: int) -> None:
        """Add a row of a table.

        Behind size and iterations, a bandwidth has its peak and average, a latency its minimum, maximum and
        typical value.
        """
        latency_place = 0 if self.by_duration else _TYPICAL
        place = latency_place if self.is_latency else 1
        value = number(cells[place]) if place < len(cells) else None
        if value is None:
            return
        test = self.test or ("latency" if self.is_latency else "bandwidth")
        subject = self.device or "host"
        self.rows[test, subject, size] = ToolResult(
            tool=TOOL,
            test=test,
            subject=subject,
            metric="latency" if self.is_latency else "bandwidth",
            value=value * self.factor,
            unit="s" if self.is_latency else "B/s",
            size_bytes=size,
            evidence=(line_ref(line),),
        )


def _name(line: str, match: re.Match[str]) -> str:
    """Return the command that prints a title: `ib_write_bw`; both directions at once add ` bidirectional`."""
    kind = "lat" if match[2] == "Latency" else "bw"
    operation = match[1].lower().partition("_")[0].removesuffix("withimmediate")
    prefix = "raw_ethernet" if operation == "raw" else f"ib_{operation}"
    return f"{prefix}_{kind}" + (" bidirectional" if _BIDIRECTIONAL.search(line) else "")
