"""Test the training benchmarks on this machine's GPUs: the code that no CPU runs."""

from __future__ import annotations

import pytest

from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.probe import probe_machine
from probes.base.record import known
from probes.bench.bench_requests import BenchSettings
from probes.bench.resnet import RESNET_50
from probes.collect.collecting import CollectOptions
from probes.sources.live import LiveSource
from tests.support.bench_answers import the_one
from tests.workers.training_requests import EXAMPLE

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def result(torch_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    (folder / "example.py").write_text(EXAMPLE)
    with LiveSource() as source:
        facts = list(probe_machine(source, CollectOptions()))[-1].result
    if not known(facts.gpus) or not facts.gpus:
        pytest.skip("needs an NVIDIA GPU")
    measurements = []
    for only, step in (
        (("train-step", "train-cnn", "micro-batch", "noise-scale"), ""),
        (("own-step",), "example.py:make"),
    ):
        settings = BenchSettings(step=step, folder=str(folder))
        options = MeasureOptions(python=torch_python, suite="full", only=only, force=True, settings=settings)
        result = list(measure_machine(facts, options))[-1].result
        assert [(failure.bench_id, failure.kind, failure.message) for failure in result.failures] == []
        measurements += result.measurements
    return tuple(measurements)


def test_reserved_memory_is_no_less_than_allocated(result):
    allocated = [m for m in result if m.metric == "peak_memory_bytes"]
    assert {m.bench_id for m in allocated} == {"train-step", "train-cnn", "micro-batch", "own-step"}
    for m in allocated:
        same = [
            other for other in result if other.bench_id == m.bench_id and other.parameters == m.parameters
        ]
        assert the_one(tuple(same), "peak_reserved_bytes", **m.parameters).median >= m.median


def test_recomputation_saves_memory_and_costs_time(result):
    alone = [
        m
        for m in result
        if m.bench_id == "train-step" and m.matches(strategy="ddp", world_size=1, micro_batch=4)
    ]
    for metric, more in (("peak_memory_bytes", "none"), ("step_time_s", "full")):
        by_mode = {m.parameters["activation_checkpointing"]: m.median for m in alone if m.metric == metric}
        assert max(by_mode, key=by_mode.__getitem__) == more


def test_resnet_50_is_what_a_gpu_trains(result):
    rates = [m for m in result if m.bench_id == "train-cnn" and m.metric == "images_per_s"]
    assert {m.parameters["model"] for m in rates} == {RESNET_50.id}


def test_the_sweep_fills_the_memory(result):
    """The peaks lie near a line, which for the largest micro-batch stays below the memory of the GPU."""
    sweep = tuple(m for m in result if m.bench_id == "micro-batch")
    largest = the_one(sweep, "largest_micro_batch")
    assert the_one(sweep, "memory_fit_residual").median < 0.25
    assert largest.conditions["smallest_that_fails"] in {0, largest.median + 1}
    line = [the_one(sweep, f"memory_{part}_bytes").median for part in ("fixed", "per_sample")]
    assert line[0] + line[1] * largest.median < largest.conditions["device_memory_bytes"]
