"""Check that the NVLinks count no errors.

The counters run since the driver was loaded. A replay repairs a damaged packet and costs little; a recovery
trains the link anew and stalls the collective. A counter at its maximum means that errors occurred for as
long as it could count. Source: NVIDIA/DCGM, health watches of NVLink (recovery errors fail, replays and CRC
errors warn); `nvidia-smi nvlink -e`.
"""

from __future__ import annotations

from probes.base.record import NOT_RECORDED, Reason, Unknown, known
from probes.facts import Gpu, NvLink
from probes.judging.findings import Evidence, Judge, Remedy
from probes.judging.reporting import Judged, each_gpu

JUDGE = Judge(
    check_id="nvlink-errors",
    why="Errors on a link make every collective that crosses it slower, and are how a failing connector or "
    "board begins.",
)

_NAMES = {"replay_errors": "replays", "recovery_errors": "recoveries", "crc_errors": "CRC errors"}
_REMEDY = Remedy(
    text="Reset the GPUs and run a collective under load. Errors that stay when GPUs change places belong "
    "to the slot, so to the baseboard or the bridge; those that move belong to the GPU.",
    command="nvidia-smi nvlink -e",
)


@each_gpu(JUDGE, what="the NVLink error counters", good="no NVLink errors")
def check(gpu: Gpu, evidence: Evidence) -> Judged:
    row = evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None
    full = evidence.thresholds.nvlink_counter_end
    links = gpu.nvlinks
    if row is not None and row.nvlink_count == 0:
        return Unknown(Reason.NOT_SUPPORTED, "this GPU has no NVLink")
    if isinstance(links, Unknown):
        return links
    counted = [link for link in links if any(known(getattr(link, field)) for field in _NAMES)]
    if not counted:
        if not any(link.active is True for link in links):
            return Unknown(Reason.NOT_SUPPORTED, "no NVLink is up")
        return next(
            (link.replay_errors for link in links if isinstance(link.replay_errors, Unknown)), NOT_RECORDED
        )
    bad = [(link, words) for link in counted if (words := _errors(link))]
    if not bad:
        return f"{len(counted)} links without errors"
    severe = any(_is_severe(link, full.value) for link, _ in bad)
    return JUDGE.problem(
        f"GPU{gpu.index}",
        "NVLinks count errors"
        if not severe
        else "NVLinks were trained anew or have run out of counting errors",
        fails=severe,
        expected="0 replays, recoveries and CRC errors",
        observed="; ".join(f"link {link.index}: {words}" for link, words in bad),
        remedy=_REMEDY,
        evidence=(full.ref,) if severe else (),
    )


def _errors(link: NvLink) -> str:
    counts = {name: getattr(link, field) for field, name in _NAMES.items()}
    return ", ".join(
        f"{count} {name}" for name, count in counts.items() if isinstance(count, int) and count > 0
    )


def _is_severe(link: NvLink, full: float) -> bool:
    if isinstance(link.recovery_errors, int) and link.recovery_errors > 0:
        return True
    return any(isinstance(count, int) and count >= full for count in (link.crc_errors, link.replay_errors))
