"""Read version numbers from files and `--version` outputs."""

import re

import msgspec

from probes.base.patterns import pattern
from probes.base.record import Reason, Record, Unknown, from_json, quoted

_DRIVER = pattern(r"NVRM version:.*?Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)*)")
_OPEN_MODULE = pattern(r"NVRM version:.*Open Kernel Module")
_NVCC = pattern(r"release \d+\.\d+, V(\d+\.\d+(?:\.\d+)?)")
_NCCL_LIBRARY = pattern(r"libnccl\.so\.(\d+\.\d+\.\d+)$")
_MPI = (
    (pattern(r"\(Open(?:RTE|MPI| MPI)\)\s+(\d\S*)"), "Open MPI"),
    (pattern(r"\(PRRTE\)\s+(\d\S*)"), "PRRTE"),
    (pattern(r"Intel\(R\) MPI Library.*?Version\s+(\d\S*)"), "Intel MPI"),
    (pattern(r"HYDRA build details:\s+Version:\s+(\d\S*)"), "MPICH"),
)
"""Patterns of the version output of each MPI implementation."""
_SLURM = pattern(r"slurm(?:-wlm)?\s+(\d+\.\d+\.\d+\S*)")
_PYTHON_ASSIGNMENT = pattern(
    r"^(\w+)\s*(?::[^=\n]+)?=\s*(?:'([^'\n]*)'|\"([^\"\n]*)\"|(None))\s*$", re.MULTILINE
)
_OS_RELEASE = pattern(r"^(\w+)=(?:\"([^\"\n]*)\"|'([^'\n]*)'|(\S*))\s*$", re.MULTILINE)


class _CudaJson(msgspec.Struct):
    class Part(msgspec.Struct):
        version: str

    cuda: Part


class DriverModule(Record, kw_only=True):
    """Version of the loaded kernel module of the NVIDIA driver."""

    version: str
    is_open: bool


def recognise_driver(text: str) -> bool:
    """Return whether the text is a copy of /proc/driver/nvidia/version.

    In a kernel log the same words follow a time stamp.
    """
    return any(line.startswith("NVRM version:") for line in text[:20_000].splitlines())


def parse_driver_module(text: str) -> DriverModule | Unknown:
    """Return the loaded module from /proc/driver/nvidia/version."""
    match = _DRIVER.search(text)
    if match is None:
        return Unknown(Reason.UNPARSABLE, f"/proc/driver/nvidia/version: {quoted(text)}")
    return DriverModule(version=match[1], is_open=_OPEN_MODULE.search(text) is not None)


def cuda_version(number: int) -> str | Unknown:
    """Return a CUDA version from NVML's number (1000 x major + 10 x minor): `12.8` for 12080."""
    if number < 1000:
        return Unknown(Reason.UNPARSABLE, f"CUDA version number {number}")
    return f"{number // 1000}.{number % 1000 // 10}"


def toolkit_version(text: str) -> str | Unknown:
    """Return the version of the CUDA toolkit from its version.json."""
    try:
        return from_json(text, _CudaJson).cuda.version
    except msgspec.DecodeError as error:
        return Unknown(Reason.UNPARSABLE, f"version.json: {error}")


def nvcc_version(text: str) -> str | Unknown:
    """Return the version of the CUDA toolkit from `nvcc --version`."""
    return _first(_NVCC, text, "nvcc --version")


def nccl_library_version(path: str) -> str | Unknown:
    """Return the version in the path of a libnccl file: `2.27.3` for `.../libnccl.so.2.27.3`."""
    return _first(_NCCL_LIBRARY, path, "the path of libnccl")


def mpi_version(text: str) -> str | Unknown:
    """Return implementation and version: `Open MPI 4.1.6`."""
    for words, name in _MPI:
        if (match := words.search(text)) is not None:
            return f"{name} {match[1]}"
    return Unknown(Reason.UNPARSABLE, f"mpirun --version: {quoted(text)}")


def slurm_version(text: str) -> str | Unknown:
    """Return the version of `slurm 23.11.4` or `slurm-wlm 23.11.4`: `23.11.4`."""
    return _first(_SLURM, text, "the Slurm version")


def python_assignments(text: str) -> dict[str, str | None]:
    """Return module-level strings and Nones of a generated file like torch/version.py."""
    return {
        match[1]: None if match[4] else match[2] or match[3] or ""
        for match in _PYTHON_ASSIGNMENT.finditer(text)
    }


def os_name(text: str) -> str | Unknown:
    """Return the name of a distribution from its os-release file: `Ubuntu 22.04.4 LTS`."""
    fields = {match[1]: match[2] or match[3] or match[4] or "" for match in _OS_RELEASE.finditer(text)}
    name = fields.get("PRETTY_NAME") or " ".join(filter(None, (fields.get("NAME"), fields.get("VERSION_ID"))))
    return name or Unknown(Reason.UNPARSABLE, "os-release names no distribution")


def _first(pattern: re.Pattern[str], text: str, what: str) -> str | Unknown:
    match = pattern.search(text)
    return match[1] if match else Unknown(Reason.UNPARSABLE, f"{what}: {quoted(text)}")
