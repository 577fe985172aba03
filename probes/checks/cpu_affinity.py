"""May this process use all CPUs?

An affinity mask or cgroup that was meant for a shell is inherited by every rank and data loader. Source:
AMD-AGI/Primus (collectives more than thirty times slower in a step with too few cores).
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="cpu-affinity",
    why="Ranks, data loaders and NCCL's proxy threads share the CPUs that this process may use; too few starve the GPUs.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    cpu = evidence.facts.cpu
    allowed, total = cpu.allowed_cpus, cpu.logical_cpus
    if isinstance(allowed, Unknown):
        yield JUDGE.undetermined(
            HOST, allowed, what="the CPUs that this process may use", evidence=cpu.evidence
        )
    elif isinstance(total, Unknown):
        yield JUDGE.undetermined(HOST, total, what="the number of CPUs", evidence=cpu.evidence)
    elif allowed >= total:
        yield JUDGE.passed(HOST, "all CPUs may be used", observed=f"{total} CPUs", evidence=cpu.evidence)
    else:
        yield JUDGE.warned(
            HOST,
            "this process may use only part of the CPUs",
            expected=f"{total} CPUs",
            observed=f"{allowed} CPUs",
            remedy=Remedy(
                text="Unless the job was given only these, ask for more (srun --cpus-per-task, docker --cpuset-cpus).",
                command="taskset -cp $$",
            ),
            evidence=cpu.evidence,
        )
