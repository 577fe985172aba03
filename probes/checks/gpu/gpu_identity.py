"""Check memory size, VBIOS, firmware, InfoROM and confidential computing.

Source: awsome-distributed-training and facebookresearch/gcm (one VBIOS per node); NVIDIA DCGM software tests
(InfoROM); NVIDIA confidential computing guide (peer traffic and copies to the host are encrypted); the
catalogue (memory).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from probes.base.record import EvidenceRef, Unknown, known
from probes.base.units import gib
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, Judged, fold_names, judge_each, on_gpus

MEMORY = Judge(
    check_id="gpu-memory-size",
    why="A model that fits the other GPUs does not fit this one, and the whole job ends.",
)
CONFIDENTIAL = Judge(
    check_id="confidential-compute",
    why="Copies between GPU and host are encrypted, and GPUs do not reach each other directly.",
)


@on_gpus(MEMORY)
def gpu_memory_size(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterable[Finding]:
    limits = evidence.thresholds
    most = _largest(gpus)

    def judge(gpu: Gpu) -> Judged:
        size = gpu.memory_bytes
        if isinstance(size, Unknown):
            return size
        row = evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None
        peer = most.get(str(gpu.name), size)
        if size < peer * limits.gpu_memory_peer_fraction.value:
            return MEMORY.failed(
                f"GPU{gpu.index}",
                "less memory than the other GPUs of its model",
                expected=gib(peer),
                observed=gib(size),
                remedy=Remedy(text="Restart the machine; if memory is still missing, have the GPU replaced."),
                evidence=(limits.gpu_memory_peer_fraction.ref,),
            )
        if (
            row is not None
            and size < row.memory_bytes * limits.gpu_memory_full_fraction.value
            and gpu.virtualization != "vgpu"
        ):
            return MEMORY.warned(
                f"GPU{gpu.index}",
                "less memory than this model has",
                expected=gib(row.memory_bytes),
                observed=gib(size),
                remedy=Remedy(
                    text="Ask for whether this is a part of a GPU; a whole one has lost memory and needs "
                    "service."
                ),
                evidence=(EvidenceRef(source="catalogue", key=row.id, detail=row.source),),
            )
        return gib(size)

    return judge_each(MEMORY, gpus, judge, what="the memory size", good="every GPU shows its full memory")


def _largest(gpus: tuple[Gpu, ...]) -> dict[str, int]:
    """Return the largest memory of each model. Slices of a shared GPU are not comparable and left out."""
    sizes: dict[str, int] = {}
    for gpu in gpus:
        if known(gpu.name) and known(gpu.memory_bytes) and gpu.virtualization != "vgpu":
            sizes[gpu.name] = max(gpu.memory_bytes, sizes.get(gpu.name, 0))
    return sizes


@on_gpus(CONFIDENTIAL)
def confidential_compute(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    on = [gpu for gpu in gpus if gpu.confidential_compute is True]
    if on:
        yield CONFIDENTIAL.warned(
            fold_names([f"GPU{gpu.index}" for gpu in on]) if len(on) < len(gpus) else HOST,
            "confidential computing is on",
            expected="off, unless it is wanted",
            observed="on",
            remedy=Remedy(
                text="Turn it off where nobody asks for it; the GPU is reset.",
                command="nvidia-smi conf-compute -q",
                needs_root=True,
            ),
        )
    rest = [gpu for gpu in gpus if gpu.confidential_compute is not True]
    yield from judge_each(
        CONFIDENTIAL,
        rest,
        lambda gpu: gpu.confidential_compute if isinstance(gpu.confidential_compute, Unknown) else "off",
        what="the state of confidential computing",
        good="confidential computing is off",
    )
