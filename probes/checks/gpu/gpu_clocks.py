"""Check how long something held the clocks down, and whether somebody set clocks.

Power capping is normal under load, but GPUs that do the same work are capped alike. Source: NVML reference,
clock event reason counters; NVIDIA/DCGM#242 and leptonai/gpud for thermal and power brake;
facebookresearch/gcm for application clocks.
"""

from __future__ import annotations

from collections.abc import Iterable

from probes.base.record import Unknown, known
from probes.catalogue.thresholds import ViolationLimit
from probes.facts import Count, Gpu, count_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, judge_each, on_gpus

VIOLATIONS = Judge(
    check_id="gpu-violations",
    why="What held the clocks down before does so again under load, and all ranks wait.",
)

_CAP = "sw_power_cap"
_SECOND_US = 1e6


@on_gpus(VIOLATIONS)
def gpu_violations(gpus: tuple[Gpu, ...], evidence: Evidence) -> Iterable[Finding]:
    limits = evidence.thresholds.violation_limits
    free = [
        gpu
        for gpu in gpus
        if known(gpu.limits.violations_us) and count_of(gpu.limits.violations_us, _CAP) == 0
    ]
    return judge_each(
        VIOLATIONS,
        gpus,
        lambda gpu: _violations(gpu, limits, peers_free=len(free)),
        what="the time that clocks were held down",
        good="clocks were not held down for long",
    )


def _violations(gpu: Gpu, limits: tuple[ViolationLimit, ...], *, peers_free: int) -> Judged:
    counters = gpu.limits.violations_us
    if isinstance(counters, Unknown):
        return counters
    for limit in limits:
        seconds = (count_of(counters, limit.name) or 0) / _SECOND_US
        if seconds > limit.value:
            return VIOLATIONS.warned(
                f"GPU{gpu.index}",
                f"clocks were held down: {limit.meaning}",
                expected=f"at most {limit.value:g} s since the driver was loaded",
                observed=f"{seconds:.1f} s",
                remedy=Remedy(
                    text="Read the counters again under load; if they rise, check cooling and power of this "
                    "GPU.",
                    command="nvidia-smi -q -d PERFORMANCE",
                ),
                evidence=(limit.ref,),
            )
    capped = count_of(counters, _CAP) or 0
    if capped and peers_free:
        return VIOLATIONS.warned(
            f"GPU{gpu.index}",
            "the power limit held this GPU down and others never",
            expected="all GPUs alike",
            observed=f"{capped / _SECOND_US:.3g} s here, 0 on {peers_free} others",
            remedy=Remedy(
                text="Fine where only this GPU had work; else compare power limits and cooling.",
                command="nvidia-smi -q -d POWER",
            ),
        )
    return _longest(counters)


def _longest(counters: tuple[Count, ...]) -> str:
    most = max(counters, key=lambda counter: counter.value, default=None)
    return (
        f"at most {most.value / _SECOND_US:.3g} s ({most.name})" if most is not None and most.value else "0 s"
    )
