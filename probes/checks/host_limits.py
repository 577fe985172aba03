"""May many processes run, and many connections be open and wait?

Large jobs connect every rank with many others. Source: NCCL user guide, troubleshooting; AMD-AGI/Primus; the
figures are data rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

PROCESSES = Judge(
    check_id="process-limit",
    why="Loaders and libraries cannot start their threads: the job ends with EAGAIN.",
)
PORTS = Judge(
    check_id="port-range",
    why="Every connection takes a port; when they run out, ranks of large jobs cannot connect (EADDRNOTAVAIL).",
)
BACKLOG = Judge(
    check_id="somaxconn",
    why="When thousands of ranks connect at once, those beyond the queue are refused and retry for minutes.",
)


def process_limit(evidence: Evidence) -> Iterator[Finding]:
    limits, minimum = evidence.facts.limits, evidence.thresholds.process_limit_minimum
    limit = limits.processes
    if isinstance(limit, Unknown):
        yield PROCESSES.undetermined(HOST, limit, what="the limit of processes", evidence=limits.evidence)
    elif limit == "unlimited" or limit >= minimum.value:
        yield PROCESSES.passed(
            HOST, "enough processes may run", observed=str(limit), evidence=limits.evidence
        )
    else:
        yield PROCESSES.warned(
            HOST,
            "the limit of processes is low",
            expected=f"at least {minimum.value:.0f}",
            observed=str(limit),
            remedy=Remedy(
                text="Raise the soft limit in the shell that starts training; where the hard limit forbids it, in limits.d.",
                command=f"ulimit -u {minimum.value:.0f}",
            ),
            evidence=(*limits.evidence, minimum.ref),
        )


def port_range(evidence: Evidence) -> Iterator[Finding]:
    kernel, minimum = evidence.facts.kernel, evidence.thresholds.port_range_minimum
    first, last = kernel.local_port_first, kernel.local_port_last
    if isinstance(first, Unknown) or isinstance(last, Unknown):
        unknown = next(value for value in (first, last) if isinstance(value, Unknown))
        yield PORTS.undetermined(HOST, unknown, what="the range of local ports", evidence=kernel.evidence)
    elif last - first + 1 >= minimum.value:
        yield PORTS.passed(
            HOST, "there are enough local ports", observed=f"{first} to {last}", evidence=kernel.evidence
        )
    else:
        yield PORTS.warned(
            HOST,
            "the range of local ports is narrow",
            expected=f"at least {minimum.value:.0f} ports",
            observed=f"{first} to {last}",
            remedy=Remedy(
                text="Widen it, unless a firewall lets only this range through; then widen both.",
                command="sysctl -w net.ipv4.ip_local_port_range='1024 65535'",
                needs_root=True,
            ),
            evidence=(*kernel.evidence, minimum.ref),
        )


def somaxconn(evidence: Evidence) -> Iterator[Finding]:
    kernel, minimum = evidence.facts.kernel, evidence.thresholds.somaxconn_minimum
    number = kernel.somaxconn
    if isinstance(number, Unknown):
        yield BACKLOG.undetermined(HOST, number, what="the queue of connections", evidence=kernel.evidence)
    elif number >= minimum.value:
        yield BACKLOG.passed(
            HOST, "enough connections may wait", observed=str(number), evidence=kernel.evidence
        )
    else:
        yield BACKLOG.warned(
            HOST,
            "few connections may wait to be accepted",
            expected=f"at least {minimum.value:.0f}",
            observed=str(number),
            remedy=Remedy(
                text="Raise it.", command=f"sysctl -w net.core.somaxconn={minimum.value:.0f}", needs_root=True
            ),
            evidence=(*kernel.evidence, minimum.ref),
        )
