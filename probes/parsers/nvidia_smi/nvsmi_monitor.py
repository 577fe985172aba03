"""Parse `nvidia-smi dmon` and `pmon`: samples of load, clocks and temperatures, or of processes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import Gpu, GpuLimits, GpuProcess

_HEAD = re.compile(
    r"^[ \t]*#[ \t]*(?:(?:date|time)[ \t]+){0,2}gpu[ \t]+"
    r"(?:[a-z]+[ \t]+)*(?:pwr|gtemp|sm|pid|mclk|fb)\b[^\n]*$",
    re.MULTILINE | re.IGNORECASE,
)
_MAX_COLUMNS = 40


def recognise(text: str) -> bool:
    return bool(_HEAD.search(text))


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs with their last sample.

    A process gets its lowest SM load and its highest memory load over all samples, so that a short peak does
    not make an idle process look busy.
    """
    columns: list[str] = []
    samples: dict[int, dict[str, str]] = {}
    lines: dict[int, int] = {}
    processes: dict[int, dict[int, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("#"):
            heads = bare.lstrip("# ").lower().split()
            columns = heads if "gpu" in heads[:3] else columns
            continue
        cells = bare.split(None, len(columns) - 1) if columns and len(columns) <= _MAX_COLUMNS else []
        row = dict(zip(columns, cells, strict=False))
        if len(cells) < len(columns) - ("command" in columns) or not _is_index(row.get("gpu", "")):
            continue
        index = int(row["gpu"])
        lines.setdefault(index, number)
        samples[index] = row
        if "pid" in row and row["pid"].isdecimal() and len(row["pid"]) < 10:
            processes[index][int(row["pid"])].append(row)
    return tuple(_gpu(index, row, processes[index], lines[index]) for index, row in sorted(samples.items()))


def _is_index(cell: str) -> bool:
    return cell.isascii() and cell.isdecimal() and len(cell) <= 3


def _gpu(index: int, row: dict[str, str], processes: dict[int, list[dict[str, str]]], line: int) -> Gpu:
    is_list = "pid" in row
    power = _number(row, "pwr")
    return Gpu(
        index=index,
        ecc_uncorrected_volatile=_number(row, "dbecc"),
        temperature_c=_number(row, "gtemp"),
        power_w=power if isinstance(power, Unknown) else float(power),
        sm_clock_mhz=_number(row, "pclk"),
        utilization_percent=NOT_RECORDED if is_list else _number(row, "sm"),
        limits=GpuLimits(memory_temperature_c=_number(row, "mtemp"), memory_clock_mhz=_number(row, "mclk")),
        processes=tuple(_process(pid, rows) for pid, rows in processes.items()) if is_list else NOT_RECORDED,
        evidence=(line_ref(line),),
    )


def _process(pid: int, rows: list[dict[str, str]]) -> GpuProcess:
    name = rows[0].get("command") or rows[0].get("name")
    return GpuProcess(
        pid=pid,
        name=name.strip()[:200] if name else NOT_RECORDED,
        sm_percent=_chosen_sample(rows, "sm", min),
        memory_percent=_chosen_sample(rows, "mem", max),
    )


def _chosen_sample(
    rows: list[dict[str, str]], column: str, choose: Callable[[list[int]], int]
) -> int | Unknown:
    values = [_number(row, column) for row in rows]
    known = [value for value in values if not isinstance(value, Unknown)]
    return choose(known) if known and len(known) == len(values) else values[0]


def _number(row: dict[str, str], column: str) -> int | Unknown:
    text = row.get(column)
    if text is None:
        return NOT_RECORDED
    if text == "-":
        return Unknown(Reason.NOT_SUPPORTED, f"{column}: -")
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    return Unknown(Reason.ERROR if "err" in text.lower() else Reason.UNPARSABLE, f"{column}: {text[:40]!r}")
