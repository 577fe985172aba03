"""Test that a vision transformer is found by its size, however the name spells the size."""

from __future__ import annotations

import pytest

from recipes.cases.prediction import predict_row
from recipes.job.models.image_models import assumed_of_name, find_vision_model, load_vision_models


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("vit-h", "vit_huge_patch14_224"),
        ("ViT-g", "vit_giant_patch14_224"),
        ("vit_l", "vit_large_patch16_224"),
        ("ViT-B", "vit_base_patch16_224"),
        ("dinov2_vitl14", "vit_large_patch14_224"),
        ("dinov2-giant", "vit_giant_patch14_224"),
        ("vit_huge_patch14_clip_quickgelu", "vit_huge_patch14_224"),
        ("openclip ViT-bigG-14", "vit_gigantic_patch14_224"),
        ("ViT-G/14", "vit_gigantic_patch14_224"),
        ("ViT-G", "vit_gigantic_patch14_224"),
        ("ViT-g/14", "vit_giant_patch14_224"),
        ("OpenCLIP ViTG14", "vit_gigantic_patch14_224"),
        ("DINOv2 ViT-G/14", "vit_giant_patch14_224"),
        ("DINOv2 ViT-g", "vit_giant_patch14_224"),
        ("clip-vit-l", "vit_large_patch14_224"),
        ("clip-vit-b", "vit_base_patch32_224"),
        ("vit-b/32", "vit_base_patch32_224"),
        ("google/vit-base-patch16-224", "vit_base_patch16_224"),
        ("microsoft/resnet-50", "resnet50"),
    ],
)
def test_a_size_is_found_in_any_name(name: str, model: str) -> None:
    model_result = find_vision_model(name)
    assert model_result is not None
    assert model_result.id == model


def test_a_patch_size_that_was_not_counted_is_an_image_with_as_many_patches() -> None:
    known, fine = find_vision_model("vit_base_patch16_224"), find_vision_model("dinov2-base")
    assert known is not None
    assert fine is not None
    assert fine.forward_flops == pytest.approx(known.forward_flops * (16 / 14) ** 2, rel=0.01)


@pytest.mark.parametrize("name", ["vitamin", "invitation-large", "gravity-b", "nosuchvit-b"])
def test_other_words_are_no_vision_transformer(name: str) -> None:
    assert find_vision_model(name) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "clip-vit-l",
            ("vit_large_patch14_224", "14 pixels, which the name", "image tower alone"),
        ),
        ("openai/clip-vit-base-patch16", ("vit_base_patch16_224", "patches of 16", "image tower alone")),
        ("vit-l", ("vit_large_patch16_224", "patches of 16 pixels, which the name does not state")),
        ("dinov2-vit-s", ("patches of 14 pixels", "images of 256 pixels in patches of 16")),
    ],
)
def test_what_a_name_leaves_open_is_reported(name: str, words: tuple[str, ...]) -> None:
    (note,) = assumed_of_name(name)
    assert all(part in note for part in words), note
    answer = predict_row({"case_id": "one", "model": name, "gpu": "A100-80GB", "n_gpus": "8"})
    assert note in answer.assumed


def test_a_counted_name_assumes_nothing() -> None:
    for name in (*load_vision_models(), "vit-b/32", "ViT-L/14", "google/vit-base-patch16-224", "nonsense"):
        assert not assumed_of_name(name)
