"""Test time and memory of training image models, through the functions that a case uses."""

from __future__ import annotations

import csv
import os
import statistics
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Unknown
from probes.catalogue.hardware import load_catalogue
from recipes.cases.case import Case, cluster_of_case
from recipes.cases.prediction import predict_row
from recipes.job.candidate import Candidate, Degrees
from recipes.job.models.image_models import find_vision_model, load_aliases, load_vision_models
from recipes.job.workload import Optimizer, Precision, VisionModel, VisionWorkload
from recipes.machine.cluster_records import Cluster
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.image_prediction import vision_memory
from recipes.predict.speed.image_speed import vision_time
from recipes.predict.stacks import load_stacks
from recipes.predict.training_job import image_job

RUNS = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "data" / "training_open.csv"
CATALOGUE = load_catalogue()
FASTER = ("V100-SXM2-32GB", "A100-SXM-80GB", "H100-SXM-80GB", "B200-SXM")


def machine(gpu: str = "A100-SXM-80GB", gpus: int = 1) -> Cluster:
    return cluster_of_case(Case(case_id="", gpu=gpu, n_gpus=gpus), gpus, CATALOGUE)


def known(name: str, image_size: int | None = None) -> VisionModel:
    model = find_vision_model(name, image_size)
    assert model is not None, name
    return model


def work(
    name: str = "resnet50", *, precision: Precision = "fp16", optimizer: Optimizer = "sgd"
) -> VisionWorkload:
    model = known(name)
    return VisionWorkload(
        model=model, image_size=model.image_size, global_batch=64, precision=precision, optimizer=optimizer
    )


def layout(micro_batch: int = 64, gpus: int = 1, grad_accum: int = 1) -> Candidate:
    return Candidate(
        strategy="ddp",
        degrees=Degrees(dp=gpus),
        micro_batch=micro_batch,
        grad_accum=grad_accum,
        global_batch=micro_batch * gpus * grad_accum,
        activation_checkpointing="none",
        precision="fp16",
    )


def step(of: VisionWorkload, candidate: Candidate, cluster: Cluster, stack: str = "torch") -> TimeBreakdown:
    time = vision_time(image_job(of, candidate, cluster, load_stacks()[stack]))
    assert not isinstance(time, Unknown), time
    return time


def seconds(of: VisionWorkload, candidate: Candidate, cluster: Cluster, stack: str = "torch") -> float:
    total = step(of, candidate, cluster, stack).total
    assert isinstance(total, float)
    return total


@pytest.mark.parametrize(
    ("name", "parameters", "giga_multiply_adds"),
    [
        # torchvision's documentation of its weights, and the papers of the models.
        ("resnet50", 25_557_032, 4.09),
        ("resnet18", 11_689_512, 1.81),
        ("resnet101", 44_549_160, 7.80),
        ("vgg16", 138_357_544, 15.47),
        ("densenet121", 7_978_856, 2.83),
        ("efficientnet_b0", 5_288_548, 0.39),
        ("mobilenet_v2", 3_504_872, 0.30),
        ("vit_base_patch16_224", 86_567_656, 17.56),
        ("swin_tiny_patch4_window7_224", 28_288_354, 4.49),
        ("convnext_tiny", 28_589_128, 4.46),
    ],
)
def test_counts_are_those_that_others_publish(name: str, parameters: int, giga_multiply_adds: float) -> None:
    model = known(name, 224)
    assert model.parameters == parameters
    assert model.forward_flops / 2e9 == pytest.approx(giga_multiply_adds, rel=0.04, abs=0.02)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("ResNet-50", "resnet50"),
        ("resnet50-v1.5", "resnet50"),
        ("resnet50.a1_in1k", "resnet50"),
        ("tf_efficientnet_b0", "efficientnet_b0"),
        ("EfficientNet-WideSE-B4", "efficientnet_b4"),
        ("xception", "legacy_xception"),
        ("SE-ResNeXt101-32x4d", "legacy_seresnext101_32x4d"),
        ("inception-v3", "inception_v3"),
        ("vgg-16", "vgg16"),
        ("tiramisu (climate segmentation)", "tiramisu_climate"),
        ("Mask-RCNN", "maskrcnn_resnet50_fpn"),
        ("RegNetX-1.6GF", "regnetx_016"),
        ("regnet_x_16gf", "regnetx_160"),
        ("RegNetY-400MF", "regnety_004"),
        ("regnet_y_128gf", "regnety_1280"),
        ("ViT-B/16", "vit_base_patch16_224"),
        ("vit_h_14", "vit_h_14"),
        ("DeiT-Ti", "deit_tiny_patch16_224"),
        ("ConvNeXt-T", "convnext_tiny"),
        ("mnasnet1_0", "mnasnet_100"),
        ("swin_v2_t", "swinv2_tiny_window8_256"),
        ("SE-ResNeXt50", "seresnext50_32x4d"),
    ],
)
def test_names_are_found_as_tables_spell_them(name: str, model: str) -> None:
    assert known(name).id == model


@given(st.text(max_size=40))
def test_any_text_is_a_known_model_or_none(name: str) -> None:
    model = find_vision_model(name)
    assert model is None or model.id in load_vision_models()


def test_an_unknown_model_is_refused_by_its_name() -> None:
    answer = predict_row(
        {"case_id": "1", "family": "cnn", "model": "nosuchnet", "gpu": "V100-SXM2-16GB", "n_gpus": "1"}
    )
    assert answer.status == "refused"
    assert "nosuchnet" in answer.reason


def test_every_alias_names_a_counted_model() -> None:
    assert {alias.model for alias in load_aliases()} <= set(load_vision_models())


def test_an_image_of_twice_the_side_costs_four_times_the_work() -> None:
    small, large = known("resnet50", 160), known("resnet50", 320)
    assert large.forward_flops == pytest.approx(4 * small.forward_flops)
    assert large.saved_elements == pytest.approx(4 * small.saved_elements)
    assert (large.parameters, large.operators) == (small.parameters, small.operators)


def test_a_model_named_after_its_image_size_keeps_that_size() -> None:
    assert known("ssd300-resnet50", 224).forward_flops == known("ssd300-resnet50").forward_flops


@pytest.mark.parametrize(
    "name", ["resnet50", "efficientnet_b0", "resnext101_32x4d", "vit_base_patch16_224", "nnunet_3d"]
)
@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_a_faster_gpu_takes_less_time(name: str, precision: Precision) -> None:
    times = [seconds(work(name, precision=precision), layout(), machine(gpu)) for gpu in FASTER]
    assert times == sorted(times, reverse=True)


@given(st.integers(1, 2048), st.integers(1, 2048))
def test_time_and_memory_grow_with_the_batch(one: int, other: int) -> None:
    small, large = sorted((one, other))
    assert seconds(work(), layout(small), machine()) <= seconds(work(), layout(large), machine())
    bills = [
        vision_memory(image_job(work(), layout(size), machine(), load_stacks()["torch"]))
        for size in (small, large)
    ]
    assert bills[0].total <= bills[1].total


@given(
    st.sampled_from(sorted(load_vision_models())),
    st.sampled_from(("V100-SXM2-16GB", "RTX3090", "A100-SXM-80GB", "H100-SXM-80GB", "B200-SXM")),
    st.sampled_from((1, 2, 8, 64)),
    st.sampled_from(("fp16", "bf16", "tf32", "fp32")),
    st.sampled_from(("torch", "mlperf")),
)
def test_the_parts_of_a_step_add_up(name: str, gpu: str, gpus: int, precision: Precision, stack: str) -> None:
    time = step(work(name, precision=precision), layout(8, gpus), machine(gpu, gpus), stack)
    parts = (time.compute, time.exposed_communication, time.optimizer, time.bubble, time.overhead)
    assert all(isinstance(part, (int, float)) and part >= 0 for part in parts)
    assert isinstance(time.data, Unknown)
    assert sum(part for part in parts if isinstance(part, (int, float))) == pytest.approx(time.total)


def test_images_of_a_large_batch_cost_less_each() -> None:
    assert seconds(work(), layout(256), machine()) / 256 < 0.8 * seconds(work(), layout(4), machine()) / 4


def test_accumulation_reduces_gradients_once() -> None:
    once, twice = (step(work(), layout(8, 8, count), machine(gpus=8)) for count in (1, 2))
    assert twice.exposed_communication == once.exposed_communication
    assert isinstance(once.compute, float)
    assert twice.compute == pytest.approx(2 * once.compute)


def test_memory_is_the_sum_of_its_terms() -> None:
    bill = vision_memory(image_job(work(optimizer="adamw"), layout(32), machine(), load_stacks()["torch"]))
    terms = bill.parameters + bill.gradients + bill.optimizer + bill.activations + bill.logits + bill.buffers
    assert bill.allocated == pytest.approx(terms)
    assert bill.total == pytest.approx(bill.allocated + bill.overhead)
    # 21.1 million elements of two bytes are kept for an image of ResNet-50.
    assert bill.activations / 32 == pytest.approx(42.2e6, rel=0.05)


def test_a_machine_without_a_rate_gives_no_time() -> None:
    bare = msgspec.structs.replace(machine(), peak_flops_per_s={}, flops_per_s={})
    assert isinstance(vision_time(image_job(work(), layout(), bare, load_stacks()["torch"])), Unknown)


@pytest.mark.skipif(not RUNS.is_file(), reason=f"{RUNS} is absent; set RIGTUNE_SHARED")
def test_published_runs_are_met() -> None:
    with RUNS.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["family"] == "cnn" and row["samples_per_s"]]
    answers = [predict_row(row) for row in rows]
    errors = [
        abs(one.samples_per_s / float(row["samples_per_s"]) - 1)
        for one, row in zip(answers, rows, strict=True)
        if one.samples_per_s is not None
    ]
    assert len(errors) >= 0.98 * len(rows)
    assert statistics.median(errors) <= 0.12
    assert all(item.fits is not False for item in answers)


def test_the_host_launches_ahead_of_the_gpu() -> None:
    # Twice as many small kernels cost nothing where the GPU is busy, and twice the time where it waits for
    # the host.
    model = known("densenet121")
    more = msgspec.structs.replace(model, operators=2 * model.operators)
    few, many = (
        [
            seconds(msgspec.structs.replace(work(), model=item), layout(batch), machine())
            for item in (model, more)
        ]
        for batch in (1, 256)
    )
    assert few[1] / few[0] > 1.8
    assert many[1] / many[0] < 1.1


def test_winograd_hastens_fp32_without_tensor_cores_alone() -> None:
    model = known("resnet50")
    strided = msgspec.structs.replace(model, spatial_flops=0.0)
    small = msgspec.structs.replace(model, spatial_flops=model.dense_flops)

    def gain(gpu: str, precision: Precision) -> float:
        several, none = (
            seconds(msgspec.structs.replace(work(precision=precision), model=item), layout(), machine(gpu))
            for item in (strided, small)
        )
        return several / none

    assert gain("V100-SXM2-32GB", "fp32") > 1.15
    assert gain("A100-SXM-80GB", "fp32") == 1.0
    assert gain("V100-SXM2-32GB", "fp16") == 1.0


def test_torch_computes_convolutions_of_fp32_in_tf32_but_not_products() -> None:
    cases = {
        name: (
            seconds(work(name, precision="fp32"), layout(), machine()),
            seconds(work(name, precision="tf32"), layout(), machine()),
        )
        for name in ("resnet50", "vit_base_patch16_224")
    }
    assert cases["resnet50"][0] < 1.02 * cases["resnet50"][1]
    assert cases["vit_base_patch16_224"][0] > 1.5 * cases["vit_base_patch16_224"][1]


def test_a_card_of_little_power_holds_less_of_its_peak() -> None:
    # An A10 has half of the watts for each FLOP that an RTX 3090 has.
    a10 = machine("A10")
    full = msgspec.structs.replace(a10, gpu=machine("RTX3090").gpu)
    assert seconds(work("vgg16"), layout(), a10) > 1.05 * seconds(work("vgg16"), layout(), full)


def test_depthwise_convolutions_run_on_the_lanes_of_fp32() -> None:
    # Convolutions of 7 x 7 take more than those of 3 x 3, though they read and write as much.
    model = known("convnext_tiny")
    small = msgspec.structs.replace(model, depthwise_flops=model.depthwise_flops * 9 / 49)
    whole, less = (
        seconds(msgspec.structs.replace(work(precision="tf32"), model=item), layout(), machine())
        for item in (model, small)
    )
    assert whole > 1.1 * less


def test_the_layout_that_half_precision_is_taken_to_have_is_reported() -> None:
    row = {"case_id": "a", "model": "resnet50", "gpu": "V100-SXM2-16GB", "n_gpus": "1", "micro_batch": "64"}
    half, mean, whole = (
        predict_row(row | {"stack": stack, "precision": precision})
        for stack, precision in (
            ("torch", "fp16-mixed"),
            ("nvidia-deeplearningexamples", "fp16-mixed"),
            ("torch", "fp32"),
        )
    )
    assert "images are stored in memory channels first" in half.assumed
    assert "images are stored in memory channels first or channels last, equally often" in mean.assumed
    assert not any("images are stored" in words for words in whole.assumed)


@pytest.mark.parametrize("stack", ["mlperf", "jax", "tensorflow"])
def test_examples_of_vendors_and_xla_store_half_precision_images_channels_last(stack: str) -> None:
    row = {"model": "resnet50", "gpu": "V100-SXM2-16GB", "n_gpus": "8", "micro_batch": "128", "stack": stack}
    half, whole = (predict_row({**row, "precision": words}) for words in ("fp16-mixed", "fp32"))
    assert "images are stored in memory channels last" in half.assumed
    assert not any("images are stored" in words for words in whole.assumed)
    first = predict_row({**row, "precision": "fp16-mixed", "stack": "torchvision"})
    assert half.samples_per_s is not None
    assert first.samples_per_s is not None
    assert half.samples_per_s > 1.2 * first.samples_per_s
