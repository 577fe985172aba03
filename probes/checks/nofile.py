"""How many files may this process open?

Every connection, shared-memory segment and data file is one; large jobs open tens of thousands. Source: NCCL
user guide, troubleshooting; SkyPilot documentation. The figures are data rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="nofile",
    why='Large jobs and data loaders end with "too many open files", often hours after the start.',
)


def check(evidence: Evidence) -> Iterator[Finding]:
    limits, limit = evidence.facts.limits, evidence.facts.limits.nofile
    minimum, recommended = evidence.thresholds.nofile_minimum, evidence.thresholds.nofile_recommended
    if isinstance(limit, Unknown):
        yield JUDGE.undetermined(HOST, limit, what="the limit of open files", evidence=limits.evidence)
    elif limit == "unlimited" or limit >= minimum.value:
        yield JUDGE.passed(HOST, "enough files may be open", observed=str(limit), evidence=limits.evidence)
    else:
        yield JUDGE.warned(
            HOST,
            "the limit of open files is low",
            expected=f"at least {minimum.value:.0f}",
            observed=str(limit),
            remedy=Remedy(
                text="Raise the soft limit in the shell that starts training; where the hard limit forbids it, in limits.d.",
                command=f"ulimit -n {recommended.value:.0f}",
            ),
            evidence=(*limits.evidence, minimum.ref, recommended.ref),
        )
