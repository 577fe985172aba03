"""Attention over the tokens of earlier segments (Transformer-XL, arXiv 1901.02860)."""

import pytest
from msgspec.structs import replace

from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.job.models.blocks import blocks_of
from recipes.job.models.counts import attention_flops_per_token, parameter_count
from recipes.job.workload import TransformerModel
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.memory.peak import memory_of
from recipes.predict.speed.step import step_time
from recipes.predict.training_job import TransformerJob, transformer_job

ROW = {
    "stack": "nvidia-deeplearningexamples",
    "model": "transformer-xl-large",
    "gpu": "V100-SXM2-16GB",
    "n_gpus": "1",
    "precision": "fp32",
    "micro_batch": "2",
}


def job(recurrence: float) -> TransformerJob:
    case = resolve(case_of_row(ROW))
    model = replace(case.workload.model, recurrence=recurrence)
    workload = replace(case.workload, model=model)
    return transformer_job(workload, case.candidate, case.cluster, case.stack)


def model(recurrence: float) -> TransformerModel:
    return job(recurrence).workload.model


def test_earlier_tokens_have_keys_and_values_but_no_parameters() -> None:
    (alone,), (both,) = blocks_of(model(0.0)), blocks_of(model(1.0))
    assert [product.rows for product in alone.products] == [1.0, 1.0, 1.0, 1.0]
    assert [product.rows for product in both.products] == [2.0, 1.0, 1.0, 1.0]
    assert parameter_count(model(1.0)) == parameter_count(model(0.0))


def test_scores_have_a_second_product_with_relative_positions() -> None:
    # Per head, token and layer: two products of 64 for a score, one for the values, each 2 FLOPs forward and
    # 4 backward, over half of 384 keys of the sequence and all 384 earlier ones.
    assert attention_flops_per_token(model(1.0), 384) == 18 * 16 * 6 * 3 * 64 * (384 / 2 + 384)
    assert attention_flops_per_token(model(0.0), 384) == 18 * 16 * 6 * 2 * 64 * 384 / 2


def test_a_step_takes_longer_and_more_memory() -> None:
    alone, both = step_time(job(0.0)), step_time(job(1.0))
    assert isinstance(alone, TimeBreakdown)
    assert isinstance(both, TimeBreakdown)
    assert both.products > 1.15 * alone.products
    assert both.attention > 2.0 * alone.attention
    assert memory_of(job(1.0)).activations > 1.3 * memory_of(job(0.0)).activations


def test_the_published_speed_of_the_large_model_is_met() -> None:
    # NVIDIA/DeepLearningExamples, Transformer-XL README: 3558 tokens/s on one V100 in fp32
    time = step_time(job(1.0))
    assert isinstance(time, TimeBreakdown)
    assert 2 * 384 / time.total == pytest.approx(3558, rel=0.1)
