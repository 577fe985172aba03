"""Read the conditions of a measurement on this rank (versions, device, load), and files of the kernel."""

from __future__ import annotations

import os
import platform
import re
from typing import Any


def text_of(path: str) -> str:
    """Return the text of a file of the kernel; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def field_bytes(path: str, field: str) -> int:
    """Return a size that a file states as `FIELD: N kB`; 0 if unknown."""
    line = re.search(field + r":\s+(\d+) kB", text_of(path))
    return int(line.group(1)) * 1024 if line else 0


def available_on_host(path: str = "/proc/meminfo") -> int:
    """Return the memory available without swapping, ignoring a container's limit; 0 if unknown."""
    return field_bytes(path, "MemAvailable")


def host_conditions() -> dict[str, Any]:
    """Return the conditions that need no torch."""
    return {
        # Several hosts have the names that the user gave (rigtune_worker.multi_host).
        "hostname": os.environ.get("RIGTUNE_HOST") or platform.node(),
        "python_version": platform.python_version(),
        "device_name": cpu_name(),
        "load_average": os.getloadavg()[0],
    }


def device_uuid(device: Any) -> str:
    """Return `GPU-...` in NVML's notation; empty on a CPU and if unknown."""
    import torch  # noqa: PLC0415 - some benchmarks run without torch

    if device.type != "cuda":
        return ""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    if uuid is not None:
        return f"GPU-{uuid}"
    # For torch before 2.5: CUDA_VISIBLE_DEVICES would otherwise shift the names of the GPUs.
    try:
        return torch.cuda._raw_device_uuid_nvml()[torch.cuda._get_nvml_device_index(device)]
    except Exception:  # a private function of torch, and NVML may be unavailable
        return ""


def conditions(device: Any) -> dict[str, Any]:
    """Return the conditions of the measurement on this rank."""
    import torch  # noqa: PLC0415

    values = {**host_conditions(), "torch_version": torch.__version__, "threads": torch.get_num_threads()}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        values.update(
            device_name=properties.name,
            device_memory_bytes=properties.total_memory,
            cuda_version=torch.version.cuda or "",
        )
        if torch.distributed.is_available() and torch.distributed.is_nccl_available():
            values["nccl_version"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    else:
        values["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
    return values


def cpu_name() -> str:
    line = re.search(r"^model name\s*:(.*)", text_of("/proc/cpuinfo"), re.MULTILINE)
    return line.group(1).strip() if line else platform.processor() or platform.machine()
