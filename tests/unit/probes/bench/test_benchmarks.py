"""Test requests of every benchmark, and its evaluation of partial, damaged and absurd answers."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from probes.base.record import to_json
from probes.bench.answers import failures_of
from probes.bench.bench_requests import (
    BenchContext,
    BenchRequest,
    BenchSettings,
    DoneLine,
    FailureLine,
    SampleLine,
    StartLine,
)
from probes.bench.benchmark_table import BENCHMARKS
from probes.facts.measurements import BenchFailure
from tests.support.bench_answers import BENCHES, MODEL, answer
from tests.support.machines import cpu_box, h100, h100_node

ROWS = {row.id: row for row in BENCHMARKS}
EVERYTHING = BenchSettings(
    step="train:step",
    folder="/data",
    data_path="/data/images",
    shapes=((96, 96, 96), (2048, 2048, 2048)),
    noise_scale=True,
)
"""Settings that enable all optional benchmarks, with a matrix product that the suites already contain."""


def gpu_context(gpus=8, suite="full", **more) -> BenchContext:
    facts = h100_node(gpus=tuple(h100(index) for index in range(gpus)))
    names = {str(gpu.uuid): f"GPU{gpu.index}" for gpu in facts.gpus}
    fields = {"threads_per_rank": 4, "model": MODEL, "settings": EVERYTHING, "subjects": names, **more}
    return BenchContext(
        device="cuda", backend="nccl", ranks_per_node=gpus, facts=facts, suite=suite, **fields
    )


def cpu_context(ranks=2, suite="full", **more) -> BenchContext:
    fields = {"threads_per_rank": 1, "model": MODEL, "settings": EVERYTHING, **more}
    return BenchContext(
        device="cpu", backend="gloo", ranks_per_node=ranks, facts=cpu_box(), suite=suite, **fields
    )


CONTEXTS = {
    **{
        f"{gpus} GPUs, {suite}": gpu_context(gpus, suite) for gpus in (1, 2, 8) for suite in ("quick", "full")
    },
    **{
        f"{ranks} CPU ranks, {suite}": cpu_context(ranks, suite)
        for ranks in (1, 2)
        for suite in ("quick", "full")
    },
    "across hosts": cpu_context(2, hosts=("a", "b", "c")),
}
ASKED = [
    (bench_id, where, number, request)
    for bench_id, bench in BENCHES.items()
    for where, context in CONTEXTS.items()
    for number, request in enumerate(bench.requests(context))
]
every_request = pytest.mark.parametrize(
    ("bench_id", "request_"),
    [
        pytest.param(bench_id, request, id=f"{bench_id}, {where}, {number}")
        for bench_id, where, number, request in ASKED
    ],
)
one_request_each = pytest.mark.parametrize(
    ("bench_id", "request_"),
    [pytest.param(*row, id=row[0]) for row in {row[0]: (row[0], row[3]) for row in ASKED}.values()],
)


@every_request
def test_a_request_is_one_that_a_worker_can_read(bench_id, request_):
    assert request_.bench_id == bench_id
    assert msgspec.json.decode(to_json(request_), type=BenchRequest) == request_
    assert request_.ranks >= 1
    assert request_.budget_s > 0
    assert request_.threads_per_rank >= 1
    assert len(request_.title.strip()) > 0


@every_request
def test_cases_are_distinct(bench_id, request_):
    assert request_.cases
    assert len({tuple(sorted(case.items())) for case in request_.cases}) == len(request_.cases)


@pytest.mark.parametrize("where", sorted(CONTEXTS))
@pytest.mark.parametrize("bench_id", sorted(BENCHES))
def test_the_budget_stays_within_what_the_row_says_it_costs(bench_id, where):
    context, row = CONTEXTS[where], ROWS[bench_id]
    asked_s = sum(request.budget_s for request in BENCHES[bench_id].requests(context))
    if context.suite in row.suites:
        assert asked_s <= (row.full_cost_s if context.suite == "full" else row.cost_s)


@every_request
def test_measurements_of_a_complete_answer_are_distinct_and_finite(bench_id, request_):
    lines = {rank: answer(request_, rank) for rank in range(request_.ranks)}
    result = BENCHES[bench_id].interpret(request_, lines)
    if isinstance(result, BenchFailure):  # this benchmark needs figures too
        return
    keys = [(m.metric, m.subject, tuple(sorted(m.parameters.items()))) for m in result]
    assert len(set(keys)) == len(keys)
    assert all(m.bench_id == bench_id and m.unit and m.samples for m in result)
    assert all(math.isfinite(sample) for m in result for sample in m.samples)


@one_request_each
def test_no_answer_is_a_failure_and_not_an_error(bench_id, request_):
    for lines in ({}, {0: ()}, {0: (DoneLine(),)}, {1: answer(request_, 1, cases=())}):
        result = BENCHES[bench_id].interpret(request_, lines)
        assert isinstance(result, BenchFailure)
        assert (result.bench_id, result.kind) == (bench_id, "incomplete")


@one_request_each
def test_the_failure_of_the_worker_is_the_reason(bench_id, request_):
    failure = FailureLine(kind="out_of_memory", message="out of memory", case={"micro_batch": 4})
    lines = {rank: (StartLine(rank=rank, world_size=2), failure) for rank in range(2)}
    result = BENCHES[bench_id].interpret(request_, lines)
    assert isinstance(result, BenchFailure)
    assert (result.kind, result.message) == ("out_of_memory", "out of memory (micro_batch 4)")
    assert len(failures_of(request_, lines)) == 1


@one_request_each
@pytest.mark.parametrize("durations_s", [(), (0.0,), (-1.0,), (math.nan,), (math.inf,)])
def test_durations_that_no_clock_gives_are_no_samples(bench_id, request_, durations_s):
    lines = {rank: answer(request_, rank, durations_s) for rank in range(request_.ranks)}
    assert isinstance(BENCHES[bench_id].interpret(request_, lines), BenchFailure)


@given(
    request_=st.sampled_from([request for *_, request in ASKED]),
    cases=st.lists(
        st.dictionaries(
            st.sampled_from(("m", "n", "bytes", "dtype", "pattern", "x")), st.integers() | st.text()
        ),
        max_size=3,
    ),
    durations_s=st.lists(st.floats(), max_size=3),
    figures=st.dictionaries(
        st.sampled_from(("memory_errors", "kernel", "peak_memory_bytes", "x")), st.floats()
    ),
    ranks=st.sets(st.integers(min_value=0, max_value=3)),
)
def test_answers_to_other_questions_are_never_measurements(request_, cases, durations_s, figures, ranks):
    assume(not any(case in request_.cases for case in cases))
    samples = tuple(SampleLine(case=case, durations_s=tuple(durations_s), figures=figures) for case in cases)
    lines = {rank: (StartLine(rank=rank, world_size=request_.ranks), *samples, DoneLine()) for rank in ranks}
    assert isinstance(BENCHES[request_.bench_id].interpret(request_, lines), BenchFailure)
