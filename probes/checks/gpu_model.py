"""Are the GPUs of this machine alike: model, memory, VBIOS?

Synchronous training runs at the pace of the slowest GPU and within the memory of the smallest. Source: facebookresearch/gcm
(vbios mismatch), azurehpc-health-checks (VBIOS), awsome-distributed-training (one model per node).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from probes.facts import Gpu
from probes.findings import Evidence, Finding, Judge, Remedy
from probes.judging import HOST, Judged, gpus_of, judge_each
from probes.record import Unknown
from probes.units import gib

JUDGE = Judge(
    check_id="gpu-model", why="All ranks wait for the slowest GPU, and every rank must fit into the memory of the smallest."
)

ALIKE: tuple[tuple[str, Callable[[Gpu], object]], ...] = (
    ("model", lambda gpu: gpu.name),
    ("memory", lambda gpu: gib(gpu.memory_bytes) if isinstance(gpu.memory_bytes, int) else gpu.memory_bytes),
    ("VBIOS", lambda gpu: gpu.vbios_version),
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    if len(gpus) == 1:
        yield JUDGE.skipped(HOST, "one GPU has none to differ from")
        return
    usual = {what: _most_common([value(gpu) for gpu in gpus]) for what, value in ALIKE}
    yield from judge_each(JUDGE, gpus, lambda gpu: _judge(gpu, usual), what="the GPU model", good="all GPUs are alike")


def _judge(gpu: Gpu, usual: dict[str, object]) -> Judged:
    for what, value in ALIKE:
        mine = value(gpu)
        if not isinstance(mine, Unknown) and mine != usual[what]:
            return JUDGE.warned(
                f"GPU{gpu.index}",
                f"another {what} than most GPUs here",
                expected=str(usual[what]),
                observed=str(mine),
                remedy=Remedy(
                    text="Leave this GPU out of the job, or bring it to the state of the others with the vendor's firmware tool.",
                    reversible=False,
                ),
            )
    return gpu.name


def _most_common(values: list[object]) -> object:
    counts = Counter(value for value in values if not isinstance(value, Unknown))
    return counts.most_common(1)[0][0] if counts else None
