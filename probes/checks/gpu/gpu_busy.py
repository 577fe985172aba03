"""Check that no other program uses the GPUs.

Processes of other containers are often invisible. If processes cannot be listed, memory in use counts as
well. Source: facebookresearch/gcm and AMD-AGI/Primus (memory in use before a job starts).
"""

from __future__ import annotations

from probes.base.record import Unknown, known
from probes.base.units import gib
from probes.facts import Gpu, GpuProcess
from probes.judging.findings import Evidence, Judge, Remedy
from probes.judging.reporting import Judged, each_gpu

JUDGE = Judge(
    check_id="gpu-busy",
    why="A second program takes memory and time of the GPU: training runs out of memory, or all ranks wait "
    "for this one.",
)

_SHOWN = 4

REMEDY = Remedy(
    text="If the processes are not yours, ask their owner; if nobody owns the memory, reset the GPU.",
    command="nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv",
)


@each_gpu(JUDGE, what="the processes on the GPU", good="no other program uses the GPUs")
def check(gpu: Gpu, evidence: Evidence) -> Judged:
    limit = evidence.thresholds.gpu_memory_in_use_bytes
    subject, used = f"GPU{gpu.index}", gpu.memory_used_bytes
    if known(gpu.processes) and gpu.processes:
        shown, more = gpu.processes[:_SHOWN], len(gpu.processes) - _SHOWN
        return JUDGE.warned(
            subject,
            "other processes use this GPU",
            expected="none",
            observed="; ".join(_describe(process) for process in shown)
            + (f" and {more} more" if more > 0 else ""),
            remedy=REMEDY,
        )
    if isinstance(gpu.processes, Unknown) and known(used) and used > limit.value:
        return JUDGE.warned(
            subject,
            "memory is in use, but no process that uses it is visible from here",
            expected=f"at most {gib(limit.value)}",
            observed=gib(used),
            remedy=REMEDY,
            evidence=(limit.ref,),
        )
    if isinstance(gpu.processes, Unknown):
        return gpu.processes
    return "no processes"


def _describe(process: GpuProcess) -> str:
    """Return the program without folder and arguments; some drivers give the whole command line."""
    name = process.name.split(" -")[0].rpartition("/")[2][:40] if known(process.name) else "process"
    memory = f", {gib(process.memory_bytes)}" if known(process.memory_bytes) else ""
    return f"{name} (pid {process.pid}{memory})"
