"""Check that nothing holds the clocks of a GPU down.

The reasons that count, and how much, are data rows. Running at the power limit (`sw_power_cap`) is normal
under load and an idle GPU gives `gpu_idle`; neither is a finding. Source: NVML reference, clock event
reasons.
"""

from __future__ import annotations

from probes.base.record import Unknown, known
from probes.facts import Gpu
from probes.judging.findings import Evidence, Judge, Remedy
from probes.judging.reporting import Judged, each_gpu

JUDGE = Judge(check_id="gpu-throttle", why="All ranks wait for the GPU whose clocks are held down.")

_GENERAL = "hw_slowdown"


@each_gpu(JUDGE, what="the clock event reasons", good="nothing holds the clocks down")
def check(gpu: Gpu, evidence: Evidence) -> Judged:
    rows = evidence.thresholds.throttle_reasons
    reasons = gpu.throttle_reasons
    if isinstance(reasons, Unknown):
        return reasons
    active = [row for row in rows if row.name in reasons]
    if not active:
        return ", ".join(reasons) or "no reason active"
    # The general bit is set together with the one that names the cause; the last row in the table is the most
    # specific.
    row = next((row for row in reversed(active) if row.severe), active[-1])
    # A cause comes together with the general bit. A cause without it at the highest clock is stale, or an
    # error of the driver.
    is_stale = (
        _GENERAL not in reasons and known(gpu.sm_clock_mhz) and gpu.sm_clock_mhz == gpu.sm_clock_max_mhz
    )
    return JUDGE.problem(
        f"GPU{gpu.index}",
        f"a reason is raised, and the clock is at its highest: {row.meaning}"
        if is_stale
        else f"clocks are held down: {row.meaning}",
        fails=row.severe and not is_stale,
        expected="no slowdown",
        observed=", ".join(reasons),
        remedy=Remedy(text=row.remedy, command="nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"),
        evidence=(row.ref,),
    )
