"""Parse the errors that nvidia-smi prints when it cannot reach the driver, or loses a GPU."""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.base.record import Reason, Unknown
from probes.facts import Gpu
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.topology.pci_addresses import normal_address

_HANDLE = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu)\s?(?:(\d{1,3})\s?:?\s{1,4})?"
    r"([0-9A-Fa-f]{2,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]):?\s*([^\n]{0,120})"
)
_INFOROM = re.compile(
    r"WARNING: infoROM is corrupted at gpu ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])",
    re.IGNORECASE,
)
_LIBRARY = re.compile(r"NVML library version: (\d{3}\.\d{1,3}(?:\.\d{1,3})?)")
_FAILURES = (
    re.compile(r"Failed to (?:initialize NVML|properly shut down NVML): [^\n]{1,120}"),
    re.compile(r"NVIDIA-SMI has failed because [^\n]{1,160}"),
    re.compile(r"NVIDIA-SMI couldn't find [^\n]{1,160}"),
    re.compile(r"^No devices were found\.?$", re.MULTILINE),
    re.compile(r"Unable to determine number of GPUs[^\n]{0,120}", re.IGNORECASE),
    re.compile(
        r"(?:\w{1,20}: )?(?:\d{1,4}: )?nvidia-smi'?: (?:command )?not found|command not found: nvidia-smi"
    ),
    re.compile(r"'nvidia-smi' is not recognized as [^\n]{1,120}"),
)
_LOST = "GPU is lost"


def recognise(text: str) -> bool:
    return bool(_HANDLE.search(text) or _INFOROM.search(text) or failure(text) is not None)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs that an error names: lost ones without a name, and those with a damaged InfoROM."""
    gpus: list[Gpu] = []
    for number, line in enumerate(text.splitlines(), start=1):
        lost, damaged = _HANDLE.search(line), _INFOROM.search(line)
        if lost is not None:
            index = int(lost[1]) if lost[1] else UNNUMBERED
            why = Unknown(Reason.ERROR, f"{_LOST}: {lost[3].strip() or 'no device handle'}")
            gpus.append(
                Gpu(index=index, name=why, pci_bus_id=normal_address(lost[2]), evidence=(line_ref(number),))
            )
        elif damaged is not None:
            address = normal_address(damaged[1])
            gpus.append(
                Gpu(index=UNNUMBERED, pci_bus_id=address, inforom_valid=False, evidence=(line_ref(number),))
            )
    return tuple(gpus)


def failure(text: str) -> Unknown | None:
    """Return why nvidia-smi could not communicate with the driver at all; None if it could."""
    for pattern in _FAILURES:
        message = pattern.search(text)
        if message is not None:
            library = library_version(text)
            detail = f"nvidia-smi: {message[0].strip()}" + (f" (library {library})" if library else "")
            return Unknown(Reason.ERROR, detail)
    return None


def library_version(text: str) -> str | None:
    """Return the version of NVML in user space, which the message about a version mismatch contains."""
    version = _LIBRARY.search(text)
    return version[1] if version else None
