"""Parse `dcgmi discovery -l`: the GPUs that DCGM has found.

Source: NVIDIA DCGM user guide; dcgmi/Query.cpp (read 2026-11).
"""

import re

import msgspec

from probes.base.record import Reason, Unknown, line_ref
from probes.facts import Gpu
from probes.parsers.nvidia_smi.nvidia_words import printed
from probes.parsers.topology.pci_addresses import normal_address

_COUNT = re.compile(r"^[ \t]*(\d{1,4}) GPUs? found(?: \(Active\))?\.", re.MULTILINE)
_DEVICES = re.compile(r"GPU ID(?:: \d{1,4}\b|\s{0,4}\| Device Information\b)")
_INDEX = re.compile(r"(?:\|\s{0,4}|GPU ID: )(\d{1,4})(?:\s{0,8}\|.{0,200})?\s*")
_FIELD = re.compile(r"(?:.{0,40}\|)?\s*(Name|PCI Bus ID|Device UUID): (.{1,100}?)\s*\|?\s*")
_NO_TEXT = "<<<NULL>>>"


def recognise(text: str) -> bool:
    return _COUNT.search(text) is not None and _DEVICES.search(text) is not None


def attached_gpus(text: str) -> int | None:
    """Return the number of GPUs that DCGM counted; None if the text does not contain it."""
    count = _COUNT.search(text)
    return int(count[1]) if count else None


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs with DCGM's number, which equals NVML's if no GPU is hidden."""
    gpus: list[Gpu] = []
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        is_other = any(word in line for word in ("Switch", "CPU", "ConnectX"))
        if is_other and " found" in line and len(line) <= 300:
            break
        if is_other or len(line) > 300 or line.startswith("+"):
            continue
        heading, field = _INDEX.fullmatch(line), _FIELD.fullmatch(line)
        if heading is not None:
            gpus.append(Gpu(index=int(heading[1]), evidence=(line_ref(number),)))
        if field is not None and gpus:
            gpus[-1] = _with_field(gpus[-1], field[1], field[2])
    return tuple(gpus)


def _with_field(gpu: Gpu, label: str, text: str) -> Gpu:
    """Return the GPU with the value of one field."""
    if label == "PCI Bus ID":
        return msgspec.structs.replace(gpu, pci_bus_id=normal_address(text))
    if label == "Device UUID":
        return msgspec.structs.replace(gpu, uuid=printed(text, "uuid"))
    unnamed = Unknown(Reason.NOT_RECORDED, "DCGM prints no name")
    return msgspec.structs.replace(gpu, name=unnamed if text == _NO_TEXT else printed(text, "name"))
