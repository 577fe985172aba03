"""Parse GPCNeT (`network_test`, `network_load_test`): latencies and bandwidths of an idle and a busy network.

Units: usec, and MiB/s per rank. Source: netbench/GPCNET, README (read 2026-11).
"""

import re

from probes.base.record import line_ref
from probes.base.units import MIB
from probes.facts import ToolResult
from probes.parsers.tools.tool_text import number, status_result, untagged

TOOL = "gpcnet"

_TITLE = re.compile(r"\s{0,8}(?:Network Tests|NetworkLoad Tests|Network Load Tests) v\d{1,3}\.\d{1,3}.{0,40}")
_TABLE = re.compile(
    r"\|\s{1,80}((?:Isolated|Congestion|Network|.{0,20}Network) .{0,60}?(?:Tests?|Factor(?:s)?|Congestors?))"
    r"\s{1,80}\|",
    re.IGNORECASE,
)
_ROW = re.compile(
    r"\|\s{0,80}(\S.{0,60}?)\s{0,80}((?:\|\s{0,40}[\d.]{1,20}\s{0,40}){2,8})"
    r"\|\s{0,40}(usec|MiB/s/rank|MiB/s)\s{0,40}\|"
)
_HEAD = re.compile(r"\|\s{0,80}Name\s{0,80}((?:\|\s{0,40}[\w%().]{1,20}\s{0,40}){2,9})\|")
_RANKS = re.compile(r"\s{0,8}Test with (\d{1,8}) MPI ranks \((\d{1,7}) nodes\).{0,40}")
_REFUSAL = "this application must be run on at least 2 nodes"
_ERROR = re.compile(r"\s{0,8}ERROR: .{1,250}")


def recognise(text: str) -> bool:
    return _REFUSAL in text or any(
        _TITLE.fullmatch(untagged(line)) for line in text.split("\n") if "Tests v" in line
    )


def parse_results(text: str) -> tuple[ToolResult, ...]:
    """Return the averages of all tables, and the errors that the tool reports."""
    results: list[ToolResult] = []
    ranks = nodes = None
    table, average = "", 0
    for line_number, raw in enumerate(text.split("\n"), 1):
        line = untagged(raw).strip()
        if (match := _RANKS.fullmatch(line)) is not None:
            ranks, nodes = int(match[1]), int(match[2])
        elif (match := _ROW.fullmatch(line)) is not None:
            cells = [cell.strip() for cell in match[2].split("|")[1:]]
            value, is_latency = number(cells[average]) if average < len(cells) else None, match[3] == "usec"
            if value is not None:
                results.append(
                    ToolResult(
                        tool=TOOL,
                        test=f"{table}: {match[1]}" if table else match[1],
                        subject="host",
                        metric="latency" if is_latency else "bandwidth",
                        value=value * (1e-6 if is_latency else MIB),
                        unit="s" if is_latency else "B/s",
                        ranks=ranks,
                        nodes=nodes,
                        evidence=(line_ref(line_number),),
                    )
                )
        elif (match := _HEAD.fullmatch(line)) is not None:
            names = [cell.strip() for cell in match[1].split("|")[1:]]
            average = names.index("Avg") if "Avg" in names else 0
        elif (match := _TABLE.fullmatch(line)) is not None:
            table = match[1]
        elif _ERROR.fullmatch(line):
            results.append(status_result(TOOL, line, line_number))
    return tuple(results)
