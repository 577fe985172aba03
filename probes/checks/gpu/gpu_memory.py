"""Check ECC mode, corrected errors, on-chip memory, spare rows and retired pages.

Before Ampere a GPU retires bad memory pages, since then it remaps rows; each query is meaningless on the
other kind. Source: NVIDIA GPU memory error management guide; NVIDIA RMA policy; azurehpc-health-checks;
facebookresearch/gcm.
"""

from __future__ import annotations

from probes.base.record import Reason, Unknown, known
from probes.facts import Gpu
from probes.judging.findings import Evidence, Judge, Remedy
from probes.judging.reporting import Judged, each_gpu, smi_name

MODE = Judge(
    check_id="ecc-mode",
    why="Without ECC a flipped bit in memory changes gradients and weights, and nobody notices.",
)

_CONSUMER_DEFAULT = Unknown(Reason.NOT_SUPPORTED, "ECC is off by default on this board")


def _reset(gpu: Gpu) -> Remedy:
    return Remedy(
        text="Reset the GPU when no job uses it, or restart the machine.",
        command=f"nvidia-smi --gpu-reset -i {smi_name(gpu)}",
        needs_root=True,
    )


@each_gpu(MODE, what="the ECC mode", good="ECC is on")
def ecc_mode(gpu: Gpu, evidence: Evidence) -> Judged:
    boards = evidence.thresholds.ecc_off_by_default.value
    enabled, pending = gpu.ecc_enabled, gpu.memory_health.ecc_pending
    if isinstance(enabled, Unknown):
        return enabled
    if known(pending) and pending != enabled:
        return MODE.warned(
            f"GPU{gpu.index}",
            "the ECC mode changes with the next reset",
            expected="the mode that is wanted, in force",
            observed=f"{_word(enabled)} now, {_word(pending)} after a reset",
            remedy=_reset(gpu),
        )
    if enabled:
        return "on"
    if known(gpu.name) and any(word in gpu.name.lower() for word in boards):
        return _CONSUMER_DEFAULT
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
