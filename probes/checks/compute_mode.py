"""May processes share a GPU, or use it at all?

`exclusive process` breaks programs that open a GPU twice (data loaders with CUDA, profilers, a second rank);
`prohibited` refuses every CUDA program. Source: nvidia-smi manual, compute mode.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.record import Unknown
from probes.facts import Gpu
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import Judged, gpus_of, judge_each, smi_name

JUDGE = Judge(
    check_id="compute-mode",
    why="In another mode than the default, a second process that opens the GPU, or any process, gets a CUDA error.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    gpus = yield from gpus_of(JUDGE, evidence)
    yield from judge_each(
        JUDGE, gpus, _judge, what="the compute mode", good="compute modes are at their default"
    )


def _judge(gpu: Gpu) -> Judged:
    mode = gpu.compute_mode
    if isinstance(mode, Unknown):
        return mode
    if mode == "default":
        return mode
    write = JUDGE.failed if mode == "prohibited" else JUDGE.warned
    return write(
        f"GPU{gpu.index}",
        "the GPU refuses CUDA programs" if mode == "prohibited" else "the GPU admits one process only",
        expected="default",
        observed=mode,
        remedy=Remedy(
            text="Set the default compute mode.",
            command=f"nvidia-smi -i {smi_name(gpu)} --compute-mode=DEFAULT",
            needs_root=True,
        ),
    )
