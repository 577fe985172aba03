"""Jobs that train an image model: batch, optimizer and steps if the user gives none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from recipes.job.models.image_models import load_vision_models
from recipes.job.workload import VisionWorkload
from recipes.planning.image_jobs import image_workload, usual_batch
from recipes.settings.setting import NOTHING_STATED, Stated
from tests.support.clusters import cpu_cluster, h100_cluster


def job(
    model: str = "resnet50", *, ranks: int = 8, stated: Stated = NOTHING_STATED, **given: Any
) -> VisionWorkload:
    asked = {"image_size": None, "global_batch": None, "steps": None, "samples": None, **given}
    cluster = h100_cluster(ranks=ranks)
    return image_workload(load_vision_models()[model], cluster, precision="bf16", stated=stated, **asked)


@pytest.mark.parametrize(
    ("ranks", "largest", "batch"),
    [
        (1, 8192, 1024),  # the usual batch
        (3, 8192, 1023),  # 341 each
        (32, 8192, 1024),
        (48, 8192, 1536),  # 32 images per rank
        (256, 8192, 8192),
        (512, 8192, 8192),  # 16 each: more would lose accuracy
        (1500, 8192, 7500),  # 5.46 each, rounded
        (64, 512, 1024),
        (20_000, 8192, 20_000),  # one each, although the batch is too large
    ],
)
def test_usual_batch(ranks: int, largest: float, batch: int):
    assert usual_batch(ranks, largest) == batch


@pytest.mark.parametrize(
    ("stated", "ranks", "batch"),
    [
        (Stated(known_batch=100, known_rate=0.1), 8, 96),
        (Stated(known_batch=104, known_rate=0.1), 8, 104),
        (Stated(known_batch=109, known_rate=0.1), 8, 112),
        (Stated(known_batch=3, known_rate=0.1), 8, 8),
        (Stated(known_batch=3, known_rate=0.1), 1, 3),
        (Stated(noise_scale=600.0), 8, 600),
        (Stated(noise_scale=0.2), 8, 8),
    ],
)
def test_a_stated_batch_is_rounded_to_one_that_all_ranks_can_share(stated: Stated, ranks: int, batch: int):
    assert job(ranks=ranks, stated=stated).global_batch == batch


def test_a_given_batch_is_kept():
    assert job(global_batch=24, stated=Stated(noise_scale=600.0)).global_batch == 24


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({}, 1000),
        ({"samples": 640}, 10),
        ({"samples": 641}, 11),
        ({"samples": 1}, 1),
        ({"samples": 0}, 1),
        ({"samples": 640, "steps": 7}, 7),
    ],
)
def test_steps_cover_the_samples(given: dict[str, int], steps: int):
    assert job(global_batch=64, **given).steps == steps


def test_a_cpu_gets_a_shorter_first_run():
    model = load_vision_models()["resnet50"]
    work = image_workload(
        model, cpu_cluster(), image_size=None, global_batch=8, precision="fp32", steps=None, samples=None
    )
    assert work.steps == 100


@pytest.mark.parametrize(
    ("model", "given", "optimizer"),
    [
        ("resnet50", {}, "sgd"),
        ("vit_base_patch16_224", {}, "adamw"),
        ("convnext_base", {}, "adamw"),
        ("resnet50", {"optimizer": "adamw"}, "adamw"),
        ("vit_base_patch16_224", {"optimizer": "sgd"}, "sgd"),
    ],
)
def test_models_of_linear_layers_get_adamw(model: str, given: dict[str, str], optimizer: str):
    assert job(model, **given).optimizer == optimizer


def test_a_model_of_one_image_size_keeps_it():
    models = load_vision_models()
    fixed = next(model for model in models.values() if model.fixed_size)
    assert job(fixed.id, image_size=fixed.image_size + 32).image_size == fixed.image_size
    assert job("resnet50", image_size=288).image_size == 288
    assert job("resnet50").image_size == models["resnet50"].image_size


@pytest.mark.parametrize(
    ("layers", "optimizer"),
    [((50.0, 100.0, 0.0), "sgd"), ((51.0, 100.0, 0.0), "adamw"), ((51.0, 60.0, 60.0), "sgd")],
)
def test_more_than_half_of_the_work_in_linear_layers_means_adamw(
    layers: tuple[float, float, float], optimizer: str
):
    product, dense, grouped = layers
    model = msgspec.structs.replace(
        load_vision_models()["resnet50"], product_flops=product, dense_flops=dense, grouped_flops=grouped
    )
    work = image_workload(
        model, cpu_cluster(), image_size=None, global_batch=8, precision="fp32", steps=None, samples=None
    )
    assert work.optimizer == optimizer
