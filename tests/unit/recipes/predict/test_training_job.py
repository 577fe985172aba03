"""Test that a case becomes a job of the right kind, with the values that follow from its parts."""

from __future__ import annotations

from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown
from recipes.predict.job_prediction import memory_for, time_for
from recipes.predict.training_job import ImageJob, Job, TransformerJob
from tests.unit.recipes.cases.test_case_prediction import LLAMA

IMAGES = {
    "model": "resnet50",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "8",
    "micro_batch": "64",
    "precision": "bf16",
}


def job(row: dict[str, str], **changes: str) -> Job:
    return resolve(case_of_row({**row, **changes})).job


def test_transformers_and_image_models_share_the_functions_for_memory_and_time() -> None:
    kinds = {type(item): item for item in (job(LLAMA, micro_batch="1"), job(IMAGES))}
    assert kinds.keys() == {TransformerJob, ImageJob}
    for kind in kinds.values():
        assert isinstance(memory_for(kind), MemoryBreakdown)
        assert isinstance(time_for(kind), TimeBreakdown)


def test_a_job_states_what_is_trained_and_the_bytes_of_an_element() -> None:
    full = job(LLAMA, micro_batch="1", precision="bf16")
    assert (full.adapted, full.trains_weights, full.is_quantised, full.wide_bytes) == (None, True, False, 2.0)
    tuned = job(LLAMA, micro_batch="1", task="qlora", precision="nf4", stack="trl")
    assert (tuned.trains_weights, tuned.is_quantised) == (False, True)
    assert tuned.adapted == tuned.stack.memory.adapter_targets
    assert job(LLAMA, micro_batch="1", precision="fp32", stack="trl").wide_bytes == 4.0


def test_an_image_job_has_the_model_at_its_size_and_the_precision_of_its_gpu() -> None:
    small, large = job(IMAGES), job(IMAGES, image_size="448")
    assert large.model.saved_elements > 3 * small.model.saved_elements
    assert (job(IMAGES, gpu="V100-SXM2-32GB").computed, job(IMAGES, precision="fp32").element_bytes) == (
        "fp16",
        4,
    )
