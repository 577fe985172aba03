"""The pure halves of the benchmarks: what they ask, and what they make of complete, partial and absurd answers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.bench.answers import failures_of
from probes.benching import BenchContext, BenchRequest, ReferenceModel
from probes.measurements import BenchFailure
from probes.parsers.worker_lines import DoneLine, FailureLine, SampleLine, StartLine
from probes.registry import BENCHMARKS

SHAPE = {"id": "mini", "hidden": 256, "ffn_hidden": 688, "vocab": 4096, "sequence_length": 128}
MODEL = ReferenceModel(shape=SHAPE, flops_per_token=1e6, micro_batches=(2, 4), precision="bf16")
BENCHES = {row.id: row.load() for row in BENCHMARKS}


def context(device="cpu", ranks=2, **more) -> BenchContext:
    backend = "nccl" if device == "cuda" else "gloo"
    return BenchContext(device=device, backend=backend, ranks_per_node=ranks, threads_per_rank=1, model=MODEL, **more)


def only_request(bench_id: str, device="cpu", ranks=2, **more) -> BenchRequest:
    return BENCHES[bench_id].requests(context(device, ranks, **more))[-1]


def answer(request: BenchRequest, rank: int, durations_s=(0.5, 0.25), figures=None, *, uuid="", cases=None):
    start = StartLine(rank=rank, world_size=request.ranks, uuid=uuid, conditions={"torch_version": "2.13"})
    wanted = request.cases if cases is None else cases
    samples = tuple(SampleLine(case=case, durations_s=durations_s, figures=figures or {}) for case in wanted)
    return (start, *samples, DoneLine())


def one(measurements, metric, **parameters):
    found = [m for m in measurements if m.metric == metric and m.matches(**parameters)]
    assert len(found) == 1
    return found[0]


def test_gemm_counts_two_operations_per_multiply_add():
    request = only_request("gemm", ranks=1)
    measured = BENCHES["gemm"].interpret(request, {0: answer(request, 0)})
    rate = one(measured, "gemm_flops_per_s", dtype="fp32", m=1024, n=1024, k=1024)
    assert rate.samples == (2 * 1024**3 / 0.5, 2 * 1024**3 / 0.25)
    assert (rate.subject, rate.unit) == ("CPU rank 0", "flop/s")
    assert rate.conditions == {"torch_version": "2.13", "concurrent_ranks": 1}


def test_gemm_never_asks_a_cpu_for_fp16():
    assert {case["dtype"] for case in only_request("gemm", "cpu").cases} == {"fp32", "bf16"}
    assert {case["dtype"] for case in only_request("gemm", "cuda").cases} == {"fp32", "tf32", "bf16", "fp16"}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gemm_asks_for_small_products_before_large_ones(device):
    by_dtype: dict[object, list[float]] = {}
    for case in only_request("gemm", device).cases:
        by_dtype.setdefault(case["dtype"], []).append(case["m"] * case["n"] * case["k"])
    assert all(sizes == sorted(sizes) for sizes in by_dtype.values())


def test_a_gpu_is_named_by_its_uuid_because_ranks_may_be_numbered_otherwise():
    request = only_request("gemm", "cuda", ranks=2, subjects={"GPU-b": "GPU5"})
    lines = {0: answer(request, 0, uuid="GPU-b"), 1: answer(request, 1, uuid="GPU-unknown")}
    assert {m.subject for m in BENCHES["gemm"].interpret(request, lines)} == {"GPU5", "GPU1"}


def test_a_copy_within_the_device_reads_and_writes_and_one_to_the_host_travels_once():
    request = only_request("memory-copy", "cuda", ranks=1)
    measured = BENCHES["memory-copy"].interpret(request, {0: answer(request, 0, durations_s=(1.0,))})
    size = request.cases[0]["bytes"]
    assert one(measured, "memory_bandwidth_bytes_per_s", direction="device_to_device").median == 2 * size
    assert one(measured, "memory_bandwidth_bytes_per_s", direction="host_to_device").median == size


def test_train_step_gives_time_memory_and_the_rate_of_one_rank():
    request = only_request("train-step")
    lines = {rank: answer(request, rank, (0.5,), {"peak_memory_bytes": 100.0 + rank}) for rank in range(2)}
    measured = BENCHES["train-step"].interpret(request, lines)
    case = {"model": "mini", "strategy": "ddp", "micro_batch": 4, "sequence_length": 128, "precision": "bf16", "world_size": 2}
    assert one(measured, "step_time_s", **case).samples == (0.5,)
    assert one(measured, "peak_memory_bytes", **case).samples == (101.0,)
    assert one(measured, "model_flops_per_s", **case).samples == (1e6 * 4 * 128 / 0.5,)


def test_train_step_runs_alone_and_together():
    assert [request.ranks for request in BENCHES["train-step"].requests(context(ranks=8))] == [1, 8]
    assert [request.ranks for request in BENCHES["train-step"].requests(context(ranks=1))] == [1]


@pytest.mark.parametrize("bench_id", sorted(BENCHES))
def test_no_answer_is_a_failure_and_not_an_error(bench_id):
    request = only_request(bench_id)
    for lines in ({}, {0: ()}, {0: (DoneLine(),)}, {1: answer(request, 1, cases=())}):
        result = BENCHES[bench_id].interpret(request, lines)
        assert isinstance(result, BenchFailure)
        assert (result.bench_id, result.kind) == (bench_id, "incomplete")


@pytest.mark.parametrize("bench_id", sorted(BENCHES))
def test_what_the_worker_told_is_the_reason(bench_id):
    request = only_request(bench_id)
    told = FailureLine(kind="out_of_memory", message="out of memory", case={"micro_batch": 4})
    lines = {rank: (StartLine(rank=rank, world_size=2), told) for rank in range(2)}
    result = BENCHES[bench_id].interpret(request, lines)
    assert isinstance(result, BenchFailure)
    assert (result.kind, result.message) == ("out_of_memory", "out of memory (micro_batch 4)")
    assert len(failures_of(request, lines)) == 1


@pytest.mark.parametrize("bench_id", sorted(BENCHES))
@pytest.mark.parametrize("durations_s", [(), (0.0,), (-1.0,), (math.nan,), (math.inf,)])
def test_durations_that_no_clock_gives_are_no_samples(bench_id, durations_s):
    request = only_request(bench_id)
    lines = {rank: answer(request, rank, durations_s) for rank in range(2)}
    assert isinstance(BENCHES[bench_id].interpret(request, lines), BenchFailure)


@given(
    bench_id=st.sampled_from(sorted(BENCHES)),
    cases=st.lists(st.dictionaries(st.sampled_from(("m", "n", "bytes", "dtype", "x")), st.integers() | st.text()), max_size=3),
    durations_s=st.lists(st.floats(), max_size=3),
    ranks=st.sets(st.integers(min_value=0, max_value=3)),
)
def test_answers_to_other_questions_are_never_measurements(bench_id, cases, durations_s, ranks):
    request = only_request(bench_id)
    lines = {rank: answer(request, rank, tuple(durations_s), cases=cases) for rank in ranks}
    assert isinstance(BENCHES[bench_id].interpret(request, lines), BenchFailure)
