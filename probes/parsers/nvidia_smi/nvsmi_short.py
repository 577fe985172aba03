"""Parse the short outputs of nvidia-smi: the list of GPUs (`-L`), `dmon` and `pmon`, and errors.

`dmon` prints samples of load, clocks and temperatures, `pmon` samples of processes. nvidia-smi prints an
error if it cannot reach the driver, or loses a GPU.
"""

import re
from collections import defaultdict
from collections.abc import Callable

import msgspec

from probes.base.patterns import pattern
from probes.base.record import (
    NOT_RECORDED,
    Reason,
    Unknown,
    first_unknown,
    items_of,
    line_ref,
    map_known,
    only_known,
    quoted,
)
from probes.facts import Gpu, GpuLimits, GpuProcess, MigDevice, Unread
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.nvidia_smi.nvidia_words import printed
from probes.parsers.topology.pci_addresses import normal_address

_GPU = pattern(r"\s{0,4}GPU (\d{1,4}): ([^\n(]{1,120}?)\s*\(UUID: ([^)\s]{1,80})\)?\s*")
_MIG = pattern(r"\s*MIG (\S{1,40})\s+Device\s+(\d{1,3}): \(UUID: ([^)\s]{1,100})\)?\s*")
_LINK = pattern(r"^[ \t]*Link \d+:", re.MULTILINE)
_NVLINK_WORDS = ("unable to retrieve nvlink", "support nvlink", "nvlink queries")
"""Texts that distinguish the output of `nvidia-smi nvlink`, which begins like the output of `-L`."""
_WORDS_OF_LOSS = ("unable to determine", "unknown error", "gpu is lost")

_HEAD = pattern(
    r"^[ \t]*#[ \t]*(?:(?:date|time)[ \t]+){0,2}gpu[ \t]+"
    r"(?:[a-z]+[ \t]+)*(?:pwr|gtemp|sm|pid|mclk|fb)\b[^\n]*$",
    re.MULTILINE | re.IGNORECASE,
)
_MAX_COLUMNS = 40

_HANDLE = pattern(
    r"Unable to determine the device handle for (?:GPU|gpu)\s?(?:(\d{1,3})\s?:?\s{1,4})?"
    r"([0-9A-Fa-f]{2,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]):?\s*([^\n]{0,120})"
)
_INFOROM = pattern(
    r"WARNING: infoROM is corrupted at gpu ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])",
    re.IGNORECASE,
)
_LIBRARY = pattern(r"NVML library version: (\d{3}\.\d{1,3}(?:\.\d{1,3})?)")
_FAILURES = (
    pattern(r"Failed to (?:initialize NVML|properly shut down NVML): [^\n]{1,120}"),
    pattern(r"NVIDIA-SMI has failed because [^\n]{1,160}"),
    pattern(r"NVIDIA-SMI couldn't find [^\n]{1,160}"),
    pattern(r"^No devices were found\.?$", re.MULTILINE),
    pattern(r"Unable to determine number of GPUs[^\n]{0,120}", re.IGNORECASE),
    pattern(
        r"(?:\w{1,20}: )?(?:\d{1,4}: )?nvidia-smi'?: (?:command )?not found|command not found: nvidia-smi"
    ),
    pattern(r"'nvidia-smi' is not recognized as [^\n]{1,120}"),
)
_LOST = "GPU is lost"


def recognise_list(text: str) -> bool:
    return any(_GPU.fullmatch(line) for line in text.splitlines()[:400]) and not (
        _LINK.search(text) or any(words in text.lower() for words in _NVLINK_WORDS)
    )


def parse_list(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the list, each with its MIG devices."""
    gpus: list[Gpu] = []
    for number, line in enumerate(text.splitlines(), start=1):
        heading, mig = _GPU.fullmatch(line), _MIG.fullmatch(line)
        if heading is not None:
            gpus.append(
                Gpu(
                    index=int(heading[1]),
                    name=_name(heading[2]),
                    uuid=printed(heading[3], "uuid"),
                    evidence=(line_ref(number),),
                )
            )
        elif mig is not None and gpus:
            device = MigDevice(profile=mig[1], uuid=mig[3])
            devices = (*items_of(gpus[-1].mig_devices), device)
            gpus[-1] = msgspec.structs.replace(gpus[-1], mig_enabled=True, mig_devices=devices)
    return tuple(gpus)


def unread_list(text: str) -> tuple[Unread, ...]:
    """Return lines that begin like the line of a GPU but end differently."""
    return tuple(
        Unread(source="", line=number, text=line.strip()[:120], why="not in the form of nvidia-smi -L")
        for number, line in enumerate(text.splitlines(), start=1)
        if re.match(r"\s*GPU \d{1,4}: ", line) and not _GPU.fullmatch(line)
    )


def _name(text: str) -> str | Unknown:
    is_lost = any(words in text.lower() for words in _WORDS_OF_LOSS)
    return Unknown(Reason.ERROR, text.strip()[:120]) if is_lost else text.strip() or NOT_RECORDED


def recognise_monitor(text: str) -> bool:
    return bool(_HEAD.search(text))


def parse_monitor(text: str) -> tuple[Gpu, ...]:
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
    return Gpu(
        index=index,
        ecc_uncorrected_volatile=_number(row, "dbecc"),
        temperature_c=_number(row, "gtemp"),
        power_w=map_known(_number(row, "pwr"), float),
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
    return first_unknown(*values) or choose(only_known(values))


def _number(row: dict[str, str], column: str) -> int | Unknown:
    text = row.get(column)
    if text is None:
        return NOT_RECORDED
    if text == "-":
        return Unknown(Reason.NOT_SUPPORTED, f"{column}: -")
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    return Unknown(Reason.ERROR if "err" in text.lower() else Reason.UNPARSABLE, f"{column}: {quoted(text)}")


def recognise_error(text: str) -> bool:
    return bool(_HANDLE.search(text) or _INFOROM.search(text) or failure(text) is not None)


def parse_error(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs that an error message names: lost GPUs, and GPUs with a damaged InfoROM."""
    gpus: list[Gpu] = []
    for number, line in enumerate(text.splitlines(), start=1):
        lost, damaged = _HANDLE.search(line), _INFOROM.search(line)
        if lost is not None:
            gpus.append(
                Gpu(
                    index=int(lost[1]) if lost[1] else UNNUMBERED,
                    name=Unknown(Reason.ERROR, f"{_LOST}: {lost[3].strip() or 'no device handle'}"),
                    pci_bus_id=normal_address(lost[2]),
                    evidence=(line_ref(number),),
                )
            )
        elif damaged is not None:
            address = normal_address(damaged[1])
            gpus.append(
                Gpu(index=UNNUMBERED, pci_bus_id=address, inforom_valid=False, evidence=(line_ref(number),))
            )
    return tuple(gpus)


def failure(text: str) -> Unknown | None:
    """Return the message that nvidia-smi did not run, or reached no driver or no GPU; None without it."""
    matches = (shape.search(text) for shape in _FAILURES)
    message = next((match[0].strip() for match in matches if match is not None), None)
    library = f" (library {version})" if (version := library_version(text)) else ""
    return None if message is None else Unknown(Reason.ERROR, f"nvidia-smi: {message}{library}")


def library_version(text: str) -> str | None:
    """Return the version of NVML in user space, which the message about a version mismatch contains."""
    version = _LIBRARY.search(text)
    return version[1] if version else None
