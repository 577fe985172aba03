"""Memory size, VBIOS, firmware, InfoROM and confidential computing.

Source: awsome-distributed-training and facebookresearch/gcm (one VBIOS per node); NVIDIA DCGM software tests
(InfoROM); NVIDIA confidential computing guide (peer traffic and copies to the host are encrypted); the
catalogue (memory).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from probes.base.record import EvidenceRef, Unknown, known
from probes.base.units import gib
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, Judged, fold_names, gpus_of, judge_each

MEMORY = Judge(
    check_id="gpu-memory-size",
    why="A model that fits the other GPUs does not fit this one, and the whole job ends.",
)
VBIOS = Judge(
    check_id="vbios",
    why="GPUs with different VBIOS may differ in clocks, power and known faults; all ranks wait for the slowest.",
)
FIRMWARE = Judge(
    check_id="gpu-firmware",
    why="The firmware is a part of the driver: another version means that two drivers are mixed.",
)
INFOROM = Judge(
    check_id="inforom",
    why="The InfoROM holds the board's limits and error records; a damaged one is a failing board.",
)
CONFIDENTIAL = Judge(
    check_id="confidential-compute",
    why="Copies between GPU and host are encrypted, and GPUs do not reach each other directly.",
)


def gpu_memory_size(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(MEMORY, evidence)
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
                    text="Ask for whether this is a part of a GPU; a whole one has lost memory and needs service."
                ),
                evidence=(EvidenceRef(source="catalogue", key=row.id, detail=row.source),),
            )
        return gib(size)

    yield from judge_each(MEMORY, gpus, judge, what="the memory size", good="every GPU shows its full memory")


def _largest(gpus: tuple[Gpu, ...]) -> dict[str, int]:
    """The largest memory of each model; slices of a shared GPU are no measure of each other."""
    sizes: dict[str, int] = {}
    for gpu in gpus:
        if known(gpu.name) and known(gpu.memory_bytes) and gpu.virtualization != "vgpu":
            sizes[gpu.name] = max(gpu.memory_bytes, sizes.get(gpu.name, 0))
    return sizes


def vbios(evidence: Evidence) -> Iterator[Finding]:
    yield from _alike(
        VBIOS,
        evidence,
        lambda gpu: gpu.vbios_version,
        "VBIOS",
        "Flash the GPUs with the vendor's tool to one version.",
    )


def gpu_firmware(evidence: Evidence) -> Iterator[Finding]:
    yield from _alike(
        FIRMWARE,
        evidence,
        lambda gpu: gpu.gsp_firmware_version,
        "GSP firmware",
        "Install the driver anew and restart the machine.",
    )


def _alike(
    judge: Judge, evidence: Evidence, value_of: Callable[[Gpu], str | Unknown], what: str, remedy: str
) -> Iterator[Finding]:
    """One finding for GPUs of one name whose versions differ from what most of them have."""
    gpus = yield from gpus_of(judge, evidence)
    usual = _usual(gpus, value_of)

    def verdict(gpu: Gpu) -> Judged:
        value = value_of(gpu)
        if isinstance(value, Unknown):
            return value
        expected = usual.get(str(gpu.name), value)
        if value == expected:
            return value
        return judge.warned(
            f"GPU{gpu.index}",
            f"another {what} than the other GPUs of its model",
            expected=expected,
            observed=value,
            remedy=Remedy(text=remedy, command="nvidia-smi -q | grep -i version", needs_root=True),
        )

    yield from judge_each(judge, gpus, verdict, what=f"the {what}", good=f"GPUs of one model have one {what}")


def _usual(gpus: tuple[Gpu, ...], value_of: Callable[[Gpu], str | Unknown]) -> dict[str, str]:
    counts: dict[str, Counter[str]] = {}
    for gpu in gpus:
        value = value_of(gpu)
        if known(value):
            counts.setdefault(str(gpu.name), Counter())[value] += 1
    return {
        name: max(versions, key=lambda version: (versions[version], version))
        for name, versions in counts.items()
    }


def inforom(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(INFOROM, evidence)

    def judge(gpu: Gpu) -> Judged:
        if isinstance(gpu.inforom_valid, Unknown):
            return gpu.inforom_valid
        if gpu.inforom_valid:
            return "valid"
        return INFOROM.failed(
            f"GPU{gpu.index}",
            "the InfoROM is damaged",
            expected="valid",
            observed="checksum wrong",
            remedy=Remedy(
                text="Have the board replaced; its warranty process starts with this message.",
                command="nvidia-bug-report.sh",
            ),
        )

    yield from judge_each(INFOROM, gpus, judge, what="the InfoROM's checksum", good="the InfoROM is valid")


def confidential_compute(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(CONFIDENTIAL, evidence)
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
