"""Parse nccl-tests (`all_reduce_perf` ...) and rccl-tests: every version of the table, whole or in part.

The columns are size in bytes, elements and type; with some collectives reduction and root; then time,
algorithm bandwidth, bus bandwidth and wrong values (`error` or `#wrong`), first out of place, then in place.
Units: GB/s are 1e9 bytes per second.

Without the command line, a table identifies its collective by its rates: bus bandwidth is algorithm bandwidth
times a factor that depends on the collective and on the number of ranks n. It is 2(n-1)/n for all-reduce,
(n-1)/n for all-gather, reduce-scatter and all-to-all, and 1 for broadcast and reduce. Source:
NVIDIA/nccl-tests, src/common.cu and doc/PERFORMANCE.md (read 2026-11).
"""

import re
from typing import NamedTuple

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Unknown, line_ref
from probes.base.units import GB
from probes.facts import Gpu, ToolResult
from probes.parsers.tools.tool_text import number, status_result, untagged, untagged_lines
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
TEST = re.compile(rf"(?:{_COLLECTIVES})_perf")
"""Name of a test's executable."""
_START = re.compile(rf"(?<![a-z_])({_COLLECTIVES})_perf\b")
_MARKS = ("busbw", "nThread", "Out of bounds", " float ", " half ", "bfloat16", "int8", "double")
"""Words of which each relevant line contains at least one."""
_MOST_ROWS = 65536
_PRECISION = 0.004
"""Largest deviation of the quotient of two rounded rates of at least `_LEAST_RATE` GB/s."""
_LEAST_RATE = 2.0
_MOST_GUESSED = 128
"""Largest number of ranks that can be derived from the rounded rates."""


class Row(NamedTuple):
    """Row of one size."""

    size: int
    columns: tuple[str, str]
    """Reduction and root."""
    rates: tuple[tuple[str, ...], tuple[str, ...]]
    """Time, algorithm bandwidth, bus bandwidth and wrong values, out of place and in place."""


class Names(NamedTuple):
    """Collective and number of ranks of a table."""

    test: str
    ranks: int | None


def recognise(text: str) -> bool:
    if "# Collective test starting:" in text or "# Out of bounds values :" in text:
        return True
    lines = (untagged(line).rstrip() for line in text.split("\n") if any(mark in line for mark in _MARKS))
    return any(pattern.fullmatch(line) for line in lines for pattern in (_HEADER, _ROW, _PARAMETERS, _BOUNDS))


def parse_results(text: str) -> tuple[ToolResult, ...]:
    """Return bus bandwidths by size, averages and verdicts of the tool, even if the text contains several
    runs.
    """
    results: list[ToolResult] = []
    run = _Run()
    for line_number, raw in untagged_lines(text):
        line = raw.rstrip()
        if run.rows and _precedes_table(line):
            results += run.results()
            run = _Run()
        run.read(line, line_number)
    return (*results, *run.results())


def _precedes_table(line: str) -> bool:
    """Return whether a line belongs before a table, so that it ends the rows of the table above."""
    return (
        ("Rank" in line and _RANK.fullmatch(line) is not None)
        or _HEADER.fullmatch(line) is not None
        or started(line) != ""
    )


def started(line: str) -> str:
    """Return the collective that a line reports as started; empty for other lines."""
    match = _START.search(line) if "_perf" in line and "concluded" not in line else None
    return match[1] if match else ""


class _Run:
    """One table and the lines around it."""

    def __init__(self) -> None:
        self.name = ""
        self.rows: list[tuple[Row, int]] = []
        self.hosts: dict[str, None] = {}
        self.ranks = 0
        self.verdicts: list[ToolResult] = []
        self.is_count = False
        """True if the last column is a number of wrong values (`#wrong`)."""

    def read(self, line: str, line_number: int) -> None:
        """Add the content of one line."""
        if (match := _ROW.fullmatch(line)) is not None:
            if len(self.rows) < _MOST_ROWS:
                self.rows.append((_row(match), line_number))
        elif "Rank" in line and (match := _RANK.fullmatch(line)) is not None:
            self.hosts.setdefault(match[2], None)
            self.ranks += 1
        elif "busbw" in line and _HEADER.fullmatch(line):
            self.is_count = "#wrong" in line
        elif (match := _BOUNDS.fullmatch(line)) is not None:
            self.verdicts.append(_bounds(match, line_number))
        elif (match := _AVERAGE.fullmatch(line)) is not None:
            self.verdicts.append(_average(match, line_number))
        elif "ail" in line and _FAILURE.fullmatch(line):
            failure = Unknown(Reason.ERROR, "the test failed")
            self.verdicts.append(status_result(TOOL, line, line_number, value=failure))
        elif name := started(line):
            self.name = name

    def results(self) -> list[ToolResult]:
        names = self._names()
        results = [
            ToolResult(
                tool=TOOL,
                test=names.test + suffix,
                subject="host",
                metric="bus_bandwidth",
                value=busbw * GB,
                size_bytes=row.size,
                wrong_values=_wrong(rates[3], self.is_count),
                ranks=names.ranks,
                nodes=len(self.hosts) or None,
                evidence=(line_ref(line),),
            )
            for row, line in self.rows
            for suffix, rates in zip(("", IN_PLACE), row.rates, strict=True)
            if row.size and (busbw := number(rates[2])) is not None
        ]
        return results + self.verdicts

    def _names(self) -> Names:
        """Return the collective and the number of ranks.

        What no line of the log reports is derived from the row of the largest size.
        """
        if not self.rows:
            return Names(self.name or "collective", self.ranks or None)
        largest = max((row for row, _ in self.rows), key=lambda row: row.size)
        rates = (number(largest.rates[0][1]) or 0.0, number(largest.rates[0][2]) or 0.0)
        return collective(self.name, largest.columns, rates, self.ranks or None)


def collective(name: str, columns: tuple[str, str], rates: tuple[float, float], ranks: int | None) -> Names:
    """Return the collective's name and the number of ranks.

    Values that are not given are derived from one row. `columns` are the reduction and the root, `rates` the
    algorithm and the bus bandwidth in GB/s.
    """
    algorithm, bus = rates
    factor = bus / algorithm if algorithm >= _LEAST_RATE else None
    guess = name or _by_columns(*columns, factor)
    if ranks is not None or factor is None:
        return Names(guess, ranks)
    if guess == "all_reduce":
        return Names(guess, _ranks(factor / 2))
    has_share = guess in ("all_gather", "reduce_scatter", "alltoall", "all_gather or alltoall")
    return Names(guess, _ranks(factor) if has_share else None)


def _by_columns(redop: str, root: str, factor: float | None) -> str:
    has_reduction = redop not in ("", "none")
    has_root = root not in ("", "-1")
    if has_reduction and has_root:
        return "reduce"
    if factor is None:
        return "collective"
    if factor < 1 - _PRECISION:
        return "reduce_scatter" if has_reduction else "all_gather or alltoall"
    if has_reduction:
        # The factor of an all-reduce between two ranks is 1, as for sendrecv.
        return "all_reduce" if factor > 1 + _PRECISION else "all_reduce or sendrecv"
    return "broadcast" if has_root else "sendrecv"


def _ranks(share: float) -> int | None:
    """Return n for the share (n-1)/n; None if n is uncertain because of rounding."""
    count = round(1 / (1 - share)) if 0 < share < 1 else 0
    is_certain = 2 <= count <= _MOST_GUESSED and abs((count - 1) / count - share) < _PRECISION / count
    return count if is_certain else None


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the first host in the list of ranks.

    Versions before 2.14 print only the bus number of a GPU's PCI address.
    """
    ranks = [
        (number_of_line, rank)
        for number_of_line, line in enumerate(text.split("\n"), 1)
        if (rank := rank_of(line))
    ]
    gpus: dict[int, Gpu] = {}
    for line_number, (host, index, bus, name) in ranks:
        if host == ranks[0][1][0]:
            address = normal_address(f"{bus}.0") if ":" in bus else NOT_RECORDED
            gpu = Gpu(index=index, name=name, pci_bus_id=address, evidence=(line_ref(line_number),))
            gpus.setdefault(index, gpu)
    return tuple(gpus[index] for index in sorted(gpus))


def _bounds(match: re.Match[str], line: int) -> ToolResult:
    """Return the verdict of `Out of bounds values : N FAILED`: N results differ from the correct values."""
    wrong = int(match[1])
    if match[2] == "FAILED":
        message, value = f"Out of bounds values: {wrong} FAILED", Unknown(Reason.ERROR, "wrong results")
        wrong = max(wrong, 1)
    else:
        message, value = "", Unknown(Reason.NOT_SUPPORTED, "the tool reports a verdict instead of a number")
    return msgspec.structs.replace(status_result(TOOL, message, line, value=value), wrong_values=wrong)


def _average(match: re.Match[str], line: int) -> ToolResult:
    value = number(match[1])
    failed = match[2] == "FAILED"
    return ToolResult(
        tool=TOOL,
        test="average",
        subject="host",
        metric="bus_bandwidth",
        value=Unknown(Reason.UNPARSABLE, f"average {match[1]!r}") if value is None else value * GB,
        message=f"Avg bus bandwidth {match[1]} FAILED: {_TOO_SLOW}" if failed else "",
        evidence=(line_ref(line),),
    )


def _wrong(cell: str, is_count: bool) -> int | None:
    """Return the number of wrong values; None if the cell does not contain it.

    `#wrong` is a count. `error` of old versions (`2e-07`) is the largest deviation: 0 means right values, and
    the tool judges other deviations below the table.
    """
    value = number(cell)
    if value is None or (value and "e" in cell.lower() and not is_count):
        return None
    return int(value) if value == int(value) and value < 1e15 else None


def row_of(line: str) -> Row | None:
    """Return the row that a line contains; None for other lines."""
    match = _ROW.fullmatch(untagged(line).rstrip())
    return None if match is None else _row(match)


def _row(match: re.Match[str]) -> Row:
    rates = (tuple(match[6].split()), tuple(match[7].split()))
    return Row(int(match[1]), (match[4] or "", match[5] or ""), rates)


def rank_of(line: str) -> tuple[str, int, str, str] | None:
    """Return host, GPU, PCI address and name of a line in the list of ranks; None for other lines."""
    match = _RANK.fullmatch(untagged(line).rstrip()) if "Rank" in line else None
    return None if match is None else (match[2], int(match[3]), match[4], match[5])


def starts_table(line: str) -> bool:
    """Return whether a line is the header of a table."""
    return "busbw" in line and _HEADER.fullmatch(untagged(line).rstrip()) is not None


def bounds_of(line: str) -> tuple[int, bool] | None:
    """Return how many results are out of bounds, and whether the test failed; None for other lines."""
    match = _BOUNDS.fullmatch(untagged(line).rstrip())
    return None if match is None else (int(match[1]), match[2] == "FAILED")


def average_of(line: str) -> tuple[float | None, bool] | None:
    """Return the average bus bandwidth in GB/s, and whether it misses the minimum; None for other lines."""
    match = _AVERAGE.fullmatch(untagged(line).rstrip())
    return None if match is None else (number(match[1]), match[2] == "FAILED")


def failure_of(line: str) -> str | None:
    """Return the message of a test that stopped; None for other lines."""
    return (
        line.strip()[:300]
        if ("ail" in line or "Test timeout" in line) and _FAILURE.fullmatch(untagged(line).rstrip())
        else None
    )
