"""Check that the Fabric Manager runs on a machine with NVSwitch.

It sets up the switches; without it no new job gets NVLink. In a virtual machine or container it usually runs
outside, so that only a service that failed right here counts. Source: NVIDIA Fabric Manager user guide;
NVIDIA/NVSentinel#883 (a dead service unnoticed for two weeks).
"""

from __future__ import annotations

from probes.base.record import Unknown
from probes.facts import Gpu, MachineFacts
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, is_behind_switch, on_gpus

JUDGE = Judge(
    check_id="fabric-manager",
    why="Without the Fabric Manager the NVSwitches are not set up: CUDA does not start, or NVLink is lost "
    "at the next reset.",
)

START = Remedy(
    text="Install the Fabric Manager of the driver's exact version, and start it.",
    command="systemctl enable --now nvidia-fabricmanager",
    needs_root=True,
)


@on_gpus(JUDGE)
def check(gpus: tuple[Gpu, ...], evidence: Evidence) -> Finding:
    facts, service = evidence.facts, evidence.facts.software.fabric_manager
    refs = facts.software.evidence
    if not any(is_behind_switch(gpu) for gpu in gpus):
        return JUDGE.skipped(HOST, "no NVSwitch was seen")
    if service == "active":
        return JUDGE.passed(HOST, "the Fabric Manager runs", observed=service, evidence=refs)
    if isinstance(service, Unknown):
        return JUDGE.undetermined(HOST, service, what="the state of the Fabric Manager", evidence=refs)
    if service != "failed" and _may_run_outside(facts):
        return JUDGE.skipped(
            HOST, "in a virtual machine or container the Fabric Manager runs outside", evidence=refs
        )
    if all(gpu.fabric_state == "completed" for gpu in gpus):
        if service is None:
            return JUDGE.passed(
                HOST, "the fabric is set up, by a manager that is not on this machine", evidence=refs
            )
        return JUDGE.warned(
            HOST,
            "the fabric is set up, and its manager has stopped",
            expected="active",
            observed=service,
            remedy=START,
            evidence=refs,
        )
    return JUDGE.failed(
        HOST,
        "the Fabric Manager does not run",
        expected="active",
        observed=service or "not installed",
        remedy=START,
        evidence=refs,
    )


def _may_run_outside(facts: MachineFacts) -> bool:
    inside = (facts.container.runtime, facts.container.virtualization)
    return any(isinstance(value, str) for value in inside)
