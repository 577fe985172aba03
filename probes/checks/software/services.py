"""Check that the services of a GPU server run.

Only what is installed is judged: a service that failed did not do what somebody installed it for. Source:
systemctl(1); NVIDIA driver and DCGM documentation.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from probes.base.record import Reason, Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, on_gpus

JUDGE = Judge(
    check_id="services",
    why="What the service looks after (drivers, memory exchange, the batch system) does not work.",
)
_BAD = ("failed",)


@on_gpus(JUDGE)
def check(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    software = evidence.facts.software
    services = software.services
    if isinstance(services, Unknown):
        if services.reason is Reason.NOT_SUPPORTED:
            yield JUDGE.skipped(HOST, f"not supported here: {services.detail or 'services'}")
        else:
            yield JUDGE.undetermined(HOST, services, what="the services", evidence=software.evidence)
        return
    failed = [service for service in services if service.value in _BAD]
    for service in failed:
        yield JUDGE.warned(
            service.name,
            "the service failed",
            expected="active, or not installed",
            observed=service.value,
            remedy=Remedy(
                text="Read why, then start it.",
                command=f"journalctl -b -u {shlex.quote(service.name)} | tail -n 30",
                needs_root=True,
            ),
            evidence=software.evidence,
        )
    if not failed:
        observed = ", ".join(f"{service.name} {service.value}" for service in services)
        yield JUDGE.passed(HOST, "no installed service failed", observed=observed, evidence=software.evidence)
