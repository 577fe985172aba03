"""Test the device benchmarks on this machine's GPUs: code that no CPU runs, and plausible results.

The bounds are wide: a healthy GPU should lie within them even where it is cooled badly.
"""

from __future__ import annotations

import pytest

from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.probe import probe_machine
from probes.base.record import known
from probes.catalogue.hardware import GpuModel, load_catalogue
from probes.collect.collecting import CollectOptions
from probes.compare.reference_values import host_copy_rate
from probes.facts import Gpu, MachineFacts
from probes.facts.measurements import Measurement
from probes.sources.live import LiveSource

pytestmark = pytest.mark.gpu

DEVICE_BENCHMARKS = (
    "gemm",
    "attention",
    "memory-copy",
    "launch-latency",
    "host-device",
    "peer-copy",
    "sustained",
    "memory-test",
)
NO_TENSOR_CORES_FOR_BF16 = ("volta", "turing")


@pytest.fixture(scope="module")
def facts() -> MachineFacts:
    with LiveSource() as source:
        return list(probe_machine(source, CollectOptions()))[-1].result  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def measurements(torch_python: str, facts: MachineFacts) -> list[Measurement]:
    """Return the results of the full suite of device benchmarks, which runs once."""
    if not known(facts.gpus) or not facts.gpus:
        pytest.skip("needs an NVIDIA GPU")
    options = MeasureOptions(python=torch_python, suite="full", only=DEVICE_BENCHMARKS, force=True)
    result = list(measure_machine(facts, options))[-1].result  # type: ignore[attr-defined]
    assert [(failure.bench_id, failure.kind, failure.message) for failure in result.failures] == []
    return list(result.measurements)


@pytest.fixture(scope="module")
def model(facts: MachineFacts) -> GpuModel:
    row = load_catalogue().gpu(str(gpus(facts)[0].name)) if gpus(facts) else None
    if row is None:
        pytest.skip("the catalogue does not know this GPU")
    return row


def gpus(facts: MachineFacts) -> tuple[Gpu, ...]:
    return facts.gpus if known(facts.gpus) else ()


def best_by_gpu(measurements: list[Measurement], bench_id: str, **parameters: object) -> dict[str, float]:
    """Return the largest median of each subject over the cases that match."""
    best: dict[str, float] = {}
    for measured in measurements:
        if measured.bench_id == bench_id and measured.matches(**parameters):  # type: ignore[arg-type]
            best[measured.subject] = max(measured.median, best.get(measured.subject, 0.0))
    assert best, (bench_id, parameters)
    return best


def test_every_gpu_has_its_name(measurements: list[Measurement], facts: MachineFacts) -> None:
    assert set(best_by_gpu(measurements, "gemm")) == {f"GPU{gpu.index}" for gpu in gpus(facts)}


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16", "fp16", "fp8"])
def test_products_reach_a_good_part_of_the_peak_and_never_more(
    measurements: list[Measurement], model: GpuModel, dtype: str
) -> None:
    peak = model.peak_flops_per_s.get(dtype)
    if peak is None:
        assert not [m for m in measurements if m.bench_id == "gemm" and m.parameters["dtype"] == dtype]
        return
    for rate in best_by_gpu(measurements, "gemm", dtype=dtype).values():
        assert 0.4 * peak < rate < 1.05 * peak


def test_attention_runs_through_a_fused_kernel(measurements: list[Measurement], model: GpuModel) -> None:
    kernels = {m.parameters["kernel"] for m in measurements if m.bench_id == "attention"}
    assert kernels <= {"flash", "cudnn", "efficient"}
    if model.architecture in NO_TENSOR_CORES_FOR_BF16:
        return
    for phase in ("forward", "backward"):
        for rate in best_by_gpu(measurements, "attention", **{"pass": phase}).values():
            assert 0.05 * model.peak_flops_per_s["bf16"] < rate < model.peak_flops_per_s["bf16"]


def test_memory_is_as_fast_as_memory_of_its_kind(measurements: list[Measurement], model: GpuModel) -> None:
    for operation in ("copy", "triad"):
        for rate in best_by_gpu(measurements, "memory-copy", operation=operation).values():
            assert 0.6 * model.memory_bandwidth_bytes_per_s < rate < 1.02 * model.memory_bandwidth_bytes_per_s


def test_a_launch_takes_microseconds_and_waiting_for_it_longer(measurements: list[Measurement]) -> None:
    launched, waited = (
        best_by_gpu(measurements, "launch-latency", kind=kind) for kind in ("asynchronous", "synchronous")
    )
    assert all(1e-7 < launched[gpu] < waited[gpu] < 1e-3 for gpu in launched)


@pytest.mark.parametrize("direction", ["host_to_device", "device_to_host"])
def test_pinned_copies_fill_the_bus(
    measurements: list[Measurement], facts: MachineFacts, model: GpuModel, direction: str
) -> None:
    rates = best_by_gpu(measurements, "host-device", direction=direction, pinned=True, concurrent=False)
    for gpu in gpus(facts):
        expected = host_copy_rate(gpu, model)
        if expected is not None:
            assert 0.5 * expected.rate < rates[f"GPU{gpu.index}"] < 1.3 * expected.rate


def test_pageable_copies_are_no_faster_than_pinned_ones(measurements: list[Measurement]) -> None:
    pinned = best_by_gpu(
        measurements, "host-device", direction="host_to_device", pinned=True, concurrent=False
    )
    pageable = best_by_gpu(
        measurements, "host-device", direction="host_to_device", pinned=False, concurrent=False
    )
    assert all(pageable[gpu] < 1.1 * pinned[gpu] for gpu in pinned)


def test_both_ways_carry_more_than_one_way(measurements: list[Measurement]) -> None:
    one_way = best_by_gpu(
        measurements, "host-device", direction="host_to_device", pinned=True, concurrent=False
    )
    both = best_by_gpu(measurements, "host-device", direction="both", pinned=True, concurrent=False)
    assert all(1.05 * one_way[gpu] < both[gpu] < 2.2 * one_way[gpu] for gpu in one_way)


def test_peers_reach_their_links_and_both_ways_more(
    measurements: list[Measurement], facts: MachineFacts, model: GpuModel
) -> None:
    if len(gpus(facts)) < 2:
        pytest.skip("needs two GPUs")
    one_way = best_by_gpu(measurements, "peer-copy", direction="one_way")
    both = best_by_gpu(measurements, "peer-copy", direction="both")
    assert len(one_way) == len(gpus(facts)) * (len(gpus(facts)) - 1) // 2
    links = model.nvlink_count * model.nvlink_bandwidth_bytes_per_s
    assert all(1e9 < rate < max(links, 130e9) for rate in one_way.values())
    assert all(both[pair] > 1.05 * rate for pair, rate in one_way.items())


def test_the_rate_is_reported_second_by_second(measurements: list[Measurement]) -> None:
    rates = [m for m in measurements if m.bench_id == "sustained" and m.metric == "gemm_flops_per_s"]
    assert rates
    for measured in rates:
        assert len(measured.samples) >= 10
        assert all(len(values) == len(measured.samples) for values in measured.series.values())
        assert all(3e8 < clock_hz < 4e9 for clock_hz in measured.series.get("sm_clock_hz", ()))
        assert all(10 < temperature_c < 110 for temperature_c in measured.series.get("temperature_c", ()))
        assert all(10 < power_w < 3000 for power_w in measured.series.get("power_w", ()))
    fractions = [m.median for m in measurements if m.metric == "sustained_fraction"]
    assert all(0.5 < fraction < 1.2 for fraction in fractions)


def test_memory_holds_what_is_written_to_it(measurements: list[Measurement], facts: MachineFacts) -> None:
    tests = [m for m in measurements if m.metric == "memory_errors"]
    assert len({m.parameters["pattern"] for m in tests}) == 5
    assert all(m.median == 0 for m in tests)
    sizes = {f"GPU{gpu.index}": gpu.memory_bytes for gpu in gpus(facts)}
    for measured in tests:
        size = sizes[measured.subject]
        assert not isinstance(size, int) or float(measured.conditions["tested_bytes"]) > 0.7 * size
