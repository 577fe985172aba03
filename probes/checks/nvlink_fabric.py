"""Has every GPU joined the NVLink fabric?

On machines with NVSwitch a GPU can use NVLink only after the fabric has been set up for it; until then CUDA
fails with error 802 (system not yet initialized). Source: NVIDIA Fabric Manager user guide; leptonai/gpud,
fabric-manager.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Reason, Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, gpus_of, judge_each

JUDGE = Judge(
    check_id="nvlink-fabric",
    why="CUDA refuses to start on a GPU that has not joined the fabric (error 802), and the collective hangs for the others.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    yield from judge_each(
        JUDGE, gpus, _judge, what="the fabric state", good="every GPU has joined the NVLink fabric"
    )


def _judge(gpu: Gpu) -> Judged:
    state = gpu.fabric_state
    if isinstance(state, Unknown):
        return state
    if state == "not supported":
        return Unknown(Reason.NOT_SUPPORTED, "this GPU reports no fabric state")
    if state == "completed":
        return state
    return JUDGE.failed(
        f"GPU{gpu.index}",
        "the GPU has not joined the NVLink fabric",
        expected="completed",
        observed=state,
        remedy=Remedy(
            text="Start the Fabric Manager of the driver's exact version and read its log; reset the GPUs when it still fails.",
            command="systemctl restart nvidia-fabricmanager && journalctl -u nvidia-fabricmanager -n 50",
            needs_root=True,
        ),
    )
