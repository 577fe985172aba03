"""Does a GPU ask for a reset?

The driver sums up what it knows of a GPU in one word: nothing to do, reset the GPU, restart the node, drain.
It names GPUs that other health tools still call healthy. Source: NVML reference,
NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; NVIDIA/DCGM#263.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, gpus_of, judge_each, smi_name

JUDGE = Judge(
    check_id="gpu-recovery-action",
    why="A GPU that waits for a reset fails the next program, or hangs it, whatever its other counters say.",
)

_RESTARTS = ("node reboot", "system reboot", "bus reset")


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    yield from judge_each(JUDGE, gpus, _judge, what="the recovery action", good="no GPU asks for a reset")


def _judge(gpu: Gpu) -> Judged:
    action = gpu.recovery_action
    if isinstance(action, Unknown):
        return action
    if action == "none":
        return "none"
    return JUDGE.failed(
        f"GPU{gpu.index}",
        f"the driver asks for: {action}",
        expected="none",
        observed=action,
        remedy=_remedy(gpu, action),
    )


def _remedy(gpu: Gpu, action: str) -> Remedy:
    if action in _RESTARTS:
        return Remedy(
            text="End all jobs and restart the machine.", command="reboot", needs_root=True, reversible=False
        )
    if action == "recover imex domain":
        return Remedy(
            text="Restart the IMEX service on every node of the domain.",
            command="systemctl restart nvidia-imex",
            needs_root=True,
        )
    return Remedy(
        text="End all jobs on this GPU and on those that it has NVLinks to, then reset it.",
        command=f"nvidia-smi --gpu-reset -i {smi_name(gpu)}",
        needs_root=True,
        reversible=False,
    )
