"""Parse tables of `dcgmi dmon`: samples of chosen fields, one line for each GPU and sample.

The first heading line names the fields by DCGM's short names, the second ends with ID. Source: NVIDIA DCGM,
dcgmlib/src/dcgm_fields.cpp (short names) and dcgmi/DeviceMonitor.cpp (table); read 2026-11.
"""

import re
from typing import Literal

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Reason, Unknown, line_ref, map_known
from probes.catalogue.xids import load_xids
from probes.facts import Diagnosis, Gpu, GpuLimits
from probes.parsers.nvidia_smi.nvidia_words import EVENT_REASONS

_HEAD = pattern(r"^[ \t]*#[ \t]?Entity((?:[ \t]+[A-Z0-9]{3,12})+)[ \t]*$", re.MULTILINE)
_ROW = pattern(r"[ \t]*GPU[ \t]+(\d{1,3})((?:[ \t]+\S{1,24}){1,60})[ \t]*")
_NUMBER = pattern(r"-?\d{1,15}(?:\.\d{1,9})?")
_NAMES = {
    "utilization": ("GPUTL",),
    "temperature": ("TMPTR", "GPUTMP", "GTEMP", "GPUT"),
    "memory_temperature": ("MMTMP", "MEMTMP"),
    "power": ("POWER", "POWR", "PWR"),
    "sm_clock": ("SMCLK",),
    "memory_clock": ("MMCLK",),
    "double_bit_errors": ("EDVDV", "ECCDBE"),
    "replays": ("PCIRP",),
    "reasons": ("DVCCTR", "CLKRS"),
    "xid": ("XIDER", "XIDERRORS"),
}
"""Short names of each field; versions of DCGM name some fields differently."""
_BLANK = 0x7FFFFFF0
"""Values of at least this mean that DCGM has no sample (DCGM_INT32_BLANK and above, dcgm_structs.h)."""
_MOST_LINES = 100_000


def recognise(text: str) -> bool:
    return "Entity" in text and _HEAD.search(text) is not None


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs with the last sample of each field."""
    return tuple(_gpu(index, line, row) for index, (line, row) in sorted(_samples(text).items()))


def parse_diagnoses(text: str) -> tuple[Diagnosis, ...]:
    """Return the last Xid of each GPU that DCGM reports, judged by the table of Xids."""
    diagnoses: list[Diagnosis] = []
    for index, (line, row) in sorted(_samples(text).items()):
        number = _value(row, "xid")
        if isinstance(number, Unknown):
            continue
        xid = load_xids().find(int(number)) if number else None
        name = f"Xid {number:.0f}" + (f", {xid.name}" if xid else "")
        is_fault = bool(number) and (xid is None or xid.severity != "none")
        result: Literal["PASS", "WARN", "FAIL"] = (
            "FAIL" if xid and xid.severity == "fail" else "WARN" if is_fault else "PASS"
        )
        diagnoses.append(
            Diagnosis(
                tool="dcgmi dmon",
                test="last Xid",
                subject=f"GPU{index}",
                result=result,
                message=name if number else "",
                evidence=(line_ref(line),),
            )
        )
    return tuple(diagnoses)


def _samples(text: str) -> dict[int, tuple[int, dict[str, str]]]:
    """Return the first line and the last sample of each GPU by DCGM's short names."""
    columns: list[str] = []
    samples: dict[int, tuple[int, dict[str, str]]] = {}
    for number, line in enumerate(text.splitlines()[:_MOST_LINES], 1):
        head, row = _HEAD.match(line[:600]), _ROW.fullmatch(line[:600])
        if head is not None:
            columns = head[1].split()
        elif row is not None and columns:
            first, earlier = samples.get(int(row[1]), (number, {}))
            cells = row[2].split()
            if len(cells) == len(columns):
                new = {name: cell for name, cell in zip(columns, cells, strict=True) if cell != "N/A"}
                samples[int(row[1])] = first, dict.fromkeys(columns, "N/A") | earlier | new
    return samples


def _gpu(index: int, line: int, row: dict[str, str]) -> Gpu:
    mask = _whole(row, "reasons")
    return Gpu(
        index=index,
        utilization_percent=_whole(row, "utilization"),
        temperature_c=_whole(row, "temperature"),
        power_w=_value(row, "power"),
        sm_clock_mhz=_whole(row, "sm_clock"),
        ecc_uncorrected_volatile=_whole(row, "double_bit_errors"),
        pcie_replays=_whole(row, "replays"),
        throttle_reasons=map_known(
            mask, lambda mask: tuple(name for bit, name in EVENT_REASONS.items() if mask & bit)
        ),
        limits=GpuLimits(
            memory_temperature_c=_whole(row, "memory_temperature"),
            memory_clock_mhz=_whole(row, "memory_clock"),
        ),
        evidence=(line_ref(line),),
    )


def _value(row: dict[str, str], field: str) -> float | Unknown:
    name = next((name for name in _NAMES[field] if name in row), None)
    if name is None:
        return NOT_RECORDED
    if _NUMBER.fullmatch(row[name]) is None or float(row[name]) >= _BLANK:
        return Unknown(Reason.NOT_SUPPORTED, f"{name}: {row[name][:40]}")
    return float(row[name])


def _whole(row: dict[str, str], field: str) -> int | Unknown:
    return map_known(_value(row, field), int)
