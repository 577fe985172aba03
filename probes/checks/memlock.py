"""May this process lock enough memory for RDMA?

RDMA registers its buffers, and registered memory is locked. Source: NCCL user guide, troubleshooting; the
figures are data rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.base.units import gib
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, nics_of

JUDGE = Judge(
    check_id="memlock",
    why="With a low limit, registering buffers fails (ENOMEM) and NCCL over InfiniBand or RoCE does not start.",
)

REMEDY = Remedy(
    text="Raise the limit for the user, for the batch system (LimitMEMLOCK=infinity) or the container (--ulimit memlock=-1).",
    command="printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' > /etc/security/limits.d/90-memlock.conf",
    needs_root=True,
)


def check(evidence: Evidence) -> Iterator[Finding]:
    if not (yield from nics_of(JUDGE, evidence)):
        return
    limits, limit = evidence.facts.limits, evidence.facts.limits.memlock_bytes
    minimum, recommended = (
        evidence.thresholds.memlock_minimum_bytes,
        evidence.thresholds.memlock_recommended_bytes,
    )
    if not training_rails(evidence.facts).active:
        yield JUDGE.skipped(HOST, "no RDMA port is up, see nic-state")
    elif isinstance(limit, Unknown):
        yield JUDGE.undetermined(HOST, limit, what="the limit of locked memory", evidence=limits.evidence)
    elif limit == "unlimited" or limit >= recommended.value:
        observed = limit if limit == "unlimited" else gib(limit)
        yield JUDGE.passed(HOST, "locked memory is sufficient", observed=observed, evidence=limits.evidence)
    else:
        row = minimum if limit < minimum.value else recommended
        write = JUDGE.failed if limit < minimum.value else JUDGE.warned
        yield write(
            HOST,
            "the limit of locked memory is low",
            expected=f"unlimited, or at least {gib(row.value)}",
            observed=gib(limit),
            remedy=REMEDY,
            evidence=(*limits.evidence, row.ref),
        )
