"""Test attention: the requested cases, the counted operations, and the name of the kernel."""

from __future__ import annotations

import pytest

from probes.bench.attention import flops, interpret
from probes.bench.bench_requests import ReferenceModel
from probes.facts import Cpu, MachineFacts
from tests.support.bench_answers import SHAPE, answer, requests


def asked(device="cuda", ranks=1, **more):
    (request,) = requests("attention", device, ranks, **more)
    return request


def case(phase="forward", batch=2, heads=16, sequence_length=4096, head_dim=128):
    return {
        "pass": phase,
        "batch": batch,
        "heads": heads,
        "sequence_length": sequence_length,
        "head_dim": head_dim,
    }


def test_operations_are_those_of_the_two_products_under_a_causal_mask():
    every_pair = 2 * 16 * 4096 * 4096  # of query and key, over batch and heads
    assert flops(case()) == 2 * (2 * every_pair * 128) / 2
    assert flops(case("backward")) == 2.5 * flops(case())


def test_the_heads_are_the_models_and_the_tokens_stay_the_same():
    cases = asked(suite="full").cases
    assert {(c["heads"], c["head_dim"]) for c in cases} == {(8, 32)}
    assert {c["batch"] * c["sequence_length"] for c in cases} == {16384}
    assert {c["pass"] for c in cases} == {"forward", "backward"}
    assert [c["sequence_length"] for c in cases] == sorted(c["sequence_length"] for c in cases)


@pytest.mark.parametrize(
    ("device", "precision", "flags", "dtype"),
    [
        ("cuda", "bf16", (), "bf16"),
        ("cuda", "fp32", (), "fp16"),
        ("cpu", "bf16", ("avx2", "amx_bf16"), "bf16"),
        ("cpu", "bf16", ("avx2", "avx512f"), "fp32"),
    ],
)
def test_half_precision_is_asked_for_where_the_device_is_fast_at_it(device, precision, flags, dtype):
    model = ReferenceModel(shape=SHAPE, flops_per_token=1.0, micro_batches=(1,), precision=precision)
    request = asked(device, model=model, facts=MachineFacts(cpu=Cpu(flags=flags)))
    assert {c["dtype"] for c in request.cases} == {dtype}


def test_half_precision_is_not_asked_of_a_cpu_with_unknown_instructions():
    assert {c["dtype"] for c in asked("cpu").cases} == {"fp32"}


@pytest.mark.parametrize(
    ("figure", "kernel"), [(1.0, "flash"), (0.0, "math"), (3.0, "cudnn"), (-1.0, "unknown"), (9.0, "unknown")]
)
def test_the_kernel_that_ran_is_named(figure, kernel):
    request = asked()
    measurements = interpret(request, {0: answer(request, 0, (1.0,), kernel=figure)})
    assert {m.parameters["kernel"] for m in measurements} == {kernel}
    assert [m.samples for m in measurements] == [(flops(c),) for c in request.cases]


def test_a_kernel_that_is_no_number_is_unknown():
    request = asked()
    measurements = interpret(request, {0: answer(request, 0, (1.0,), kernel=float("nan"))})
    assert {m.parameters["kernel"] for m in measurements} == {"unknown"}
