"""Memory of image models, term by term, against values computed by hand from the counts of ResNet-50."""

from __future__ import annotations

import pytest

from recipes.cases.prediction import predict_row
from recipes.job.models.image_models import find_vision_model
from recipes.predict.breakdowns import MemoryBreakdown
from recipes.predict.parameters import parameter

MODEL = find_vision_model("resnet50", 224)
assert MODEL is not None
PARAMETERS, SAVED = 25_557_032, MODEL.saved_elements
WORKSPACE = parameter("vision.workspace_bytes")


def memory(gpus: int = 1, **cells: str) -> MemoryBreakdown:
    row = {
        "stack": "torch",
        "model": "resnet50",
        "gpu": "A100-SXM-80GB",
        "n_gpus": str(gpus),
        "image_size": "224",
        "precision": "fp16-mixed",
        "optimizer": "sgd",
        "micro_batch": "32",
        "sharding": "ddp" if gpus > 1 else "single",
        **cells,
    }
    breakdown = predict_row(row).memory
    assert breakdown is not None
    return breakdown


def test_weights_gradients_and_momentum_are_four_bytes_each() -> None:
    terms = memory()
    assert terms.parameters == terms.gradients == 4 * PARAMETERS
    assert terms.optimizer == 4 * PARAMETERS
    assert memory(optimizer="adamw").optimizer == 8 * PARAMETERS


@pytest.mark.parametrize(("precision", "element_bytes"), [("fp16-mixed", 2), ("fp32", 4)])
def test_activations_are_what_each_image_saves(precision: str, element_bytes: int) -> None:
    assert memory(precision=precision).activations == pytest.approx(32 * SAVED * element_bytes)


def test_buffers_are_casts_workspace_and_among_several_ranks_buckets() -> None:
    assert memory().buffers == pytest.approx(2 * PARAMETERS + WORKSPACE)
    assert memory(precision="fp32").buffers == pytest.approx(WORKSPACE)
    assert memory(gpus=8).buffers == pytest.approx(2 * PARAMETERS + WORKSPACE + 4 * PARAMETERS)


@pytest.mark.parametrize("gpus", [1, 8])
def test_the_terms_add_up(gpus: int) -> None:
    terms = memory(gpus)
    parts = (terms.parameters, terms.gradients, terms.optimizer, terms.activations, terms.buffers)
    assert terms.allocated == pytest.approx(sum(parts))
    assert terms.total == pytest.approx(terms.allocated + terms.overhead)
    assert terms.reserved - terms.allocated == pytest.approx(
        parameter("memory.fragmentation") * terms.activations
    )
    assert terms.total - terms.reserved == pytest.approx(parameter("vision.context_bytes"))
    assert terms.needed == pytest.approx(terms.allocated + parameter("vision.context_bytes"))


def test_blocks_that_the_allocator_keeps_are_given_back_when_memory_is_short() -> None:
    """A GPU of 80 GB has room for the kept blocks; on a GPU of 24 GB some are given back."""
    roomy = memory(micro_batch="540")
    tight = memory(micro_batch="540", gpu="RTX 3090")
    assert roomy.total is not None
    assert tight.total is not None
    assert tight.total < roomy.total
