"""Are the GPUs of this machine of one model?

Synchronous training runs at the pace of the slowest GPU and within the memory of the smallest. Source:
awsome-distributed-training (one model per node).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from probes.base.record import Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, Judged, gpus_of, judge_each

JUDGE = Judge(
    check_id="gpu-model",
    why="All ranks wait for the slowest GPU, and every rank must fit into the memory of the smallest.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    if len(gpus) == 1:
        yield JUDGE.skipped(HOST, "one GPU has none to differ from")
        return
    usual = _most_common([gpu.name for gpu in gpus])
    yield from judge_each(
        JUDGE, gpus, lambda gpu: _judge(gpu, usual), what="the GPU model", good="all GPUs are of one model"
    )


def _judge(gpu: Gpu, usual: str | None) -> Judged:
    if isinstance(gpu.name, Unknown) or gpu.name == usual:
        return gpu.name
    return JUDGE.warned(
        f"GPU{gpu.index}",
        "another model than most GPUs here",
        expected=str(usual),
        observed=gpu.name,
        remedy=Remedy(text="Leave this GPU out of the job."),
    )


def _most_common(names: list[str | Unknown]) -> str | None:
    counts = Counter(name for name in names if not isinstance(name, Unknown))
    return counts.most_common(1)[0][0] if counts else None
