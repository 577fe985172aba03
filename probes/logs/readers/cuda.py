"""Reader of CUDA errors and out-of-memory errors, as torch, nccl-tests and other programs print them.

Source: CUDA runtime and driver API error names; pytorch c10/cuda/CUDACachingAllocator.cpp and
CUDAException.cpp, 1.9 to 2.13.
"""

import re
from typing import Any

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, reporting
from probes.logs.events.cuda_events import (
    CudaAssert,
    CudaDriverOld,
    CudaError,
    CudaFork,
    CudaInitFailed,
    CudaInvalidDevice,
    CudaNoKernel,
    NvmlFailed,
    NvmlMismatch,
    TorchOom,
)
from probes.logs.readers.cuda_texts import CODES_OF_TEXTS
from probes.logs.readers.row_readers import read_rows, row, signs

_WORDS = "|".join(sorted((re.escape(sentence) for sentence in CODES_OF_TEXTS), key=len, reverse=True))

_UNITS = {
    "bytes": 1,
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "KB": 1 << 10,
    "MB": 1 << 20,
    "GB": 1 << 30,
    "TB": 1 << 40,
}
"""Bytes by unit; torch uses powers of two for all units."""


def _bytes(words: str) -> int | None:
    size, _, unit = words.partition(" ")
    try:
        return int(float(size) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        return None


def _oom(fields: dict[str, Any]) -> TorchOom:
    return TorchOom(wanted=_bytes(fields.get("amount", "")))


_ROWS = (
    row(
        TorchOom,
        "CUDA out of memory",
        r"(?:CUDA|HIP) out of memory\.?(?: Tried to allocate (?P<amount>[\d.]{1,20} \w{1,5}))?",
        finish=_oom,
    ),
    row(TorchOom, "HIP out of memory"),
    row(TorchOom, "OutOfMemoryError", r"torch\.(?:cuda\.)?OutOfMemoryError"),
    row(TorchOom, "CUBLAS_STATUS_ALLOC_FAILED"),
    row(
        TorchOom,
        "RESOURCE_EXHAUSTED",
        r"RESOURCE_EXHAUSTED: (?:Out of memory|OOM when|Failed to allocate).{0,200}",
    ),
    row(TorchOom, "OOM when allocating tensor"),
    row(CudaFork, "Cannot re-initialize CUDA in forked subprocess"),
    row(
        CudaDriverOld,
        "NVIDIA driver on your system is too old",
        r"too old(?: \(found version (?P<actual>\d{3,6})\))?",
    ),
    row(CudaDriverOld, "driver version is insufficient for CUDA runtime version"),
    row(CudaDriverOld, "forward compatibility was attempted on non supported HW"),
    row(NvmlMismatch, "river/library version mismatch"),
    row(
        NvmlMismatch,
        "kernel version ",
        r"NVML library version: (?P<library>[\d.]{3,20})|kernel version (?P<kernel>[\d.]{3,20}) does not "
        r"match",
    ),
    row(
        NvmlFailed,
        "Unable to determine the device handle for ",
        r"device handle for (?:GPU ?|gpu ?)?(?P<bus>[0-9A-Fa-f:.]{4,20}): (?P<text>.{1,120})",
    ),
    row(NvmlFailed, "ailed to initialize NVML", r"initialize NVML: (?P<text>.{1,120})"),
    row(CudaNoKernel, "no kernel image is available"),
    row(CudaNoKernel, "named symbol not found"),
    row(
        CudaNoKernel,
        "is not compatible with the current PyTorch installation",
        r"with CUDA capability (?P<capability>sm_\w{2,5})",
    ),
    row(CudaInitFailed, "Error 802: ", r"Error (?P<code>802): (?P<text>[^\n(]{1,80})"),
    row(
        CudaInitFailed,
        "from cudaGetDeviceCount()",
        r"from cudaGetDeviceCount\(\).{0,160}?Error (?P<code>\d{1,4}): (?P<text>[^\n(]{1,100})",
    ),
    row(CudaInitFailed, "CUDA unknown error - this may be due to an incorrectly set up environment"),
    row(CudaInitFailed, "No CUDA GPUs are available"),
    row(CudaInitFailed, "Found no NVIDIA driver on your system", r"(?P<text>Found no NVIDIA driver)"),
    row(
        NvmlFailed,
        "couldn't communicate with the NVIDIA driver",
        r"(?P<text>couldn't communicate with the NVIDIA driver)",
    ),
    row(CudaInitFailed, "CUDA driver initialization failed"),
    row(CudaInitFailed, "Torch not compiled with CUDA enabled"),
    row(CudaInvalidDevice, "invalid device ordinal"),
    row(
        CudaAssert,
        "Assertion `",
        r"(?P<file>[^\s:]{1,160}\.(?:cuh?|h)):(?P<line>\d{1,6}):.{0,200}Assertion `",
    ),
    row(
        CudaError,
        "cuda runtime error (",
        r"cuda runtime error \((?P<code>\d{1,4})\) : (?P<text>[^\n]{3,80}?)(?: at /|$)",
    ),
    row(CudaError, "CUDA_ERROR_", r"(?P<name>CUDA_ERROR_[A-Z_]{3,60})"),
    row(CudaError, "cudaError", r"(?:error code: ?)?(?P<name>cudaError[A-Z]\w{2,60})"),
    row(CudaError, "CUDA error", rf"CUDA error:? ?(?:\S{{1,120}}:\d{{1,6}} ['\"]?)?['\"]?(?P<text>{_WORDS})"),
    row(
        CudaError,
        "Cuda failure",
        r"Cuda failure (?:\S{1,120}:\d{1,6}:? )?(?:(?P<code>\d{1,4}) )?'(?P<text>[^']{1,120})'",
    ),
    row(CudaError, "CUDA failure", rf"CUDA failure.{{0,120}}?'?(?P<text>{_WORDS})"),
    row(CudaError, "system not yet initialized", r"(?P<text>system not yet initialized)", code=802),
    row(CudaError, "CUDA error: ", r"CUDA error: (?P<text>[a-z][^\n.]{3,100})"),
)
SIGNS: tuple[bytes, ...] = (
    *(sign for sign in signs(_ROWS) if sign not in {b"kernel version ", b"CUDA error: "}),
    b"NVML library version: ",
    b"does not match DSO version",
)
_SIZES = (
    ("gpu", pattern(r"\bGPU (\d{1,3})\b")),
    ("total", pattern(r"([\d.]{1,12} [KMGT]?i?B) total capacity|total capacity of ([\d.]{1,12} [KMGT]?i?B)")),
    ("free", pattern(r"([\d.]{1,12} [KMGT]?i?B|[\d.]{1,12} bytes)(?: is)? free")),
    (
        "used",
        pattern(
            r"this process has ([\d.]{1,12} [KMGT]?i?B)|([\d.]{1,12} [KMGT]?i?B) already allocated|"
            r"memory ([\d.]{1,12} [KMGT]?i?B) is allocated"
        ),
    ),
    ("reserved", pattern(r"([\d.]{1,12} [KMGT]?i?B) reserved in total by PyTorch")),
    ("unallocated", pattern(r"([\d.]{1,12} [KMGT]?i?B) is reserved by PyTorch but unallocated")),
)
_HOLDERS = pattern(r"\bProcess (\d{1,10}) has ([\d.]{1,12} [KMGT]?i?B) memory in use")
_OWN = "this process has "


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line."""
    return tuple(_completed(event, line.text) for event in read_rows(_ROWS, line))


def _completed(event: Event, text: str) -> Event:
    """Return the event with all memory sizes of the line, or with the CUDA error code of its text."""
    match event.what:
        case TorchOom() as oom:
            sizes: dict[str, Any] = {
                name: size for name, shape in _SIZES if (size := _size(shape.search(text))) is not None
            }
            return reporting(
                event, TorchOom(wanted=oom.wanted, others=_other_processes(text) or None, **sizes)
            )
        case CudaError(code=None) as error:
            return reporting(event, msgspec.structs.replace(error, code=CODES_OF_TEXTS.get(error.text or "")))
    return event


def _size(match: re.Match[str] | None) -> int | None:
    word = next((group for group in match.groups() if group), "") if match else ""
    return int(word) if word.isdecimal() and len(word) < 4 else _bytes(word)


def _other_processes(text: str) -> str:
    """Return the other processes that use memory of the GPU.

    torch lists its own process separately, unless a container hides the process id.
    """
    holders = [f"process {pid} with {size}" for pid, size in _HOLDERS.findall(text)]
    if _OWN in text:
        return ", ".join(holders)
    return f"{', '.join(holders)}, one of which is this rank" if len(holders) > 1 else ""
