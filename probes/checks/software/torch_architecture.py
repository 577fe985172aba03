"""Check that torch's CUDA has code for these GPUs.

A build from before the GPU was made, or from after its support ended, imports well and fails at the first
kernel ("no kernel image is available"). Source: CUDA Toolkit release notes; the versions are data rows.
"""

from __future__ import annotations

from probes.base.record import Reason, Unknown
from probes.base.versions import at_least, numbers_of
from probes.catalogue.thresholds import Thresholds
from probes.facts import Gpu
from probes.judging.findings import Evidence, Findings, Judge, Remedy
from probes.judging.reporting import HOST, Judged, judge_each, on_gpus

JUDGE = Judge(
    check_id="torch-architecture",
    why='Torch imports well and the first kernel fails: "no kernel image is available for execution on the '
    'device".',
)


@on_gpus(JUDGE)
def check(gpus: tuple[Gpu, ...], evidence: Evidence) -> Findings:
    training = evidence.facts.training
    cuda = training.torch_cuda_version
    if isinstance(cuda, Unknown):
        if training.path is None or training.torch_version is None:
            return JUDGE.skipped(HOST, "there is no torch, see torch-cuda")
        return JUDGE.undetermined(
            HOST, cuda, what="the CUDA version that torch was built for", evidence=training.evidence
        )
    if cuda is None:
        return JUDGE.skipped(HOST, "there is no CUDA build of torch, see torch-cuda")
    return judge_each(
        JUDGE,
        gpus,
        lambda gpu: _judge(gpu, cuda, evidence.thresholds),
        what="the compute capability",
        good="torch's CUDA knows these GPUs",
    )


def _judge(gpu: Gpu, cuda: str, limits: Thresholds) -> Judged:
    capability = gpu.compute_capability
    if isinstance(capability, Unknown):
        return capability
    row = limits.cuda_architecture(capability)
    if row is None:
        return Unknown(Reason.NOT_RECORDED, f"no row for compute capability {capability}")
    new_enough = at_least(cuda, row.cuda_first)
    if isinstance(new_enough, Unknown):
        return new_enough
    too_new = row.cuda_last is not None and numbers_of(cuda)[0] > numbers_of(row.cuda_last)[0]
    if new_enough and not too_new:
        return f"CUDA {cuda} for compute capability {capability}"
    span = (
        f"CUDA {row.cuda_first} or newer"
        if row.cuda_last is None
        else f"CUDA {row.cuda_first} to {row.cuda_last}"
    )
    return JUDGE.failed(
        f"GPU{gpu.index}",
        f"torch's CUDA has no code for compute capability {capability}",
        expected=span,
        observed=f"CUDA {cuda}",
        remedy=Remedy(text=f"Install a torch build for {span}."),
        evidence=(row.ref,),
    )
