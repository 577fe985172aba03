"""Is the stack unlimited with an NCCL that suffers from it?

With an unlimited stack the C library gives threads 2 MiB each, and NCCL before 2.28 overflows that at start.
Source: NCCL user guide, troubleshooting.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown, known
from probes.base.versions import at_least
from probes.facts import MachineFacts
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, gpus_of

JUDGE = Judge(
    check_id="stack-limit",
    why="With an unlimited stack threads get 2 MiB, and older NCCL versions crash while they connect.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    if not (yield from gpus_of(JUDGE, evidence)):
        return
    limits, limit, fixed = (
        evidence.facts.limits,
        evidence.facts.limits.stack_bytes,
        evidence.thresholds.nccl_stack_fixed,
    )
    if isinstance(limit, Unknown):
        yield JUDGE.undetermined(HOST, limit, what="the stack limit", evidence=limits.evidence)
        return
    if limit != "unlimited":
        yield JUDGE.passed(
            HOST, "the stack is limited", observed=f"{limit // 1024} KiB", evidence=limits.evidence
        )
        return
    nccl = _nccl_version(evidence.facts)
    if nccl is None:
        yield JUDGE.skipped(HOST, "the stack is unlimited, and no NCCL was found that could mind")
        return
    fine = nccl if isinstance(nccl, Unknown) else at_least(nccl, fixed.value)
    if isinstance(fine, Unknown):
        yield JUDGE.undetermined(
            HOST, fine, what="the stack is unlimited, and the NCCL version", evidence=limits.evidence
        )
    elif fine:
        yield JUDGE.passed(
            HOST,
            "the stack is unlimited, which this NCCL accepts",
            observed=f"NCCL {nccl}",
            evidence=(*limits.evidence, fixed.ref),
        )
    else:
        yield JUDGE.warned(
            HOST,
            "the stack is unlimited, which this NCCL does not survive on large machines",
            expected=f"a limit such as 8192 KiB, or NCCL {fixed.value}",
            observed=f"unlimited, NCCL {nccl}",
            remedy=Remedy(text="Set a limit in the shell that starts training.", command="ulimit -s 8192"),
            evidence=(*limits.evidence, fixed.ref),
        )


def _nccl_version(facts: MachineFacts) -> str | Unknown | None:
    """The NCCL that torch brings, else the one of the system."""
    brought = facts.training.nccl_version
    if known(brought) and brought is not None:
        return brought
    system = facts.software.nccl_version
    return brought if system is None else system
