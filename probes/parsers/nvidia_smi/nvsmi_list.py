"""Parse `nvidia-smi -L`, with MIG devices."""

from __future__ import annotations

import re

import msgspec

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import Gpu, MigDevice, Unread
from probes.parsers.nvidia_smi.nvidia_words import printed

_GPU = re.compile(r"\s{0,4}GPU (\d{1,4}): ([^\n(]{1,120}?)\s*\(UUID: ([^)\s]{1,80})\)?\s*")
_MIG = re.compile(r"\s*MIG (\S{1,40})\s+Device\s+(\d{1,3}): \(UUID: ([^)\s]{1,100})\)?\s*")
_LINK = re.compile(r"^[ \t]*Link \d+:", re.MULTILINE)
_NVLINK_WORDS = ("unable to retrieve nvlink", "support nvlink", "nvlink queries")
"""Words of `nvidia-smi nvlink`, whose output begins with the same lines."""
_WORDS_OF_LOSS = ("unable to determine", "unknown error", "gpu is lost")


def recognise(text: str) -> bool:
    if not any(_GPU.fullmatch(line) for line in text.splitlines()[:400]):
        return False
    return not _LINK.search(text) and not any(words in text.lower() for words in _NVLINK_WORDS)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the list, each with its MIG devices."""
    gpus: list[Gpu] = []
    for number, line in enumerate(text.splitlines(), start=1):
        heading, slice_ = _GPU.fullmatch(line), _MIG.fullmatch(line)
        if heading is not None:
            gpus.append(
                Gpu(
                    index=int(heading[1]),
                    name=_name(heading[2]),
                    uuid=printed(heading[3], "uuid"),
                    evidence=(line_ref(number),),
                )
            )
        elif slice_ is not None and gpus:
            device = MigDevice(profile=slice_[1], uuid=slice_[3])
            earlier = gpus[-1].mig_devices
            devices = () if isinstance(earlier, Unknown) else earlier
            gpus[-1] = msgspec.structs.replace(gpus[-1], mig_enabled=True, mig_devices=(*devices, device))
    return tuple(gpus)


def unread(text: str) -> tuple[Unread, ...]:
    """Return lines that begin like a GPU's line and end differently."""
    return tuple(
        Unread(source="", line=number, text=line.strip()[:120], why="not as nvidia-smi -L writes it")
        for number, line in enumerate(text.splitlines(), start=1)
        if re.match(r"\s*GPU \d{1,4}: ", line) and not _GPU.fullmatch(line)
    )


def _name(text: str) -> str | Unknown:
    if any(words in text.lower() for words in _WORDS_OF_LOSS):
        return Unknown(Reason.ERROR, text.strip()[:120])
    return text.strip() or NOT_RECORDED
