"""Does the driver stay loaded while no program uses the GPU?

Without persistence the driver initialises the GPU anew for every job, and settings such as clocks are lost in
between. Source: NVIDIA driver persistence guide; leptonai/gpud.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, gpus_of, judge_each

JUDGE = Judge(
    check_id="persistence-mode",
    why="Without persistence mode every start waits seconds for the GPU, and clock and power settings are lost between jobs.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    yield from judge_each(JUDGE, gpus, _judge, what="the persistence mode", good="persistence mode is on")


def _judge(gpu: Gpu) -> Judged:
    if isinstance(gpu.persistence_mode, Unknown):
        return gpu.persistence_mode
    if gpu.persistence_mode:
        return "on"
    return JUDGE.warned(
        f"GPU{gpu.index}",
        "persistence mode is off",
        expected="on",
        observed="off",
        remedy=Remedy(
            text="Start the persistence daemon; the second command does the same until the next restart.",
            command="systemctl enable --now nvidia-persistenced || nvidia-smi -pm 1",
            needs_root=True,
        ),
    )
