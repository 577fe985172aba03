"""Test the fraction of a rate that remains at the end, and the series beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.bench.sustained import interpret, sustained_fraction
from tests.support.bench_answers import answer, lines_of, requests, sample, the_one


def test_the_last_quarter_is_held_against_the_first():
    request = requests("sustained", "cuda", 1)[0]
    slower = (0.5, 0.5, 0.5, 0.6, 0.8, 1.0, 1.0, 1.0)
    measurements = interpret(request, {0: answer(request, 0, slower)})
    assert the_one(measurements, "sustained_fraction").samples == (0.5,)
    case = request.cases[0]
    assert the_one(measurements, "gemm_flops_per_s").samples[0] == pytest.approx(
        2 * case["m"] * case["n"] * case["k"] / 0.5
    )


def test_clocks_and_temperature_come_beside_the_rates():
    request = requests("sustained", "cuda", 1)[0]
    series = {"sm_clock_hz": (1.98e9, 1.2e9), "temperature_c": (40.0, 88.0)}
    lines = lines_of(request, sample(request.cases[0], (0.5, 0.8), series=series))
    assert the_one(interpret(request, {0: lines}), "gemm_flops_per_s").series == series


def test_three_samples_have_no_quarters():
    request = requests("sustained", "cuda", 1)[0]
    assert [m.metric for m in interpret(request, {0: answer(request, 0, (0.5, 0.5, 0.5))})] == [
        "gemm_flops_per_s"
    ]


@given(
    st.lists(st.floats(min_value=1e6, max_value=1e15), min_size=4, max_size=60),
    st.floats(min_value=0.1, max_value=10),
)
def test_the_fraction_does_not_depend_on_the_unit(rates, factor):
    scaled = tuple(rate * factor for rate in rates)
    assert sustained_fraction(scaled) == pytest.approx(sustained_fraction(tuple(rates)))


@pytest.mark.parametrize(("device", "dtype"), [("cuda", "bf16"), ("cpu", "fp32")])
def test_products_are_bf16_on_gpus_and_fp32_on_cpus(device, dtype):
    assert [case["dtype"] for case in requests("sustained", device)[0].cases] == [dtype]
