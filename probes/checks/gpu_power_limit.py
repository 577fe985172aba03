"""Is the power limit of a GPU below its default?

A lowered limit is a legitimate setting and an easily forgotten one. Source: NVIDIA health validation (power
limit equals default).
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, gpus_of, judge_each, smi_name

JUDGE = Judge(
    check_id="gpu-power-limit",
    why="Dense matrix products reach the power limit; a lower limit lowers the clocks of every step.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    yield from judge_each(
        JUDGE, gpus, _judge, what="the power limit", good="power limits are at their default"
    )


def _judge(gpu: Gpu) -> Judged:
    limit, default = gpu.power_limit_w, gpu.power_limit_default_w
    if isinstance(limit, Unknown):
        return limit
    if isinstance(default, Unknown):
        return default
    if round(limit) >= round(default):
        return f"{limit:.0f} W"
    return JUDGE.warned(
        f"GPU{gpu.index}",
        "the power limit is below the default",
        expected=f"{default:.0f} W",
        observed=f"{limit:.0f} W",
        remedy=Remedy(
            text="Set the default limit again, unless the site lowers it on purpose.",
            command=f"nvidia-smi -i {smi_name(gpu)} -pl {default:.0f}",
            needs_root=True,
        ),
    )
