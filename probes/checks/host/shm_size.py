"""Check that /dev/shm is large enough.

Data loader workers and NCCL pass data between processes through it; containers give it 64 MiB by default.
Source: NCCL user guide, troubleshooting; AMD-AGI/Primus. The limits come from the threshold table.
"""

from __future__ import annotations

from probes.base.record import Unknown, known
from probes.base.units import gib
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="shm-size",
    why="When /dev/shm is full, data loader workers die with a bus error and NCCL fails to start.",
)


def check(evidence: Evidence) -> Finding:
    limits, size = evidence.facts.limits, evidence.facts.limits.shm_bytes
    minimum, recommended = evidence.thresholds.shm_minimum_bytes, evidence.thresholds.shm_recommended_bytes
    with_gpus = known(evidence.facts.gpus) and len(evidence.facts.gpus) > 0
    wanted = recommended if with_gpus else minimum
    if isinstance(size, Unknown):
        return JUDGE.undetermined(HOST, size, what="the size of /dev/shm", evidence=limits.evidence)
    if size < wanted.value:
        row = minimum if size < minimum.value else wanted
        in_container = isinstance(evidence.facts.container.runtime, str)
        return JUDGE.problem(
            HOST,
            "shared memory (/dev/shm) is small",
            fails=size < minimum.value and with_gpus,
            expected=f"at least {gib(row.value)}",
            observed=gib(size),
            remedy=_in_container(row.value) if in_container else _on_host(row.value),
            evidence=(*limits.evidence, row.ref),
        )
    if known(limits.shm_free_bytes) and limits.shm_free_bytes < minimum.value:
        return JUDGE.warned(
            HOST,
            "shared memory (/dev/shm) is nearly full",
            expected=f"at least {gib(minimum.value)} free",
            observed=f"{gib(limits.shm_free_bytes)} of {gib(size)} free",
            remedy=Remedy(
                text="Remove what ended jobs left there, when nobody uses it.",
                command="ls -lS /dev/shm | head",
                reversible=False,
            ),
            evidence=(*limits.evidence, minimum.ref),
        )
    return JUDGE.passed(
        HOST, "shared memory (/dev/shm) is large enough", observed=gib(size), evidence=limits.evidence
    )


def _in_container(size_bytes: float) -> Remedy:
    return Remedy(
        text=f"Start the container with --shm-size={size_bytes / 2**30:.0f}g, or with an emptyDir of medium "
        "Memory in Kubernetes."
    )


def _on_host(size_bytes: float) -> Remedy:
    return Remedy(
        text="Mount it larger, and keep that in /etc/fstab.",
        command=f"mount -o remount,size={size_bytes / 2**30:.0f}G /dev/shm",
        needs_root=True,
    )
