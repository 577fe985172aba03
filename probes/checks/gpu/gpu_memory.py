"""Check size and ECC of GPU memory, and confidential computing, which encrypts copies to and from the GPU.

Source: NVIDIA GPU memory error management guide; azurehpc-health-checks; facebookresearch/gcm; NVIDIA
confidential computing guide (peer traffic and copies to the host are encrypted); the catalogue (memory).
"""

from collections.abc import Iterable, Iterator

from probes.base.grouping import largest
from probes.base.record import EvidenceRef, Reason, Unknown, known
from probes.base.units import gib
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, Judged, each_gpu, fold_names, judge_each, on_gpus, smi_name

MODE = Judge(
    check_id="ecc-mode",
    why="Without ECC, a flipped bit in memory changes gradients and weights without any error.",
)

MEMORY = Judge(
    check_id="gpu-memory-size",
    why="A model that fits the other GPUs does not fit this one, and the whole job ends.",
)
CONFIDENTIAL = Judge(
    check_id="confidential-compute",
    why="Copies between GPU and host are encrypted, and GPUs do not reach each other directly.",
)


@each_gpu(MODE, what="the ECC mode", good="ECC is on")
def ecc_mode(gpu: Gpu, evidence: Evidence) -> Judged:
    enabled, pending = gpu.ecc_enabled, gpu.memory_health.ecc_pending
    if isinstance(enabled, Unknown):
        return enabled
    if known(pending) and pending != enabled:
        return MODE.warned(
            f"GPU{gpu.index}",
            "the ECC mode changes with the next reset",
            expected="the configured mode is active",
            observed=f"{_word(enabled)} now, {_word(pending)} after a reset",
            remedy=Remedy(
                text="Reset the GPU when no job uses it, or restart the machine.",
                command=f"nvidia-smi --gpu-reset -i {smi_name(gpu)}",
                needs_root=True,
            ),
        )
    if enabled:
        return "on"
    boards = evidence.thresholds.ecc_off_by_default.value
    if known(gpu.name) and any(word in gpu.name.lower() for word in boards):
        return Unknown(Reason.NOT_SUPPORTED, "ECC is off by default on this board")
    return MODE.warned(
        f"GPU{gpu.index}",
        "ECC is off",
        expected="on",
        observed="off",
        remedy=Remedy(
            text="Turn ECC on and reset the GPU.",
            command=f"nvidia-smi -i {smi_name(gpu)} -e 1",
            needs_root=True,
        ),
    )


def _word(enabled: bool) -> str:
    return "on" if enabled else "off"


@on_gpus(MEMORY)
def gpu_memory_size(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterable[Finding]:
    limits, most = evidence.thresholds, _largest(gpus)

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
                    text="Find out whether this is a slice of a GPU. If it is a whole GPU, it has lost "
                    "memory and needs service."
                ),
                evidence=(EvidenceRef(source="catalogue", key=row.id, detail=row.source),),
            )
        return gib(size)

    return judge_each(MEMORY, gpus, judge, what="the memory size", good="no GPU shows too little memory")


def _largest(gpus: tuple[Gpu, ...]) -> dict[str, int]:
    """Return the largest memory of each model.

    Slices of a shared GPU are not comparable, so they are left out.
    """
    return largest(
        (gpu.name, gpu.memory_bytes)
        for gpu in gpus
        if known(gpu.name) and known(gpu.memory_bytes) and gpu.virtualization != "vgpu"
    )


@on_gpus(CONFIDENTIAL)
def confidential_compute(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterator[Finding]:
    on = [gpu for gpu in gpus if gpu.confidential_compute is True]
    if on:
        yield CONFIDENTIAL.warned(
            fold_names([f"GPU{gpu.index}" for gpu in on]) if len(on) < len(gpus) else HOST,
            "confidential computing is on",
            expected="off, unless the operator needs confidential computing",
            observed="on",
            remedy=Remedy(
                text="Turn it off if nobody needs it, which resets the GPU. The command shows the state.",
                command="nvidia-smi conf-compute -q",
                needs_root=True,
            ),
        )
    yield from judge_each(
        CONFIDENTIAL,
        [gpu for gpu in gpus if gpu not in on],
        lambda gpu: gpu.confidential_compute if isinstance(gpu.confidential_compute, Unknown) else "off",
        what="the state of confidential computing",
        good="confidential computing is off",
    )
