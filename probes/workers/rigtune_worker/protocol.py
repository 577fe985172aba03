"""How a worker answers: JSON lines in files of its own, because everybody prints to standard output.

`rank<N>.jsonl` holds one object per line, each with `event`:

    start    versions, device and conditions; always first
    sample   `case` (what was measured) and the numbers of one sample group, written as soon as it is complete
    skipped  `case` and `message`: left out because it would overrun the time budget
    failure  `kind` (out_of_memory, unsupported, wrong_result, crashed) and `message`, with the `case` where one is concerned
    done     always last; a file without it is an incomplete answer
"""

from __future__ import annotations

import json
import os
import platform
from typing import Any, TextIO

import torch

OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "_alloc_failed")
"""In the words of CUDA and NCCL, of torch on a CPU, and of cuBLAS, which allocates past torch."""


class CaseError(Exception):
    """One case cannot be measured; the others can."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def dump_line(file: TextIO, value: dict[str, Any]) -> None:
    """Write one line and hand it to the kernel at once: a killed worker loses nothing that it had finished."""
    file.write(json.dumps(value) + "\n")
    file.flush()


def is_out_of_memory(error: BaseException) -> bool:
    """True for torch's own error, and for the plain RuntimeErrors of libraries and of the CPU."""
    if isinstance(error, (torch.cuda.OutOfMemoryError, MemoryError)):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in words for sign in OUT_OF_MEMORY)


class Answer:
    """The answer file of one rank."""

    def __init__(self, directory: str, rank: int) -> None:
        path = os.path.join(directory, f"rank{rank}.jsonl")
        self.file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the worker

    def start(self, rank: int, world_size: int, device: torch.device) -> None:
        uuid, surroundings = device_uuid(device), conditions(device)
        dump_line(self.file, {"event": "start", "rank": rank, "world_size": world_size, "uuid": uuid, "conditions": surroundings})

    def sample(self, case: dict[str, Any], durations_s: list[float], **figures: Any) -> None:
        dump_line(self.file, {"event": "sample", "case": case, "durations_s": durations_s, "figures": figures})

    def skipped(self, case: dict[str, Any], message: str) -> None:
        dump_line(self.file, {"event": "skipped", "case": case, "message": message})

    def failure(self, kind: str, message: str, case: dict[str, Any] | None = None) -> None:
        dump_line(self.file, {"event": "failure", "kind": kind, "message": message, "case": case or {}})

    def done(self) -> None:
        dump_line(self.file, {"event": "done"})


def device_uuid(device: torch.device) -> str:
    """`GPU-...` as NVML writes it; empty on a CPU and where torch does not tell (before 2.5)."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None) if device.type == "cuda" else None
    return f"GPU-{uuid}" if uuid is not None else ""


def conditions(device: torch.device) -> dict[str, Any]:
    """What surrounds the measurement on this rank."""
    found: dict[str, Any] = {
        "hostname": platform.node(),
        "python_version": platform.python_version(),
        "torch_version": torch.__version__,
        "threads": torch.get_num_threads(),
        "load_average": os.getloadavg()[0],
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found["device_name"] = properties.name
        found["device_memory_bytes"] = properties.total_memory
        found["cuda_version"] = torch.version.cuda or ""
        if torch.distributed.is_available() and torch.distributed.is_nccl_available():
            found["nccl_version"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    else:
        found["device_name"] = cpu_name()
        found["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
    return found


def cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
