"""Requests and answers of benchmarks, for tests that measure nothing."""

from __future__ import annotations

from probes.bench.bench_requests import (
    BenchContext,
    BenchRequest,
    Case,
    DoneLine,
    ReferenceModel,
    SampleLine,
    StartLine,
    WorkerLine,
)
from probes.bench.benchmark_table import BENCHMARKS
from probes.facts.measurements import Measurement

SHAPE = {
    "id": "mini",
    "layers": 4,
    "hidden": 256,
    "heads": 8,
    "kv_heads": 2,
    "head_dim": 32,
    "ffn_hidden": 688,
    "vocab": 4096,
    "sequence_length": 128,
}
MODEL = ReferenceModel(shape=SHAPE, flops_per_token=1e6, micro_batches=(2, 4), precision="bf16")
BENCHES = {row.id: row.load() for row in BENCHMARKS}


def bench_context(device="cpu", ranks=2, **more) -> BenchContext:
    backend = "nccl" if device == "cuda" else "gloo"
    fields = {"threads_per_rank": 1, "model": MODEL, **more}
    return BenchContext(device=device, backend=backend, ranks_per_node=ranks, **fields)


def requests(bench_id: str, device="cpu", ranks=2, **more) -> tuple[BenchRequest, ...]:
    return BENCHES[bench_id].requests(bench_context(device, ranks, **more))


def sample(case: Case, durations_s=(0.5, 0.25), *, series=None, **figures: float) -> SampleLine:
    return SampleLine(case=case, durations_s=durations_s, figures=figures, series=series or {})


def lines_of(
    request: BenchRequest, *samples: SampleLine, rank=0, uuid="", done=None
) -> tuple[WorkerLine, ...]:
    """Return one rank's complete answer."""
    start = StartLine(rank=rank, world_size=request.ranks, uuid=uuid, conditions={"torch_version": "2.13"})
    return (start, *samples, DoneLine(conditions=done or {}))


def answer(
    request: BenchRequest,
    rank: int,
    durations_s=(0.5, 0.25),
    *,
    cases=None,
    uuid="",
    done=None,
    **figures: float,
) -> tuple[WorkerLine, ...]:
    """Return one rank's lines, with the same durations for every case or those of a function of the case."""
    times = durations_s if callable(durations_s) else lambda case: durations_s
    asked = request.cases if cases is None else cases
    return lines_of(
        request, *(sample(case, times(case), **figures) for case in asked), rank=rank, uuid=uuid, done=done
    )


def the_one(measurements: tuple[Measurement, ...], metric: str, **parameters) -> Measurement:
    matching = [m for m in measurements if m.metric == metric and m.matches(**parameters)]
    assert len(matching) == 1, matching
    return matching[0]
