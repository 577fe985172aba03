"""Test the training benchmarks with torch: the reference model, the CNN and the sweep of micro-batches."""

from __future__ import annotations

import json

import msgspec
import pytest

from probes.bench import micro_batch, noise_scale, train_cnn, train_step
from probes.bench.bench_requests import SkippedLine
from probes.bench.resnet import RESNET_50, SMALL, forward_flops, parameter_count, training_flops
from tests.support.bench_answers import the_one
from tests.workers.conftest import TINY
from tests.workers.training_requests import MIB, failures, tiny


def test_the_networks_parameters_and_operations_are_those_of_the_formulas(in_torch):
    """Compare with FlopCounterMode of torch, which counts the operations that a step calls."""
    networks = [
        (network.shape, size)
        for network, size in ((RESNET_50, 224), (RESNET_50, 113), (SMALL, 64), (SMALL, 112))
    ]
    code = f"""
import torch
from torch.utils.flop_counter import FlopCounterMode
from rigtune_worker.cnn import CnnShape, ResidualNetwork
answer = []
for shape, size in json.loads({json.dumps(networks)!r}):
    with torch.device("meta"):
        network, images = ResidualNetwork(CnnShape.from_dict(shape)), torch.randn(2, 3, size, size)
    with FlopCounterMode(display=False) as forward:
        logits = network(images)
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    flops = forward.get_total_flops()
    answer.append([parameters, flops, flops + backward.get_total_flops()])
"""
    expected = [
        [parameter_count(network), 2 * forward_flops(network, size), 2 * training_flops(network, size)]
        for network, size in ((RESNET_50, 224), (RESNET_50, 113), (SMALL, 64), (SMALL, 112))
    ]
    assert in_torch(code) == expected
    assert expected[0][0] == 25_557_032


def test_the_cnn_learns_its_one_batch(in_torch):
    code = f"""
import torch
from rigtune_worker.cnn import CnnShape, CnnTrainer
trainer = CnnTrainer(CnnShape.from_dict({SMALL.shape!r}), micro_batch=8, image_size=32, precision="fp32",
                     device=torch.device("cpu"), world_size=1)
answer = [float(trainer.step()) for _ in range(12)]
"""
    losses = in_torch(code)
    assert losses[-1] < losses[0] / 2


def test_a_step_of_the_cnn_is_timed(answer_of):
    request = tiny(train_cnn)
    measured = train_cnn.interpret(request, answer_of(request))
    assert the_one(measured, "images_per_s").median > 0
    assert the_one(measured, "peak_memory_bytes").median > 4 * 4 * parameter_count(
        SMALL
    )  # weights, gradients, momentum


EVERY_CASE_HAS_TIME = """
from rigtune_worker import timing
from rigtune_worker.__main__ import main
from rigtune_worker.worker_process import run_and_leave
timing.Budget.next_case = lambda budget: 0.1
run_and_leave(main)
"""


def test_recomputation_is_a_case_of_its_own(answer_of):
    request = tiny(train_step, suite="full")
    measured = train_step.interpret(request, answer_of(request, script=EVERY_CASE_HAS_TIME))
    steps = {
        (m.parameters["activation_checkpointing"], m.parameters["micro_batch"])
        for m in measured
        if m.metric == "step_time_s"
    }
    assert steps == {(mode, size) for mode in ("none", "full") for size in (2, 4)}


@pytest.mark.slow
def test_all_variants_run_on_two_ranks(answer_of):
    """Give every case the same short time, so that a slow machine skips none of them."""
    request = tiny(train_step, ranks=2, suite="full")
    request = msgspec.structs.replace(request, cases=request.cases[:4])
    measured = train_step.interpret(request, answer_of(request, script=EVERY_CASE_HAS_TIME))
    assert {(m.parameters["strategy"], m.parameters["activation_checkpointing"]) for m in measured} == {
        (strategy, mode) for strategy in ("ddp", "fsdp") for mode in ("none", "full")
    }


@pytest.fixture(scope="module")
def limited_sweep(answer_of):
    """Return request and answers of a sweep with a memory limit; the logits of a sequence take 4 MiB."""
    request = tiny(micro_batch, budget_s=100.0)
    cases = tuple({**case, "sequence_length": 256} for case in request.cases)
    settings = {**request.settings, "memory_limit_bytes": 128 * MIB}
    request = msgspec.structs.replace(request, cases=cases, model={**TINY, "vocab": 4096}, settings=settings)
    return request, answer_of(request)


def test_the_sweep_survives_running_out_of_memory_and_finds_the_limit(limited_sweep):
    request, lines = limited_sweep
    assert failures(lines) == []
    measured = micro_batch.interpret(request, lines)
    largest = the_one(measured, "largest_micro_batch")
    assert 2 <= largest.median <= 32
    assert largest.conditions["smallest_that_fails"] == largest.median + 1
    peaks = {m.parameters["micro_batch"]: m.median for m in measured if m.metric == "peak_memory_bytes"}
    assert max(peaks) == largest.median
    # Library code that a step loads into memory counts in the peak, but not in the limit.
    assert peaks[largest.median] < (128 + 128) * MIB
    assert 1 <= the_one(measured, "fastest_micro_batch").median <= largest.median
    assert the_one(measured, "memory_per_sample_bytes").median > 0


def test_a_sweep_without_time_lists_the_micro_batches_that_it_left_out(answer_of):
    request = tiny(micro_batch, budget_s=0.5)
    lines = answer_of(request)
    measured = micro_batch.interpret(request, lines)
    largest = the_one(measured, "largest_micro_batch")
    assert largest.conditions["smallest_that_fails"] == 0
    (skipped,) = [line for line in lines[0] if isinstance(line, SkippedLine)]
    assert skipped.case["micro_batch"] == 2 * largest.median


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_mean_gradient_is_never_longer_than_the_small_ones(answer_of, ranks):
    request = tiny(noise_scale, ranks=ranks, budget_s=2.0)
    lines = answer_of(request)
    series = next(line.series for line in lines[0] if hasattr(line, "series"))
    pairs = list(zip(series["small_squared_norm"], series["large_squared_norm"], strict=True))
    assert len(pairs) >= 8
    assert all(0 < large <= small for small, large in pairs)


def test_the_limit_of_control_groups_bounds_the_memory(in_torch, tmp_path):
    """In version 2 the limit is that of a parent group. Inactive file pages do not count as used."""
    v2, v1 = tmp_path / "v2", tmp_path / "v1"
    for folder, limit, used in ((v2 / "job", "1000", "700"), (v2 / "job" / "step", "max", "600")):
        folder.mkdir(parents=True)
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text(used)
        (folder / "memory.stat").write_text("anon 500\ninactive_file 150\n")
    (v1 / "memory" / "job").mkdir(parents=True)
    (v1 / "memory" / "job" / "memory.limit_in_bytes").write_text("5000\n")
    (v1 / "memory" / "job" / "memory.usage_in_bytes").write_text("3000\n")
    (v1 / "memory" / "job" / "memory.stat").write_text("total_inactive_file 1000\n")
    (tmp_path / "groups2").write_text("0::/job/step\n")
    (tmp_path / "groups1").write_text("5:cpu:/x\n4:memory:/job\n0::/\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:       4 kB\n")
    code = f"""
from pathlib import Path
from rigtune_worker import memory_limit as limits
here, answer = Path({str(tmp_path)!r}), []
limits.MEMORY_INFO = str(here / "meminfo")
for groups, tree in (("groups2", "v2"), ("groups1", "v1"), ("none", "none")):
    limits.OWN_GROUPS, limits.GROUPS = str(here / groups), str(here / tree)
    answer.append(limits.available_bytes())
limits.MEMORY_INFO = str(here / "none")
answer.append(limits.available_bytes())
"""
    assert in_torch(code) == [450, 3000, 4096, 0]
