"""What surrounds a measurement on this rank: versions, device, load."""

from __future__ import annotations

import os
import platform
from typing import Any


def host_conditions() -> dict[str, Any]:
    """What can be told without torch."""
    return {
        # On several hosts each goes by the name that the user gave it (rigtune_worker.multi_host).
        "hostname": os.environ.get("RIGTUNE_HOST") or platform.node(),
        "python_version": platform.python_version(),
        "device_name": cpu_name(),
        "load_average": os.getloadavg()[0],
    }


def device_uuid(device: Any) -> str:
    """`GPU-...` as NVML writes it; empty on a CPU and where nobody tells."""
    import torch  # noqa: PLC0415 - some benchmarks run where no torch is

    if device.type != "cuda":
        return ""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    if uuid is not None:
        return f"GPU-{uuid}"
    # torch before 2.5. What CUDA_VISIBLE_DEVICES hides would otherwise shift the names of the GPUs.
    try:
        return torch.cuda._raw_device_uuid_nvml()[torch.cuda._get_nvml_device_index(device)]
    except Exception:  # not torch's promise, and NVML may be out of reach
        return ""


def conditions(device: Any) -> dict[str, Any]:
    """What surrounds the measurement on this rank."""
    import torch  # noqa: PLC0415

    found = {**host_conditions(), "torch_version": torch.__version__, "threads": torch.get_num_threads()}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found["device_name"] = properties.name
        found["device_memory_bytes"] = properties.total_memory
        found["cuda_version"] = torch.version.cuda or ""
        if torch.distributed.is_available() and torch.distributed.is_nccl_available():
            found["nccl_version"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    else:
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
