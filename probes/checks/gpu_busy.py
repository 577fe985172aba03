"""Does somebody else use the GPUs?

Processes of other containers are often invisible, so memory in use counts as well. Programs that draw the desktop do not.
Source: facebookresearch/gcm and AMD-AGI/Primus (memory in use before a job starts).
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.facts import Gpu, GpuProcess
from probes.findings import Evidence, Finding, Judge, Remedy
from probes.judging import Judged, gpus_of, judge_each
from probes.record import Unknown, known
from probes.thresholds import Thresholds
from probes.units import gib

JUDGE = Judge(
    check_id="gpu-busy",
    why="A second program takes memory and time of the GPU: training runs out of memory, or all ranks wait for this one.",
)

REMEDY = Remedy(
    text="If the processes are not yours, ask their owner; if nobody owns the memory, reset the GPU.",
    command="nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    limits = evidence.thresholds
    yield from judge_each(
        JUDGE, gpus, lambda gpu: _judge(gpu, limits), what="the processes on the GPU", good="no other program uses the GPUs"
    )


def _judge(gpu: Gpu, limits: Thresholds) -> Judged:
    subject, used, limit = f"GPU{gpu.index}", gpu.memory_used_bytes, limits.gpu_memory_in_use_bytes
    foreign = [process for process in gpu.processes if _counts(process, limits)] if known(gpu.processes) else []
    if foreign:
        return JUDGE.warned(
            subject,
            "other processes use this GPU",
            expected="none",
            observed="; ".join(_describe(process) for process in foreign[:4])
            + (f" and {len(foreign) - 4} more" if foreign[4:] else ""),
            remedy=REMEDY,
        )
    if known(used) and used > limit.value:
        return JUDGE.warned(
            subject,
            "memory is in use, by no process that can be seen from here",
            expected=f"at most {gib(limit.value)}",
            observed=gib(used),
            remedy=REMEDY,
            evidence=(limit.ref,),
        )
    if isinstance(gpu.processes, Unknown):
        return gpu.processes
    return "no processes"


def _counts(process: GpuProcess, limits: Thresholds) -> bool:
    return isinstance(process.name, Unknown) or process.name.rpartition("/")[2] not in limits.display_processes.value


def _describe(process: GpuProcess) -> str:
    name = process.name if known(process.name) else "process"
    memory = f", {gib(process.memory_bytes)}" if known(process.memory_bytes) else ""
    return f"{name} (pid {process.pid}{memory})"
