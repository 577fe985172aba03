"""What a benchmark's workers would answer, for tests of the pure halves."""

from __future__ import annotations

from probes.benching import BenchContext, BenchRequest, ReferenceModel
from probes.measurements import Measurement
from probes.parsers.worker_lines import DoneLine, SampleLine, StartLine, WorkerLine
from probes.registry import BENCHMARKS

SHAPE = {"id": "mini", "hidden": 256, "ffn_hidden": 688, "vocab": 4096, "sequence_length": 128}
MODEL = ReferenceModel(shape=SHAPE, flops_per_token=1e6, micro_batches=(2, 4), precision="bf16")
BENCHES = {row.id: row.load() for row in BENCHMARKS}


def context(device="cpu", ranks=2, **more) -> BenchContext:
    backend = "nccl" if device == "cuda" else "gloo"
    return BenchContext(device=device, backend=backend, ranks_per_node=ranks, threads_per_rank=1, model=MODEL, **more)


def requests(bench_id: str, device="cpu", ranks=2, **more) -> tuple[BenchRequest, ...]:
    return BENCHES[bench_id].requests(context(device, ranks, **more))


def answer(
    request: BenchRequest, rank: int, durations_s=(0.5, 0.25), *, cases=None, uuid="", done=None
) -> tuple[WorkerLine, ...]:
    """One rank's lines: the same durations for every case, or by case from a function of the case."""
    start = StartLine(rank=rank, world_size=request.ranks, uuid=uuid, conditions={"torch_version": "2.13"})
    times = durations_s if callable(durations_s) else lambda case: durations_s
    samples = tuple(SampleLine(case=case, durations_s=times(case)) for case in (request.cases if cases is None else cases))
    return (start, *samples, DoneLine(conditions=done or {}))


def one(measurements, metric: str, **parameters) -> Measurement:
    found = [m for m in measurements if m.metric == metric and m.matches(**parameters)]
    assert len(found) == 1
    return found[0]
