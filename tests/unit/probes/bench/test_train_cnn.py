"""Test the residual network: its published sizes, and the measurements from the answers of ranks."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.units import GIB
from probes.bench.resnet import (
    RESNET_50,
    SMALL,
    Resnet,
    convolutions,
    forward_flops,
    parameter_count,
    training_flops,
)
from probes.bench.train_cnn import interpret, requests
from probes.facts import Gpu, MachineFacts
from tests.support.bench_answers import MODEL, bench_context, lines_of, sample, the_one


def test_resnet_50_has_its_published_size():
    """25,557,032 parameters and 53 convolutions; 4.09 G multiply-adds per image (torchvision's model table,
    weights V1).
    """
    assert parameter_count(RESNET_50) == 25_557_032
    assert len(list(convolutions(RESNET_50, 224))) == 53
    assert forward_flops(RESNET_50, 224) / 2 / 1e9 == pytest.approx(4.09, abs=0.005)


@pytest.mark.parametrize(
    ("depths", "millions", "giga_multiply_adds"),
    [((3, 4, 23, 3), 44.549160, 7.80), ((3, 8, 36, 3), 60.192808, 11.51)],
)
def test_the_deeper_ones_of_the_family_have_theirs(depths, millions, giga_multiply_adds):
    network = Resnet(id="deeper", depths=depths, width=64, classes=1000)
    assert parameter_count(network) == round(millions * 1e6)
    assert forward_flops(network, 224) / 2e9 == pytest.approx(giga_multiply_adds, abs=0.005)


def test_training_is_three_forward_passes_without_the_gradient_of_the_image():
    stem = 2 * 3 * 64 * 7**2 * 112**2
    assert training_flops(RESNET_50, 224) == 3 * forward_flops(RESNET_50, 224) - stem


def test_a_gpu_trains_resnet_50_and_a_cpu_a_small_one():
    assert [request.model["id"] for request in requests(bench_context("cuda"))] == [
        RESNET_50.id,
        RESNET_50.id,
    ]
    (request,) = requests(bench_context("cpu", ranks=1))
    assert (request.model, request.cases[0]["image_size"]) == (SMALL.shape, 64)


@pytest.mark.parametrize(("gib", "sizes"), [(16, [64]), (30, [64, 256]), (29, [64]), (80, [64, 256])])
def test_the_large_micro_batch_is_asked_of_gpus_that_hold_it(gib, sizes):
    facts = MachineFacts(
        gpus=tuple(Gpu(index=index, memory_bytes=size * GIB) for index, size in enumerate((80, gib)))
    )
    cases = requests(bench_context("cuda", facts=facts))[0].cases
    assert [case["micro_batch"] for case in cases] == sizes


@pytest.mark.parametrize(("gib", "sizes"), [(59, [64]), (60, [64, 256]), (None, [64])])
def test_fp32_takes_twice_the_memory(gib, sizes):
    gpus = () if gib is None else (Gpu(index=0, memory_bytes=gib * GIB),)
    model = msgspec.structs.replace(MODEL, precision="fp32")
    cases = requests(bench_context("cuda", facts=MachineFacts(gpus=gpus), model=model))[0].cases
    assert [case["micro_batch"] for case in cases] == sizes


def test_images_are_counted_over_all_ranks_and_flops_on_one():
    request = requests(bench_context(ranks=2))[-1]
    case = request.cases[0]
    lines = {
        rank: lines_of(request, sample(case, (0.5,), peak_memory_bytes=7.0), rank=rank) for rank in range(2)
    }
    measured = interpret(request, lines)
    images = case["micro_batch"]
    assert the_one(measured, "images_per_s").samples == (2 * images / 0.5,)
    assert the_one(measured, "model_flops_per_s").samples == (images * training_flops(SMALL, 64) / 0.5,)
    assert the_one(measured, "step_time_s").parameters == {"model": SMALL.id, **case, "world_size": 2}
