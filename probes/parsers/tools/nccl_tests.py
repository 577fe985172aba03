"""Parse nccl-tests (`all_reduce_perf` ...) and rccl-tests: every version of the table, whole or in part.

The columns are size in bytes, elements and type; with some collectives reduction and root; then time,
algorithm bandwidth, bus bandwidth and wrong values (`error` or `#wrong`), first out of place, then in place.
Units: GB/s are 1e9 bytes per second. Source: NVIDIA/nccl-tests, src/common.cu and doc/PERFORMANCE.md (read
2026-11).
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.base.units import GB
from probes.facts import Gpu, ToolResult
from probes.parsers.tools.nccl_tests_words import Names, collective
from probes.parsers.tools.tool_text import number, status_result, untagged
from probes.parsers.topology.pci_addresses import normal_address

TOOL = "nccl-tests"
_TOO_SLOW = "below the minimum that was asked for"
IN_PLACE = " in place"
"""Suffix of the name of a test whose results overwrite their inputs."""

_TYPES = (
    "float8|fp8|fp8_e4m3|fp8_e5m2|f8e4m3|f8e5m2|int8|uint8|int32|uint32|int64|uint64|half|float|double"
    "|bfloat16|char"
)
_RATES = r"((?:\d{1,12}(?:\.\d{1,6})?\s+){3}(?:\S{1,12}))"
_ROW = re.compile(
    rf"\s{{0,24}}(\d{{1,18}})\s+(\d{{1,18}})\s+({_TYPES})\s+(?:([a-z]{{3,9}})\s+)?(?:(-?\d{{1,6}})\s+)?"
    rf"{_RATES}\s+{_RATES}(?:\s+\d{{1,9}})?\s*"
)
_HEADER = re.compile(r"#?\s+(?:size\s+count|bytes\s+N)\s+type\s.{0,80}busbw.{0,80}")
_PARAMETERS = re.compile(r"#?\s{0,4}nThreads? \d{1,4} nGpus \d{1,4} minBytes \d{1,18}\b.*")
_RANK = re.compile(
    r"#?\s+Rank\s+(\d{1,6})(?: Group\s+\d{1,6})?(?:\s+Pid\s+\d{1,9})? on\s+(\S{1,100})\s+device\s+(\d{1,3}) "
    r"\[([0-9a-fA-Fx:.]{1,16})\] (.{1,100}?)\s*"
)
_BOUNDS = re.compile(r"#?\s{0,4}Out of bounds values\s*:\s*(\d{1,12}) (OK|FAILED)\b.*")
_AVERAGE = re.compile(r"#?\s{0,4}Avg bus bandwidth\s*:\s*(\S{1,24})(?:\s+(OK|FAILED))?\s*")
_FAILURE = re.compile(
    r".{0,200}(?:Test (?:(?:NCCL |CUDA )?failure|timeout)\b.{0,200}|Failed: (?:NCCL|CUDA) error .{0,200})"
)
_COLLECTIVES = (
    "all_reduce|all_gather|reduce_scatter|alltoall|alltoallv|broadcast|reduce|sendrecv|scatter|gather"
    "|hypercube"
)
_START = re.compile(rf"(?<![a-z_])({_COLLECTIVES})_perf\b")
_MARKS = ("busbw", "nThread", "Out of bounds", " float ", " half ", "bfloat16", "int8", "double")
"""Words of lines that are worth a closer look."""
_MOST_ROWS = 65536


class _Row(NamedTuple):
    """Row of one size."""

    size: int
    redop: str
    root: str
    out: list[str]
    into: list[str]
    line: int


def recognise(text: str) -> bool:
    if "# Collective test starting:" in text or "# Out of bounds values :" in text:
        return True
    lines = (untagged(line).rstrip() for line in text.split("\n") if any(mark in line for mark in _MARKS))
    return any(pattern.fullmatch(line) for line in lines for pattern in (_HEADER, _ROW, _PARAMETERS, _BOUNDS))


def parse_results(text: str) -> tuple[ToolResult, ...]:
    """Return bus bandwidths by size, averages and verdicts of the tool, also of several runs in one text."""
    results: list[ToolResult] = []
    run = _Run()
    for line_number, raw in enumerate(text.split("\n"), 1):
        line = untagged(raw).rstrip()
        if run.rows and _begins(line):
            results += run.results()
            run = _Run()
        run.read(line, line_number)
    return (*results, *run.results())


def _begins(line: str) -> bool:
    """Return whether a line belongs before a table, so that it ends the rows above it."""
    return (
        ("Rank" in line and _RANK.fullmatch(line) is not None)
        or _HEADER.fullmatch(line) is not None
        or started(line) != ""
    )


def started(line: str) -> str:
    """Return the collective that a line reports as started; empty if there is none."""
    match = _START.search(line) if "_perf" in line and "concluded" not in line else None
    return match[1] if match else ""


class _Run:
    """One table and the lines around it."""

    def __init__(self) -> None:
        self.name = ""
        self.rows: list[_Row] = []
        self.hosts: dict[str, None] = {}
        self.ranks = 0
        self.verdicts: list[ToolResult] = []
        self.is_count = False
        """Whether the header calls the last column a number of wrong values."""

    def read(self, line: str, line_number: int) -> None:
        """Add the content of one line."""
        if (match := _ROW.fullmatch(line)) is not None:
            row = _Row(
                int(match[1]), match[4] or "", match[5] or "", match[6].split(), match[7].split(), line_number
            )
            if len(self.rows) < _MOST_ROWS:
                self.rows.append(row)
        elif "Rank" in line and (match := _RANK.fullmatch(line)) is not None:
            self.hosts.setdefault(match[2], None)
            self.ranks += 1
        elif "busbw" in line and _HEADER.fullmatch(line):
            self.is_count = "#wrong" in line
        elif (match := _BOUNDS.fullmatch(line)) is not None:
            self.verdicts.append(_bounds(match, line_number))
        elif (match := _AVERAGE.fullmatch(line)) is not None:
            self.average(match, line_number)
        elif "ail" in line and _FAILURE.fullmatch(line):
            failure = Unknown(Reason.ERROR, "the test failed")
            self.verdicts.append(status_result(TOOL, line, line_number, value=failure))
        elif name := started(line):
            self.name = name

    def average(self, match: re.Match[str], line: int) -> None:
        value = number(match[1])
        failed = match[2] == "FAILED"
        self.verdicts.append(
            ToolResult(
                tool=TOOL,
                test="average",
                subject="host",
                metric="bus_bandwidth",
                value=Unknown(Reason.UNPARSABLE, f"average {match[1]!r}") if value is None else value * GB,
                message=f"Avg bus bandwidth {match[1]} FAILED: {_TOO_SLOW}" if failed else "",
                evidence=(line_ref(line),),
            )
        )

    def results(self) -> list[ToolResult]:
        names = self._names()
        results: list[ToolResult] = []
        for row in self.rows:
            for suffix, columns in (("", row.out), (IN_PLACE, row.into)):
                busbw = number(columns[2])
                if busbw is None or row.size == 0:
                    continue
                results.append(
                    ToolResult(
                        tool=TOOL,
                        test=names.test + suffix,
                        subject="host",
                        metric="bus_bandwidth",
                        value=busbw * GB,
                        size_bytes=row.size,
                        wrong_values=_wrong(columns[3], self.is_count),
                        ranks=names.ranks,
                        nodes=len(self.hosts) or None,
                        evidence=(line_ref(row.line),),
                    )
                )
        return results + self.verdicts

    def _names(self) -> Names:
        """Return the collective's name from its own line, else from the columns of the largest size."""
        largest = max(self.rows, key=lambda row: row.size, default=None)
        if largest is None:
            return Names(self.name or "collective", self.ranks or None)
        rates = (number(largest.out[1]) or 0.0, number(largest.out[2]) or 0.0)
        return collective(self.name, (largest.redop, largest.root), rates, self.ranks or None)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the first host in the list of ranks.

    Versions before 2.14 print only the bus of a GPU's address.
    """
    gpus: dict[int, Gpu] = {}
    host: str | None = None
    for line_number, raw in enumerate(text.split("\n"), 1):
        match = _RANK.fullmatch(untagged(raw).rstrip()) if "Rank" in raw else None
        if match is None or (host is not None and match[2] != host):
            continue
        host = match[2]
        address = normal_address(f"{match[4]}.0") if ":" in match[4] else NOT_RECORDED
        gpu = Gpu(index=int(match[3]), name=match[5], pci_bus_id=address, evidence=(line_ref(line_number),))
        gpus.setdefault(gpu.index, gpu)
    return tuple(gpus[index] for index in sorted(gpus))


def _bounds(match: re.Match[str], line: int) -> ToolResult:
    """Return the verdict of `Out of bounds values : N FAILED`: N results differ from the correct ones."""
    wrong = int(match[1])
    failed = match[2] == "FAILED"
    value: Unknown = (
        Unknown(Reason.ERROR, "wrong results")
        if failed
        else Unknown(Reason.NOT_SUPPORTED, "a verdict, no number")
    )
    message = f"Out of bounds values: {wrong} FAILED" if failed else ""
    result = status_result(TOOL, message, line, value=value)
    return msgspec.structs.replace(result, wrong_values=max(wrong, 1) if failed else wrong)


def _wrong(cell: str, is_count: bool) -> int | None:
    """Return the number of wrong values; None if the cell does not contain it.

    `#wrong` is a count. `error` of old versions (`2e-07`) is the largest deviation, of which only 0 is
    certainly right. The tool judges other deviations below the table.
    """
    value = number(cell)
    if value is None or (value and "e" in cell.lower() and not is_count):
        return None
    return int(value) if value == int(value) and value < 1e15 else None


def row_of(line: str) -> tuple[int, tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] | None:
    """Return size, reduction and root, and the four columns out of place and in place.

    The columns are time, algorithm bandwidth, bus bandwidth and wrong values.
    """
    match = _ROW.fullmatch(untagged(line).rstrip())
    if match is None:
        return None
    return int(match[1]), (match[4] or "", match[5] or ""), (tuple(match[6].split()), tuple(match[7].split()))


def rank_of(line: str) -> tuple[str, int, str, str] | None:
    """Return host, GPU, PCI address and name of a line in the list of ranks."""
    match = _RANK.fullmatch(untagged(line).rstrip()) if "Rank" in line else None
    return None if match is None else (match[2], int(match[3]), match[4], match[5])


def starts_table(line: str) -> bool:
    """Return whether a line is the header of a table."""
    return "busbw" in line and _HEADER.fullmatch(untagged(line).rstrip()) is not None


def bounds_of(line: str) -> tuple[int, bool] | None:
    """Return how many results are out of bounds, and whether the tool calls that a failure."""
    match = _BOUNDS.fullmatch(untagged(line).rstrip())
    return None if match is None else (int(match[1]), match[2] == "FAILED")


def average_of(line: str) -> tuple[float | None, bool] | None:
    """Return the average bus bandwidth in GB/s, and whether it is below the requested minimum."""
    match = _AVERAGE.fullmatch(untagged(line).rstrip())
    return None if match is None else (number(match[1]), match[2] == "FAILED")


def failure_of(line: str) -> str | None:
    """Return the message of a test that stopped; None for other lines."""
    return (
        line.strip()[:300]
        if ("ail" in line or "Test timeout" in line) and _FAILURE.fullmatch(untagged(line).rstrip())
        else None
    )
