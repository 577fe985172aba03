"""Parse fabtests (`fi_rma_bw`, `fi_rdm_tagged_bw`, `fi_pingpong` ...): tables by message size, as on EFA.

Sizes have suffixes of 1024 (`64k`, `8m`), MB/sec are 1e6 bytes per second. `fi_*_pingpong` prints the same
columns with the time of one transfer. Source: ofiwg/libfabric, fabtests/common/shared.c, show_perf (read
2026-11).
"""

import re

from probes.base.record import line_ref
from probes.facts import ToolResult
from probes.parsers.tools.tool_text import number, status_result, untagged, untagged_lines

TOOL = "fabtests"

_HEADER = re.compile(
    r"\s{0,8}bytes\s+(?:#sent\s+#ack|iters)\s+total\s+time\s+MB/sec\s+usec/xfer\s+Mxfers/sec\s*"
)
_ROW = re.compile(
    r"\s{0,8}(\d{1,12})([kmg]?)\s+\S{1,12}\s+(?:=?\S{1,12}\s+)?\S{1,12}\s+\d{1,9}(?:\.\d{1,6})?s"
    r"\s+(\S{1,20})\s+(\S{1,20})\s+\S{1,20}\s*"
)
_COMMAND = re.compile(r"\b(fi_[a-z0-9_]{2,40})\b")
_ERROR = re.compile(
    r".{0,60}\bfi_[a-z_]{2,40}\(\)?:? ?.{0,20}(?:ret|error|failed|Error)\b.{0,200}"
    r"|.{0,80}\bfi_getinfo\b.{0,40}-\d{1,3}.{0,80}"
)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def recognise(text: str) -> bool:
    return any(_HEADER.fullmatch(untagged(line)) for line in text.split("\n") if "usec/xfer" in line)


def parse_results(text: str) -> tuple[ToolResult, ...]:
    """Return bandwidths by size, and the errors that the tool reports."""
    results: list[ToolResult] = []
    test, in_table = TOOL, False
    for line_number, line in untagged_lines(text):
        if _HEADER.fullmatch(line):
            in_table = True
        elif in_table and (match := _ROW.fullmatch(line)) is not None:
            if (value := number(match[3])) is not None:
                results.append(
                    ToolResult(
                        tool=TOOL,
                        test=test,
                        subject="host",
                        metric="bandwidth",
                        value=value * 1e6,
                        size_bytes=int(match[1]) * _FACTORS[match[2]],
                        evidence=(line_ref(line_number),),
                    )
                )
        elif _ERROR.fullmatch(line):
            results.append(status_result(TOOL, line, line_number, test=test))
        elif (command := _COMMAND.search(line)) is not None:
            test = command[1]
    return tuple(results)
