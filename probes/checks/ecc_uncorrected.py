"""Uncorrected memory errors since the driver was loaded.

Any uncorrected error has ended or corrupted a computation. Source: facebookresearch/gcm and
oracle-quickstart/oci-hpc, which both allow none.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, gpus_of, judge_each, smi_name

JUDGE = Judge(
    check_id="ecc-uncorrected",
    why="An uncorrected memory error ends the job on that GPU; the next one ends the next job.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    yield from judge_each(
        JUDGE, gpus, _judge, what="the count of uncorrected errors", good="no uncorrected memory errors"
    )


def _judge(gpu: Gpu) -> Judged:
    errors = gpu.ecc_uncorrected_volatile
    if isinstance(errors, Unknown):
        return errors
    if errors == 0:
        return "0 uncorrected errors"
    return JUDGE.failed(
        f"GPU{gpu.index}",
        "uncorrected memory errors since the driver was loaded",
        expected="0",
        observed=str(errors),
        remedy=Remedy(
            text="End the jobs on this GPU, reset it, and run a memory test; replace it when the errors come back.",
            command=f"nvidia-smi --gpu-reset -i {smi_name(gpu)}",
            needs_root=True,
            reversible=False,
        ),
    )
