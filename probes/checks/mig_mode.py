"""Is a GPU partitioned (MIG)?

Before NCCL 2.31 a process uses one MIG instance only and instances cannot talk to each other. Source:
NVIDIA/nccl#431, #1716.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, gpus_of, judge_each, smi_name

JUDGE = Judge(
    check_id="mig-mode",
    why="Instances of a partitioned GPU have no NVLink, and NCCL refuses two ranks on one GPU.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    fixed = evidence.thresholds.nccl_mig_fixed

    def judge(gpu: Gpu) -> Judged:
        if isinstance(gpu.mig_enabled, Unknown):
            return gpu.mig_enabled
        if gpu.mig_pending is True and not gpu.mig_enabled:
            return JUDGE.warned(
                f"GPU{gpu.index}",
                "the GPU is partitioned (MIG) with its next reset",
                expected="off",
                observed="off now, on after a reset",
                remedy=Remedy(
                    text="Take the mode back.",
                    command=f"nvidia-smi -i {smi_name(gpu)} -mig 0",
                    needs_root=True,
                ),
            )
        if not gpu.mig_enabled:
            return "off"
        return JUDGE.warned(
            f"GPU{gpu.index}",
            f"the GPU is partitioned (MIG), which NCCL before {fixed.value} cannot train across",
            expected="off",
            observed="on",
            remedy=Remedy(
                text="Turn MIG off and reset the GPU; its instances and their jobs end.",
                command=f"nvidia-smi -i {smi_name(gpu)} -mig 0",
                needs_root=True,
            ),
            evidence=(fixed.ref,),
        )

    yield from judge_each(JUDGE, gpus, judge, what="the MIG mode", good="no GPU is partitioned")
