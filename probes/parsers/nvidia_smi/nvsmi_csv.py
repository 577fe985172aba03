"""Parse `nvidia-smi --query-gpu=... --format=csv`, and tables with the same columns under similar names.

Without the header (`noheader`), only cells that identify themselves are read: index, PCI address, UUID, name
and driver version.
"""

import csv
import io
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from probes.base.record import Unknown, first_unknown, line_ref, map_known, only_known
from probes.base.units import plural
from probes.facts import Count, Gpu, GpuProcess, Unread
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.nvidia_smi.nvidia_words import event_reasons, is_failure, memory_bytes, printed, whole
from probes.parsers.nvidia_smi.nvsmi_fields import FIELDS, gpu_of, read_field
from probes.parsers.nvidia_smi.nvsmi_sections import (
    BANKS,
    HEALTH_FLAGS,
    REASON_NAMES,
    active_reasons,
    bank_counts,
    fabric_health,
    violation_counts,
)

_UNIT = re.compile(r"\s*\[([A-Za-z%]{1,8})\]$")
_BARE = re.compile(r"-?\d{1,15}(?:\.\d{1,6})?")
_ADDRESS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_UUID = re.compile(r"GPU-[0-9a-fA-F-]{8,40}")
_NAME = re.compile(r"(?:NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID|Graphics Device)\b.*", re.IGNORECASE)
_VALUE = re.compile(
    r"-?\d{1,15}(?:\.\d{1,6}){0,2}(?: ?(?:%|W|C|[KMG]i?B|[KMG]Hz))?|\[?N/A\]?|\[[A-Z][a-zA-Z ]{2,30}\]"
    r"|P\d{1,2}|0x[0-9a-fA-F]{1,16}|(?:En|Dis)abled|(?:Not )?Active|Yes|No|Default"
)
"""A cell that contains a value and no name."""
_LONGEST_NAME = 60
_DRIVER = re.compile(r"[3-9]\d{2}\.\d{2,3}(?:\.\d{2})?")
_INDEX = re.compile(r"\d{1,3}")
_UNITS = {
    "temperature": "C",
    "power": "W",
    "enforced": "W",
    "clocks": "MHz",
    "fan": "%",
    "utilization": "%",
    "memory": "MiB",
}
"""Unit by the first part of the column's name.

nvidia-smi never prints the unit of temperatures, and omits the other units with `nounits`.
"""
_PROCESS_COLUMNS = frozenset(("pid", "process_name", "used_gpu_memory", "used_memory"))
_OWN_COLUMNS = (
    frozenset(column for row in FIELDS for column in row.columns)
    | frozenset(("index", "count", "timestamp"))
    | frozenset(f"clocks_event_reasons.{name}" for name in REASON_NAMES)
)
_MARKS = frozenset(
    ("name", "gpu_name", "uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id", "memory.total")
)
"""A header has one of these columns and at least one more known column."""
_LONGEST_LINE = 65_536
_FIRST_LINES = 200


class _Header(NamedTuple):
    columns: list[str]
    units: list[str]


def recognise(text: str) -> bool:
    lines = _lines(text)[:_FIRST_LINES]
    return any(_header(cells) is not None or _is_bare_row(cells) for _, cells in lines)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return one GPU per row; a row of --query-compute-apps adds its process to the GPU that it names."""
    gpus: list[Gpu] = []
    for number, cells, header in _rows(text):
        if header is not None and len(cells) == len(header.columns):
            gpus.append(_gpu(header, cells, number, len(gpus)))
        elif header is None and _is_bare_row(cells):
            gpus.append(_bare_gpu(cells, number))
    return _with_processes(gpus)


def unread(text: str) -> tuple[Unread, ...]:
    """Return rows with more or fewer cells than the header."""
    return tuple(
        Unread(
            source="",
            line=number,
            text=", ".join(cells)[:120],
            why=f"{plural(len(cells), 'cell')} where the header has {len(header.columns)}",
        )
        for number, cells, header in _rows(text)
        if header is not None and len(cells) > 1 and len(cells) != len(header.columns)
    )


def _rows(text: str) -> Iterator[tuple[int, list[str], _Header | None]]:
    """Return number, cells and header of each line; there is no header above the first header line."""
    header: _Header | None = None
    for number, cells in _lines(text):
        if (new_header := _header(cells)) is not None:
            header = new_header
        else:
            yield number, cells, header


def _lines(text: str) -> list[tuple[int, list[str]]]:
    """Return the cells of lines that contain a comma, with their numbers; quoted cells may contain commas."""
    numbered_cells: list[tuple[int, list[str]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if "," not in line or len(line) > _LONGEST_LINE:
            continue
        try:
            rows = list(csv.reader(io.StringIO(line.replace("\0", "")), skipinitialspace=True))
        except csv.Error:
            continue
        if rows:
            numbered_cells.append((number, [cell.strip() for cell in rows[0]]))
    return numbered_cells


def _header(cells: list[str]) -> _Header | None:
    """Return the columns if the cells are a header, otherwise None."""
    columns = [_column(_UNIT.sub("", cell)) for cell in cells]
    units = [unit[1] if (unit := _UNIT.search(cell)) else "" for cell in cells]
    known = [column for column in columns if column in _OWN_COLUMNS]
    is_header = len(known) >= 2 or (bool(known) and bool(_PROCESS_COLUMNS & set(columns)))
    return _Header(columns, units) if is_header and _MARKS & set(known) else None


def _column(name: str) -> str:
    """Return the current name of a column: `memory.total` for `memory_total` of other tools' tables."""
    lower = name.strip().lower().replace("clocks_throttle_reasons", "clocks_event_reasons")
    if lower in _OWN_COLUMNS or lower in _PROCESS_COLUMNS:
        return lower
    dotted = lower.replace(" ", ".").replace("_", ".")
    return dotted if dotted in _OWN_COLUMNS else lower


def _gpu(header: _Header, cells: list[str], number: int, position: int) -> Gpu:
    texts = {
        column: _with_unit(column, unit, cell)
        for column, unit, cell in zip(header.columns, header.units, cells, strict=True)
    }
    values: dict[str, object] = {row.field: read_field(row, row.columns, texts.get) for row in FIELDS}
    event = "clocks_event_reasons."
    flags = [(name, texts[event + name]) for name in sorted(REASON_NAMES) if event + name in texts]
    values |= {
        "throttle_reasons": _reasons(texts, flags),
        "limits.violations_us": _violations(texts),
        "memory_health.remap_banks": _remap_banks(texts),
        "fabric.health": fabric_health(
            {name: texts[f"fabric.health.{name}"] for name in _HEALTH if f"fabric.health.{name}" in texts}
        ),
        "failed_queries": tuple(column for column, text in texts.items() if is_failure(text)),
        "evidence": (line_ref(number),),
    }
    for period in ("volatile", "aggregate"):
        field = f"memory_health.sram_uncorrected_{period}"
        if isinstance(values[field], Unknown):
            values[field] = _sram(texts, period, values[field])
    if "pid" in texts:
        values["processes"] = _process(texts)
    index = whole(texts.get("index"), "index")
    # The position of a row is an index unless the table has a column of processes or PCI addresses.
    has_identity = not texts.keys().isdisjoint(("pid", "pci.bus_id", "gpu_bus_id"))
    place = UNNUMBERED if has_identity else position
    return gpu_of(place if isinstance(index, Unknown) or index < 0 else index, values)


_HEALTH = ("summary", "bandwidth", "incorrect_configuration", *HEALTH_FLAGS)


def _with_unit(column: str, unit: str, cell: str) -> str:
    usual = (unit or _UNITS.get(column.partition(".")[0], "")) if _BARE.fullmatch(cell) else ""
    return f"{cell} {usual}" if usual else cell


def _reasons(texts: dict[str, str], flags: list[tuple[str, str]]) -> tuple[str, ...] | Unknown:
    """Return the active clock event reasons from the single flags, or from the mask if there are none."""
    name = "clocks_event_reasons.active"
    return active_reasons(flags) if flags else map_known(printed(texts.get(name), name), event_reasons)


def _violations(texts: dict[str, str]) -> tuple[Count, ...] | Unknown:
    start = "clocks_event_reasons_counters."
    return violation_counts(
        (name.removeprefix(start), whole(text, name, "us"))
        for name, text in texts.items()
        if name.startswith(start)
    )


def _remap_banks(texts: dict[str, str]) -> tuple[Count, ...] | Unknown:
    start = "remapped_rows.histogram."
    return bank_counts(
        {name: whole(texts[start + name], start + name) for name in BANKS if start + name in texts}
    )


def _sram(texts: dict[str, str], period: str, missing: object) -> object:
    """Return the sum of parity and SECDED errors if the output has only these, otherwise `missing`."""
    start = f"ecc.errors.uncorrected.{period}.sram."
    parts = [
        whole(texts[start + kind], start + kind) for kind in ("parity", "secded") if start + kind in texts
    ]
    return missing if first_unknown(*parts) or not parts else sum(only_known(parts))


def _process(texts: dict[str, str]) -> tuple[GpuProcess, ...] | Unknown:
    memory = texts.get("used_gpu_memory") or texts.get("used_memory")
    name = printed(texts.get("process_name"), "process_name")
    size = memory_bytes(memory, "used_gpu_memory")
    return map_known(
        whole(texts["pid"], "pid"), lambda pid: (GpuProcess(pid=pid, name=name, memory_bytes=size),)
    )


def _with_processes(gpus: list[Gpu]) -> tuple[Gpu, ...]:
    """Join rows of the same GPU, each with one process, into one record per GPU."""
    joined: dict[object, Gpu] = {}
    for gpu in gpus:
        unnamed = ("row", len(joined))
        key: object = next(iter(only_known((gpu.pci_bus_id, gpu.uuid))), unnamed)
        earlier = joined.get(key)
        if earlier is None:
            joined[key] = gpu
        elif isinstance(earlier.processes, tuple) and isinstance(gpu.processes, tuple):
            joined[key] = msgspec.structs.replace(earlier, processes=earlier.processes + gpu.processes)
        else:
            joined[unnamed] = gpu
    return tuple(joined.values())


def _is_bare_row(cells: list[str]) -> bool:
    """Return whether a row without header identifies a GPU.

    Such a row has an address (PCI or UUID) and also an index or a name; or it has exactly one name, and all
    other cells are values.
    """
    named = any(_ADDRESS.fullmatch(cell) or _UUID.fullmatch(cell) for cell in cells)
    if named and any(_INDEX.fullmatch(cell) or _NAME.fullmatch(cell) for cell in cells):
        return True
    others = [cell for cell in cells if len(cell) > _LONGEST_NAME or _NAME.fullmatch(cell) is None]
    return len(others) == len(cells) - 1 and len(others) > 1 and all(map(_VALUE.fullmatch, others))


def _bare_gpu(cells: list[str], number: int) -> Gpu:
    shapes = {"pci.bus_id": _ADDRESS, "uuid": _UUID, "name": _NAME, "driver_version": _DRIVER}
    columns = {
        column: next((cell for cell in cells if shape.fullmatch(cell)), None)
        for column, shape in shapes.items()
    }
    index = int(cells[0]) if _INDEX.fullmatch(cells[0]) else UNNUMBERED
    values = {row.field: read_field(row, row.columns, columns.get) for row in FIELDS if row.columns}
    return gpu_of(index, {**values, "evidence": (line_ref(number),)})
