"""Parse the table of plain `nvidia-smi`: drivers 418 to 610, Linux and Windows, with or without MIG."""

import re

import msgspec

from probes.base.record import (
    NOT_RECORDED,
    EvidenceRef,
    Reason,
    Record,
    Unknown,
    items_of,
    line_ref,
    map_known,
)
from probes.facts import Gpu, GpuProcess, MigDevice, Unread
from probes.parsers.nvidia_smi.nvidia_words import (
    compute_mode,
    is_failure,
    memory_bytes,
    number,
    printed,
    whole,
)
from probes.parsers.nvidia_smi.nvsmi_fields import gpu_of
from probes.parsers.topology.pci_addresses import normal_address

_HEAD = re.compile(r"NVIDIA-SMI\s+\S+.{0,80}?(?:Driver|KMD) Version: ?\S+")
_COLUMNS = re.compile(r"\|\s*GPU\s+Name\b.*\|\s*Bus-Id\b", re.IGNORECASE)
_ROW = re.compile(
    r"^[ \t]{0,8}\|\s{1,4}\d{1,3}\s{1,4}\S[^|\n]{0,100}"
    r"\|\s{1,8}[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]\s[^|\n]{1,20}\|",
    re.MULTILINE,
)
"""The first row of a GPU; it identifies tables whose head was cut off."""
_MIG_PART = re.compile(r"^[ \t]{0,8}\|\s{1,4}MIG devices:\s{1,200}\|", re.MULTILINE)
_DRIVER = re.compile(r"(?:Driver|KMD) Version: ?(\d[\d.]{1,30})")
_CUDA = re.compile(r"CUDA (?:UMD )?Version: ?(\d{1,3}\.\d{1,3})")
_FIRST = re.compile(r"(\d{1,3})\s+(\S.{0,100}?)\s+(On|Off|N/A|WDDM|TCC|MCDM|ERR!)")
_LOST = re.compile(r"(\d{1,3})\s+(ERR!|Unknown Error|GPU is lost)\b.{0,80}", re.IGNORECASE)
_ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*(\S{0,6})")
_SECOND = re.compile(
    r"(\S+)\s+(\d{1,4}C|\S+)\s+(P\d{1,2}|\S+)\s+(\d{1,6}W|N/A|ERR!|Unknown Error|\S+)"
    r"\s*/\s*(\d{1,6}W|N/A|ERR!|Unknown Error|\S+)"
)
_MEMORY = re.compile(r"(\d{1,12}[KMG]i?B|\S+)\s*/\s*(\d{1,12}[KMG]i?B|\S+)")
_LOAD = re.compile(r"(\d{1,3}%|N/A|ERR!|\S+)\s+(\S.{0,20})")
_PROCESS = re.compile(
    r"(\d{1,3})\s+(?:(?:N/A|\d{1,3})\s+(?:N/A|\d{1,3})\s+)?(\d{1,10})\s+([CGM+]{1,5})\s+(\S.{0,400}?)"
    r"\s+(\d{1,12}[KMG]i?B|N/A)"
)
_MIG = re.compile(r"(\d{1,3})\s+\d{1,3}\s+\d{1,3}\s+\d{1,3}")
_ECC_OFF = Unknown(Reason.NOT_SUPPORTED, "ECC is off")
_ECC_OF_MIG = Unknown(Reason.NOT_SUPPORTED, "the table contains no error count for a GPU in MIG mode")


class SmiTable(Record, kw_only=True):
    """Content of one table."""

    driver_version: str | Unknown = NOT_RECORDED
    cuda_version: str | Unknown = NOT_RECORDED
    gpus: tuple[Gpu, ...] = ()
    unread: tuple[Unread, ...] = ()


def recognise(text: str) -> bool:
    return bool(_COLUMNS.search(text) or _HEAD.search(text) or _MIG_PART.search(text) or _ROW.search(text))


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the table."""
    return parse_table(text).gpus


def unread(text: str) -> tuple[Unread, ...]:
    """Report a table that ends before its first GPU."""
    return parse_table(text).unread


def parse_table(text: str) -> SmiTable:
    """Return the content of `text`; an empty table if `text` is not a table."""
    versions = _DRIVER.search(text), _CUDA.search(text)
    driver, cuda = (match[1] if match else NOT_RECORDED for match in versions)
    reader = _Reader(driver)
    lines = text.splitlines()
    for line_number, line in enumerate(map(str.strip, lines), start=1):
        if line.startswith("|") and len(line) < 1000:
            reader.take(line_number, line)
    gpus = reader.finished()
    cut = Unread(source="", line=len(lines), why="the table ends before its first GPU")
    unread = (cut,) if not gpus and _HEAD.search(text) else ()
    return SmiTable(driver_version=driver, cuda_version=cuda, gpus=gpus, unread=unread)


class _Reader:
    """Collects GPUs and processes from the rows of a table, which are given one after the other."""

    def __init__(self, driver: str | Unknown) -> None:
        self._driver = driver
        self._gpus: dict[int, Gpu] = {}
        self._part = ""
        self._current: int | None = None
        self._row = 0
        self._processes: dict[int, list[GpuProcess]] | None = None

    def take(self, number: int, line: str) -> None:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].startswith(("Processes:", "MIG devices:")):
            self._part = cells[0].partition(" ")[0].rstrip(":").lower()
        elif _COLUMNS.search(line):
            self._part = "gpus"
        elif self._part == "processes":
            self._process(cells[0], line)
        elif self._part == "mig":
            self._mig(cells, number)
        elif self._part or _ROW.match(line):
            self._part = "gpus"
            self._gpu(cells, number)

    def finished(self) -> tuple[Gpu, ...]:
        listed = self._processes
        if listed is None:
            return tuple(self._gpus.values())
        return tuple(
            msgspec.structs.replace(gpu, processes=tuple(listed.get(gpu.index, ())))
            for gpu in self._gpus.values()
        )

    def _gpu(self, cells: list[str], number: int) -> None:
        address = _ADDRESS.search(cells[1]) if len(cells) > 1 else None
        first = _FIRST.fullmatch(cells[0]) or _LOST.fullmatch(cells[0])
        if len(cells) >= 3 and first is not None and (address is not None or is_failure(cells[1])):
            self._current, self._row = int(first[1]), 1
            self._gpus[self._current] = self._first_row(first, address, cells[2], (line_ref(number),))
        elif self._current is not None and len(cells) >= 3:
            self._row += 1
            gpu = self._gpus[self._current]
            gpu = _second_row(gpu, cells) if self._row == 2 else gpu
            self._gpus[self._current] = _third_row(gpu, cells[2]) if self._row == 3 else gpu

    def _first_row(
        self, first: re.Match[str], address: re.Match[str] | None, ecc: str, evidence: tuple[EvidenceRef, ...]
    ) -> Gpu:
        no_address = Unknown(Reason.ERROR, "the table contains no bus id")
        return gpu_of(
            int(first[1]),
            {
                "name": printed(first[2], "name"),
                "pci_bus_id": normal_address(address[1]) if address else no_address,
                "driver_version": self._driver,
                "persistence_mode": _persistence(first[3] if len(first.groups()) > 2 else ""),
                "failed_queries": tuple(
                    what for what, text in (("name", first[2]), ("ecc", ecc)) if is_failure(text)
                ),
                "evidence": evidence,
                **_ecc(ecc),
            },
        )

    def _process(self, cell: str, line: str) -> None:
        if self._processes is None and (
            "=" in cell or "No running processes" in line or _PROCESS.fullmatch(cell)
        ):
            self._processes = {}
        row = _PROCESS.fullmatch(cell)
        if row is None or self._processes is None or row[3] == "G":
            return
        process = GpuProcess(
            pid=int(row[2]), name=row[4], memory_bytes=memory_bytes(_spaced(row[5]), "GPU memory")
        )
        self._processes.setdefault(int(row[1]), []).append(process)

    def _mig(self, cells: list[str], number: int) -> None:
        ids = _MIG.fullmatch(cells[0])
        memory = _MEMORY.search(cells[1]) if len(cells) > 1 else None
        if ids is None or memory is None:
            return
        gpu = self._gpus.get(int(ids[1])) or Gpu(
            index=int(ids[1]), mig_enabled=True, evidence=(line_ref(number),)
        )
        device = MigDevice(memory_bytes=memory_bytes(_spaced(memory[2]), "memory"))
        devices = (*items_of(gpu.mig_devices), device)
        self._gpus[gpu.index] = msgspec.structs.replace(gpu, mig_devices=devices)


def _second_row(gpu: Gpu, cells: list[str]) -> Gpu:
    changes: dict[str, object] = {}
    texts: dict[str, str] = {}
    if (sensors := _SECOND.fullmatch(cells[0])) is not None:
        fan, temperature, state, power, cap = sensors.groups()
        texts |= {"fan": fan, "temp": temperature, "perf": state, "power": power, "power cap": cap}
        changes |= {
            "limits": msgspec.structs.replace(
                gpu.limits, fan_percent=whole(fan, "fan", "%"), performance_state=printed(state, "perf")
            ),
            "temperature_c": whole(temperature, "temp", "C"),
            "power_w": number(power, "power", "W"),
            "power_limit_w": number(cap, "power cap", "W"),
        }
    if (memory := _MEMORY.fullmatch(cells[1])) is not None:
        texts["memory"] = memory[2]
        changes |= {
            "memory_used_bytes": memory_bytes(_spaced(memory[1]), "memory used"),
            "memory_bytes": memory_bytes(_spaced(memory[2]), "memory"),
        }
    if (load := _LOAD.fullmatch(cells[2])) is not None:
        texts["utilization"] = load[1]
        changes |= {
            "utilization_percent": whole(load[1], "GPU-Util", "%"),
            "compute_mode": compute_mode(load[2], "compute mode"),
        }
    failed = (name for name, text in texts.items() if is_failure(text))
    queries = (*items_of(gpu.failed_queries), *failed)
    return msgspec.structs.replace(gpu, failed_queries=queries, **changes)


def _third_row(gpu: Gpu, cell: str) -> Gpu:
    """Return the GPU with its MIG mode; a star marks a mode that changes with the next reset."""
    value = printed(cell.rstrip("*"), "MIG mode")
    if isinstance(value, Unknown):
        return msgspec.structs.replace(gpu, mig_enabled=value)
    if value not in ("Enabled", "Disabled"):
        return gpu
    enabled = value == "Enabled"
    devices = gpu.mig_devices if enabled else ()
    pending = enabled != cell.endswith("*")
    return msgspec.structs.replace(gpu, mig_enabled=enabled, mig_pending=pending, mig_devices=devices)


def _ecc(cell: str) -> dict[str, object]:
    """Return the ECC fields of a cell: a count of errors, `Off`, or `On` for a GPU in MIG mode."""
    if cell in ("On", "Off"):
        is_on = cell == "On"
        return {"ecc_enabled": is_on, "ecc_uncorrected_volatile": _ECC_OF_MIG if is_on else _ECC_OFF}
    count = whole(cell, "Volatile Uncorr. ECC")
    return {"ecc_enabled": map_known(count, lambda _: True), "ecc_uncorrected_volatile": count}


def _persistence(mode: str) -> bool | Unknown:
    """Return the persistence mode; Windows prints its driver model in the same place."""
    if mode in ("On", "Off"):
        return mode == "On"
    if mode == "ERR!":
        return Unknown(Reason.ERROR, "persistence mode: ERR!")
    return Unknown(Reason.NOT_SUPPORTED, f"persistence mode: {mode or 'not shown'}")


def _spaced(size: str) -> str:
    """Return a size with a blank before its unit: `81920 MiB` for `81920MiB`."""
    return re.sub(r"(?<=\d)(?=[KMG])", " ", size)
