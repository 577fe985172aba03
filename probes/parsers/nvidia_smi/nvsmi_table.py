"""Parse the table of plain `nvidia-smi`: drivers 418 to 610, Linux and Windows, with or without MIG."""

from __future__ import annotations

import re

import msgspec

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, EvidenceRef, Reason, Record, Unknown
from probes.facts import Gpu, GpuProcess, MigDevice, Unread
from probes.parsers.nvidia_smi.nvidia_words import memory_bytes, printed, whole
from probes.parsers.nvidia_smi.nvsmi_fields import gpu_of
from probes.parsers.nvidia_smi.nvsmi_values import compute_mode, counted, is_failure, measured
from probes.parsers.topology.pci_addresses import normal_address

_HEAD = re.compile(r"NVIDIA-SMI\s+\S+.{0,80}?(?:Driver|KMD) Version: ?\S+")
_COLUMNS = re.compile(r"\|\s*GPU\s+Name\b.*\|\s*Bus-Id\b", re.IGNORECASE)
_ROW = re.compile(
    r"^[ \t]{0,8}\|\s{1,4}\d{1,3}\s{1,4}\S[^|\n]{0,100}"
    r"\|\s{1,8}[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]\s[^|\n]{1,20}\|",
    re.MULTILINE,
)
"""The first row of a GPU, for tables whose head was cut off."""
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
_ECC_OF_MIG = Unknown(Reason.NOT_SUPPORTED, "the table counts no errors of a GPU in MIG mode")


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
    """Return everything in `text`; an empty table if `text` is no table."""
    versions = _DRIVER.search(text), _CUDA.search(text)
    driver, cuda = (match[1] if match else NOT_RECORDED for match in versions)
    reader = _Reader(driver)
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.strip()
        if bare.startswith("|") and len(bare) < 1000:
            reader.take(number, bare)
    gpus = reader.finished()
    cut: tuple[Unread, ...] = ()
    if not gpus and _HEAD.search(text):
        cut = (Unread(source="", line=len(text.splitlines()), why="the table ends before its first GPU"),)
    return SmiTable(driver_version=driver, cuda_version=cuda, gpus=gpus, unread=cut)


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
            return
        if _COLUMNS.search(line):
            self._part = "gpus"
            return
        if not self._part and _ROW.match(line):
            self._part = "gpus"
        if self._part == "processes":
            self._process(cells[0], line)
        elif self._part == "mig":
            self._mig(cells, number)
        elif self._part == "gpus":
            self._gpu(cells, number)

    def finished(self) -> tuple[Gpu, ...]:
        gpus = list(self._gpus.values())
        if self._processes is not None:
            listed = self._processes
            gpus = [msgspec.structs.replace(gpu, processes=tuple(listed.get(gpu.index, ()))) for gpu in gpus]
        return tuple(gpus)

    def _gpu(self, cells: list[str], number: int) -> None:
        address = _ADDRESS.search(cells[1]) if len(cells) > 1 else None
        first = _FIRST.fullmatch(cells[0]) or _LOST.fullmatch(cells[0])
        if len(cells) >= 3 and first is not None and (address is not None or is_failure(cells[1])):
            self._current, self._row = int(first[1]), 1
            self._gpus[self._current] = self._first_row(first, address, cells[2], (line_ref(number),))
        elif self._current is not None and len(cells) >= 3:
            self._row += 1
            gpu = self._gpus[self._current]
            if self._row == 2:
                self._gpus[self._current] = _second_row(gpu, cells)
            elif self._row == 3:
                self._gpus[self._current] = _third_row(gpu, cells[2])

    def _first_row(
        self, first: re.Match[str], address: re.Match[str] | None, ecc: str, evidence: tuple[EvidenceRef, ...]
    ) -> Gpu:
        mode = first[3] if len(first.groups()) > 2 else ""
        name = printed(first[2], "name")
        bus = normal_address(address[1]) if address else Unknown(Reason.ERROR, "the table shows no bus id")
        return gpu_of(
            int(first[1]),
            {
                "name": name,
                "pci_bus_id": bus,
                "driver_version": self._driver,
                "persistence_mode": _persistence(mode),
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
        earlier = () if isinstance(gpu.mig_devices, Unknown) else gpu.mig_devices
        device = MigDevice(memory_bytes=memory_bytes(_spaced(memory[2]), "memory"))
        self._gpus[gpu.index] = msgspec.structs.replace(gpu, mig_devices=(*earlier, device))


def _second_row(gpu: Gpu, cells: list[str]) -> Gpu:
    sensors, memory, load = (
        _SECOND.fullmatch(cells[0]),
        _MEMORY.fullmatch(cells[1]),
        _LOAD.fullmatch(cells[2]),
    )
    changes: dict[str, object] = {}
    limits = gpu.limits
    failed = () if isinstance(gpu.failed_queries, Unknown) else gpu.failed_queries
    if sensors is not None:
        fan, temperature, state, power, cap = sensors.groups()
        limits = msgspec.structs.replace(
            limits,
            fan_percent=counted("%")(fan, "fan"),
            performance_state=printed(state, "perf"),
        )
        changes |= {
            "temperature_c": counted("C")(temperature, "temp"),
            "power_w": measured("W")(power, "power"),
            "power_limit_w": measured("W")(cap, "power cap"),
        }
        named = (("fan", fan), ("temp", temperature), ("perf", state), ("power", power), ("power cap", cap))
        failed += tuple(what for what, text in named if is_failure(text))
    if memory is not None:
        changes |= {
            "memory_used_bytes": memory_bytes(_spaced(memory[1]), "memory used"),
            "memory_bytes": memory_bytes(_spaced(memory[2]), "memory"),
        }
        failed += ("memory",) if is_failure(memory[2]) else ()
    if load is not None:
        changes |= {
            "utilization_percent": counted("%")(load[1], "GPU-Util"),
            "compute_mode": compute_mode(load[2], "compute mode"),
        }
        failed += ("utilization",) if is_failure(load[1]) else ()
    return msgspec.structs.replace(gpu, limits=limits, failed_queries=failed, **changes)


def _third_row(gpu: Gpu, cell: str) -> Gpu:
    """Return the GPU with its MIG mode; a star marks a mode that changes with the next reset."""
    value = printed(cell.rstrip("*"), "MIG mode")
    if isinstance(value, Unknown):
        return msgspec.structs.replace(gpu, mig_enabled=value)
    if value not in ("Enabled", "Disabled"):
        return gpu
    enabled = value == "Enabled"
    pending = enabled != cell.endswith("*")
    devices = gpu.mig_devices if enabled else ()
    return msgspec.structs.replace(gpu, mig_enabled=enabled, mig_pending=pending, mig_devices=devices)


def _ecc(cell: str) -> dict[str, object]:
    """Return the ECC fields of a cell: a count of errors, `Off`, or `On` for a GPU in MIG mode."""
    if cell == "Off":
        return {"ecc_enabled": False, "ecc_uncorrected_volatile": _ECC_OFF}
    if cell == "On":
        return {"ecc_enabled": True, "ecc_uncorrected_volatile": _ECC_OF_MIG}
    count = whole(cell, "Volatile Uncorr. ECC")
    if isinstance(count, Unknown):
        return {"ecc_enabled": count, "ecc_uncorrected_volatile": count}
    return {"ecc_enabled": True, "ecc_uncorrected_volatile": count}


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
