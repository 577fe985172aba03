"""Check that the NVLinks that are up run at full speed.

A link that trained at a lower rate slows every ring through it. Source: the catalogue; NVIDIA health
validation and oracle-quickstart/oci-hpc check the rate of each link.
"""

from __future__ import annotations

from probes.base.record import EvidenceRef, Reason, Unknown, known
from probes.base.units import gb_per_s
from probes.facts import Gpu
from probes.judging.findings import Evidence, Judge, Remedy
from probes.judging.reporting import Judged, each_gpu

JUDGE = Judge(check_id="nvlink-speed", why="A ring all-reduce runs at the rate of its slowest link.")


@each_gpu(JUDGE, what="the NVLink rate", good="NVLinks run at full speed")
def check(gpu: Gpu, evidence: Evidence) -> Judged:
    row = evidence.catalogue.checked_gpu(gpu.name) if known(gpu.name) else None
    floor = evidence.thresholds.nvlink_rate_minimum_fraction
    if row is not None and row.nvlink_count == 0:
        return Unknown(Reason.NOT_SUPPORTED, "this GPU has no NVLink")
    if isinstance(gpu.nvlinks, Unknown):
        return gpu.nvlinks
    up = [link for link in gpu.nvlinks if link.active is True]
    if not up:
        return Unknown(Reason.NOT_SUPPORTED, "no NVLink is up")
    if row is None or not row.nvlink_bandwidth_bytes_per_s:
        return Unknown(Reason.NOT_SUPPORTED, "the catalogue has no NVLink rate for this GPU")
    rates: dict[int, float] = {}
    for link in up:
        if isinstance(link.bandwidth_bytes_per_s, Unknown):
            return link.bandwidth_bytes_per_s
        rates[link.index] = link.bandwidth_bytes_per_s
    expected, slowest = row.nvlink_bandwidth_bytes_per_s, min(rates.values())
    slow = [index for index, rate in rates.items() if rate < floor.value * expected]
    if not slow:
        return gb_per_s(slowest)
    return JUDGE.failed(
        f"GPU{gpu.index}",
        "NVLinks run below their rate",
        expected=gb_per_s(expected),
        observed=f"{gb_per_s(slowest)}; slow: link {', '.join(map(str, slow))}",
        remedy=Remedy(
            text="End all jobs and reset the GPUs; if the rate stays low, the GPU module or its baseboard "
            "needs service.",
            command="nvidia-smi --gpu-reset",
            needs_root=True,
        ),
        evidence=(EvidenceRef(source="catalogue", key=row.id, detail=row.source), floor.ref),
    )
