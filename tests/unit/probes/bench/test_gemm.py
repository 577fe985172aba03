"""Test the selection of products and the count of their operations."""

from __future__ import annotations

import itertools

import pytest

from probes.bench.bench_requests import BenchSettings, ReferenceModel
from probes.bench.gemm import interpret
from tests.support.bench_answers import MODEL, SHAPE, answer, requests, the_one


def asked(device="cpu", ranks=2, **more):
    (request,) = requests("gemm", device, ranks, **more)
    return request


def shapes(request, dtype) -> set[tuple[int, int, int]]:
    return {(case["m"], case["n"], case["k"]) for case in request.cases if case["dtype"] == dtype}


def test_a_multiply_add_is_two_operations():
    request = asked(ranks=1)
    rate = the_one(
        interpret(request, {0: answer(request, 0)}), "gemm_flops_per_s", dtype="fp32", m=1024, n=1024, k=1024
    )
    assert rate.samples == (2 * 1024**3 / 0.5, 2 * 1024**3 / 0.25)
    assert (rate.subject, rate.unit) == ("CPU rank 0", "flop/s")
    assert rate.conditions == {"torch_version": "2.13", "concurrent_ranks": 1}


def test_a_shape_that_was_asked_for_is_marked():
    request = asked(ranks=1, settings=BenchSettings(shapes=((3, 5, 7),)))
    measurements = interpret(request, {0: answer(request, 0)})
    assert {(m.parameters["m"], m.conditions.get("asked", False)) for m in measurements} >= {
        (3, True),
        (1024, False),
    }
    assert [m.parameters["m"] for m in measurements if m.conditions.get("asked")] == [3, 3]


def test_a_gpu_is_named_by_its_uuid_because_ranks_may_be_numbered_otherwise():
    request = asked("cuda", subjects={"GPU-b": "GPU5"})
    lines = {0: answer(request, 0, uuid="GPU-b"), 1: answer(request, 1, uuid="GPU-unknown")}
    assert {m.subject for m in interpret(request, lines)} == {"GPU5", "GPU1"}


@pytest.mark.parametrize("suite", ["quick", "full"])
def test_cpus_are_asked_for_fewer_dtypes_than_gpus(suite):
    assert {case["dtype"] for case in asked("cpu", suite=suite).cases} == {"fp32", "bf16"}
    assert {case["dtype"] for case in asked("cuda", suite=suite).cases} == {
        "fp32",
        "tf32",
        "bf16",
        "fp16",
        "fp8",
    }


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("suite", ["quick", "full"])
def test_products_are_measured_in_order_of_size(device, suite):
    by_dtype: dict[object, list[float]] = {}
    for case in asked(device, suite=suite).cases:
        by_dtype.setdefault(case["dtype"], []).append(case["m"] * case["n"] * case["k"])
    assert all(sizes == sorted(sizes) for sizes in by_dtype.values())


def test_the_curve_of_squares_spans_both_ends_in_the_full_suite():
    squares = sorted(m for m, n, k in shapes(asked("cuda", suite="full"), "bf16") if m == n == k)
    assert (squares[0], squares[-1]) == (256, 16384)
    assert all(larger == 2 * smaller for smaller, larger in itertools.pairwise(squares))


def test_the_models_products_are_those_of_the_worker_for_one_micro_batch():
    tokens = 4 * 128
    wanted = {
        (tokens, (8 + 2 * 2) * 32, 256),
        (tokens, 256, 8 * 32),
        (tokens, 688, 256),
        (tokens, 256, 688),
        (tokens, 4096, 256),
    }
    quick = asked("cuda")
    assert wanted <= shapes(quick, "bf16")
    assert not wanted & shapes(quick, "fp16")
    assert wanted <= shapes(asked("cuda", suite="full"), "fp16")


def test_the_users_model_takes_the_place_of_the_reference():
    request = asked("cuda", settings=BenchSettings(model={**SHAPE, "vocab": 50_000}))
    assert (512, 50_000, 256) in shapes(request, "bf16")
    assert (512, 4096, 256) not in shapes(request, "bf16")


def test_a_model_without_sizes_gives_square_products_only():
    without = {name: size for name, size in SHAPE.items() if name != "heads"}
    model = ReferenceModel(shape=without, flops_per_token=1.0, micro_batches=(1,), precision="bf16")
    assert all(case["m"] == case["n"] == case["k"] for case in asked("cuda", model=model).cases)


def test_a_wanted_shape_is_measured_in_every_dtype():
    request = asked("cuda", settings=BenchSettings(shapes=((512, 11008, 4096),)), model=MODEL)
    assert all(
        (512, 11008, 4096) in shapes(request, dtype) for dtype in ("fp32", "tf32", "bf16", "fp16", "fp8")
    )
