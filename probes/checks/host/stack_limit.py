"""Check that the stack limit suits the installed NCCL.

With an unlimited stack the C library gives threads 2 MiB each, and NCCL before 2.28 overflows that at start.
Source: NCCL user guide, troubleshooting.
"""

from __future__ import annotations

from probes.base.record import Unknown
from probes.base.versions import at_least
from probes.facts import Gpu
from probes.judging.environment_values import nccl_version
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, on_gpus

JUDGE = Judge(
    check_id="stack-limit",
    why="With an unlimited stack threads get 2 MiB, and older NCCL versions crash while they connect.",
)


@on_gpus(JUDGE)
def check(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    limits, limit, fixed = (
        evidence.facts.limits,
        evidence.facts.limits.stack_bytes,
        evidence.thresholds.nccl_stack_fixed,
    )
    if isinstance(limit, Unknown):
        return JUDGE.undetermined(HOST, limit, what="the stack limit", evidence=limits.evidence)
    if limit != "unlimited":
        return JUDGE.passed(
            HOST, "the stack is limited", observed=f"{limit // 1024} KiB", evidence=limits.evidence
        )
    nccl = nccl_version(evidence.facts)
    if nccl is None:
        return JUDGE.skipped(HOST, "the stack is unlimited, and no NCCL was found that could mind")
    fine = nccl if isinstance(nccl, Unknown) else at_least(nccl, fixed.value)
    if isinstance(fine, Unknown):
        return JUDGE.undetermined(
            HOST, fine, what="the stack is unlimited, and the NCCL version", evidence=limits.evidence
        )
    if fine:
        return JUDGE.passed(
            HOST,
            "the stack is unlimited, which this NCCL accepts",
            observed=f"NCCL {nccl}",
            evidence=(*limits.evidence, fixed.ref),
        )
    return JUDGE.warned(
        HOST,
        "the stack is unlimited, which this NCCL does not survive on large machines",
        expected=f"a limit such as 8192 KiB, or NCCL {fixed.value}",
        observed=f"unlimited, NCCL {nccl}",
        remedy=Remedy(text="Set a limit in the shell that starts training.", command="ulimit -s 8192"),
        evidence=(*limits.evidence, fixed.ref),
    )
