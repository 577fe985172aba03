"""Check that no other program uses the GPUs, and that useful work explains their load and memory.

Processes of other containers are often invisible. If processes cannot be listed, memory in use also counts as
a sign of a program. Source: facebookresearch/gcm and AMD-AGI/Primus (memory in use before a job starts,
memory left behind); stas00/ml-engineering, debugging NVIDIA GPUs (full load without a process); field reports
of hung NCCL collectives (full SM load, no memory traffic).
"""

from probes.base.record import Unknown, first_unknown, known
from probes.base.units import gib, plural
from probes.catalogue.thresholds import Thresholds
from probes.facts import Gpu, GpuProcess
from probes.judging.findings import Evidence, Judge, Remedy
from probes.judging.reporting import Judged, each_gpu, unknown_among

BUSY = Judge(
    check_id="gpu-busy",
    why="A second program uses memory and time of the GPU: training runs out of memory, or all ranks wait "
    "for this GPU.",
)

_SHOWN = 4

_OWNER = Remedy(
    text="If the processes are not yours, ask their owner; if nobody owns the memory, reset the GPU.",
    command="nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv",
)
LEFTOVER = Judge(
    check_id="gpu-memory-leftover",
    why="The next job cannot use memory that a lost process has not released, and may run out of memory.",
)
IDLE = Judge(
    check_id="gpu-idle",
    why="A GPU that reports load without work misleads schedulers and monitors, and a hung kernel may be "
    "the reason.",
)
SPINNING = Judge(
    check_id="gpu-spinning",
    why="A job that hangs in a collective looks busy and occupies all its GPUs until somebody ends it.",
)


@each_gpu(BUSY, what="the processes on the GPU", good="no other program uses the GPUs")
def gpu_busy(gpu: Gpu, evidence: Evidence) -> Judged:
    limit = evidence.thresholds.gpu_memory_in_use_bytes
    subject, used = f"GPU{gpu.index}", gpu.memory_used_bytes
    if known(gpu.processes) and gpu.processes:
        more = len(gpu.processes) - _SHOWN
        return BUSY.warned(
            subject,
            "other processes use this GPU",
            expected="none",
            observed="; ".join(map(_describe, gpu.processes[:_SHOWN]))
            + (f" and {more} more" if more > 0 else ""),
            remedy=_OWNER,
        )
    if not isinstance(gpu.processes, Unknown):
        return "no processes"
    if known(used) and used > limit.value:
        return BUSY.warned(
            subject,
            "memory is in use, but no process that uses it is visible from here",
            expected=f"at most {gib(limit.value)}",
            observed=gib(used),
            remedy=_OWNER,
            evidence=(limit.ref,),
        )
    return gpu.processes


def _describe(process: GpuProcess) -> str:
    """Return name, pid and memory of a process; drivers may report its whole command line as its name."""
    name = process.name.split(" -")[0].rpartition("/")[2][:40] if known(process.name) else "process"
    memory = f", {gib(process.memory_bytes)}" if known(process.memory_bytes) else ""
    return f"{name} (pid {process.pid}{memory})"


@each_gpu(LEFTOVER, what="the memory in use", good="no memory is in use without a process")
def gpu_memory_leftover(gpu: Gpu, evidence: Evidence) -> Judged:
    limit = evidence.thresholds.gpu_memory_in_use_bytes
    used, processes = gpu.memory_used_bytes, gpu.processes
    if isinstance(used, Unknown):
        return used
    if used <= limit.value:
        return gib(used)
    if isinstance(processes, Unknown):
        return processes
    if processes:
        return f"{gib(used)} by {plural(len(processes), 'process')}"
    return LEFTOVER.warned(
        f"GPU{gpu.index}",
        "memory is in use, but no process that uses it is visible from here",
        expected=f"at most {gib(limit.value)}",
        observed=gib(used),
        remedy=Remedy(
            text="Look in other containers for its owner; if nobody owns the memory, reset the GPU.",
            command=f"fuser -v /dev/nvidia{gpu.index}",
            needs_root=True,
        ),
        evidence=(limit.ref,),
    )


@each_gpu(IDLE, what="the load", good="no idle GPU reports load")
def gpu_idle(gpu: Gpu, evidence: Evidence) -> Judged:
    limits = evidence.thresholds
    load = gpu.utilization_percent
    if isinstance(load, Unknown):
        return load
    if load < limits.idle_utilization_percent.value or _has_work(gpu, limits):
        return f"{load} %"
    power, cap = gpu.power_w, gpu.power_limit_w
    if isinstance(power, Unknown) or isinstance(cap, Unknown):
        return unknown_among(power, cap)
    if power >= cap * limits.idle_power_fraction.value:
        return f"{load} % at {power:.0f} W"
    return IDLE.warned(
        f"GPU{gpu.index}",
        "load without a process, at the power of an idle GPU",
        expected="0 %",
        observed=f"{load} % at {power:.0f} of {cap:.0f} W",
        remedy=Remedy(
            text="A GPU reports such a load for a moment after the driver initialises it; turn on "
            "persistence mode to avoid this. If the load stays, reset the GPU.",
            command="nvidia-smi -pm 1",
            needs_root=True,
        ),
        evidence=(limits.idle_power_fraction.ref,),
    )


def _has_work(gpu: Gpu, limits: Thresholds) -> bool:
    """Return whether a GPU has a process.

    If processes cannot be listed, return whether so much memory is in use that a process must exist, or
    whether this is unknown too.
    """
    if known(gpu.processes):
        return bool(gpu.processes)
    return (
        isinstance(gpu.memory_used_bytes, Unknown)
        or gpu.memory_used_bytes > limits.gpu_memory_in_use_bytes.value
    )


@each_gpu(SPINNING, what="the load of each process", good="no program has a full load without memory traffic")
def gpu_spinning(gpu: Gpu, evidence: Evidence) -> Judged:
    limits = evidence.thresholds
    processes = gpu.processes
    if isinstance(processes, Unknown):
        return processes
    if processes and not any(known(process.sm_percent) for process in processes):
        return unknown_among(processes[0].sm_percent)
    full = [process for process in processes if _is_full(process, limits)]
    spinning = [process for process in full if _without_memory(process, limits)]
    if not spinning:
        if unread := first_unknown(*(process.memory_percent for process in full)):
            return unread
        return plural(len(processes), "process")
    first = spinning[0]
    return SPINNING.warned(
        f"GPU{gpu.index}",
        "a program keeps the GPU busy without using its memory",
        expected="memory traffic whenever the load is full",
        observed=f"pid {first.pid}: {first.sm_percent} % SM, {first.memory_percent} % memory",
        remedy=Remedy(
            text="If this lasts for minutes, the ranks are waiting in a collective for a rank that never "
            "joins it; look at their stacks.",
            command=f"py-spy dump --pid {first.pid}",
            needs_root=True,
        ),
        evidence=(limits.spinning_sm_percent.ref,),
    )


def _is_full(process: GpuProcess, limits: Thresholds) -> bool:
    return known(process.sm_percent) and process.sm_percent >= limits.spinning_sm_percent.value


def _without_memory(process: GpuProcess, limits: Thresholds) -> bool:
    return known(process.memory_percent) and process.memory_percent <= limits.spinning_memory_percent.value
