"""Test that a vision transformer is found by its size, however the name spells the size."""

from __future__ import annotations

import pytest

from recipes.job.models.image_models import find_vision_model


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
