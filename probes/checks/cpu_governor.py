"""Do the CPUs run at full clock?

Another governor than `performance` raises the clock late for the short bursts of data loaders and kernel
launches. Machines without frequency scaling, as most virtual ones, have no governor. Source:
facebookresearch/gcm, processor checks.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Reason, Unknown
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="cpu-governor",
    why="Kernel launches and data loading come in short bursts, which a slow CPU clock delays.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    cpu = evidence.facts.cpu
    governor = cpu.governor
    if isinstance(governor, Unknown):
        if governor.reason in (Reason.TOOL_MISSING, Reason.NOT_SUPPORTED):
            yield JUDGE.skipped(HOST, "the kernel scales no CPU frequency here, as in most virtual machines")
        else:
            yield JUDGE.undetermined(HOST, governor, what="the CPU frequency governor", evidence=cpu.evidence)
    elif governor == "performance":
        yield JUDGE.passed(HOST, "the CPU governor is performance", observed=governor, evidence=cpu.evidence)
    else:
        yield JUDGE.warned(
            HOST,
            "the CPU governor saves power",
            expected="performance",
            observed=governor,
            remedy=Remedy(
                text="Set the governor, and keep it with a tuned profile.",
                command="cpupower frequency-set -g performance",
                needs_root=True,
            ),
            evidence=cpu.evidence,
        )
