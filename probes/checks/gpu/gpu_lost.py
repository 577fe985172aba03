"""Check that every GPU answers all queries.

A GPU that has fallen off the bus keeps its name and its place in lists; its readings are errors. Single
queries that fail while the rest answers are a fault of the driver, and no reason to replace the GPU. Source:
leptonai/gpud, nvidia-smi outputs with `GPU is lost` and `Unknown Error`; NVIDIA Xid catalogue, Xid 79.
"""

from __future__ import annotations

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Judge, Remedy
from probes.judging.reporting import Judged, each_gpu, smi_name

JUDGE = Judge(check_id="gpu-lost", why="A job that gets a lost GPU ends at start, or hangs all its ranks.")

_SHOWN = 6
_JUDGED_ELSEWHERE = ("fan", "fan_speed", "fan.speed")
_LOST_WORDS = ("lost", "requires reset", "unable to determine")

RESTART = Remedy(
    text="Restart the machine; if the GPU is lost again, look for Xid 79 and have the card, its power and "
    "its slot checked.",
    command="dmesg | grep -i xid",
    needs_root=True,
)


@each_gpu(JUDGE, what="the readings of the GPU", good="every GPU answers all queries")
def check(gpu: Gpu, evidence: Evidence) -> Judged:
    readings = _readings(gpu)
    broken = [value for value in readings if isinstance(value, Unknown) and value.reason is Reason.ERROR]
    queries = () if isinstance(gpu.failed_queries, Unknown) else gpu.failed_queries
    failed = [name for name in queries if name not in _JUDGED_ELSEWHERE]
    if any(word in value.detail.lower() for value in broken for word in _LOST_WORDS):
        why = next(value for value in broken if any(word in value.detail.lower() for word in _LOST_WORDS))
        return JUDGE.failed(
            f"GPU{gpu.index}",
            "the driver has lost this GPU",
            expected="an answer",
            observed=why.words,
            remedy=RESTART,
        )
    if len(broken) >= 2:
        return JUDGE.failed(
            f"GPU{gpu.index}",
            "the GPU does not answer",
            expected="an answer",
            observed=broken[0].words,
            remedy=RESTART,
        )
    if failed or broken:
        shown = ", ".join(failed[:_SHOWN]) + (" ..." if len(failed) > _SHOWN else "")
        return JUDGE.warned(
            f"GPU{gpu.index}",
            "the driver answers some queries with an error",
            expected="no error",
            observed=shown or broken[0].words,
            remedy=Remedy(
                text="If all else is well, a newer driver fixes it; reset the GPU where a sensor or a mode "
                "fails.",
                command=f"nvidia-smi -q -i {smi_name(gpu)} | grep -i error",
            ),
        )
    if all(isinstance(value, Unknown) for value in readings):
        return next((value for value in readings if isinstance(value, Unknown)), NOT_RECORDED)
    return "all readings that were asked for"


def _readings(gpu: Gpu) -> tuple[object, ...]:
    """Return the readings that every GPU of every driver has."""
    return (
        gpu.name,
        gpu.memory_bytes,
        gpu.memory_used_bytes,
        gpu.temperature_c,
        gpu.power_w,
        gpu.utilization_percent,
        gpu.sm_clock_mhz,
    )
