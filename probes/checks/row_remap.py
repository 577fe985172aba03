"""Memory rows that wait for their replacement, or could not be replaced.

From Ampere on the GPU replaces bad memory rows at its next reset. A pending row costs no running job; a
failed one means that the spare rows are used up. Source: NVIDIA GPU memory error management guide;
leptonai/gpud.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, gpus_of, judge_each, smi_name

JUDGE = Judge(
    check_id="row-remap",
    why="A bad row that is still in use may end the job, and where it could not be replaced, errors will recur.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    yield from judge_each(
        JUDGE, gpus, _judge, what="the state of row remapping", good="no memory row waits for replacement"
    )


def _judge(gpu: Gpu) -> Judged:
    pending, failed = gpu.row_remap_pending, gpu.row_remap_failed
    if failed is True:
        return JUDGE.failed(
            f"GPU{gpu.index}",
            "a bad memory row could not be replaced",
            expected="no failed row remapping",
            observed="row remapping failed",
            remedy=Remedy(text="Take this GPU out of service and have it replaced.", reversible=False),
        )
    if pending is True:
        return JUDGE.warned(
            f"GPU{gpu.index}",
            "a bad memory row waits for a GPU reset",
            expected="no pending row remapping",
            observed="row remapping pending",
            remedy=Remedy(
                text="Reset the GPU when no job uses it; the row is replaced then.",
                command=f"nvidia-smi --gpu-reset -i {smi_name(gpu)}",
                needs_root=True,
            ),
        )
    for value in (failed, pending):
        if isinstance(value, Unknown):
            return value
    return "none pending, none failed"
