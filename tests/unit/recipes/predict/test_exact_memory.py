"""Memory and FLOPs of a small transformer, term by term, against values computed by hand."""

from __future__ import annotations

import msgspec
import pytest

from recipes.job.candidate import Degrees
from recipes.job.models.counts import flops_per_token, parameter_count
from recipes.job.workload import TransformerModel
from recipes.predict.breakdowns import MemoryBreakdown
from recipes.predict.parameters import parameter
from tests.support.clusters import case, h100_cluster, predicted_memory

MODEL = TransformerModel(
    id="by-hand",
    title="two layers whose sizes are small enough to add up by hand",
    layers=2,
    hidden=64,
    heads=4,
    kv_heads=2,
    head_dim=16,
    ffn_hidden=256,
    vocab=1000,
    sequence_length=128,
    source="made up",
    date="2026-11",
)
ATTENTION = 64 * 64 + 2 * 64 * 32 + 64 * 64
"""Queries of 4 heads, keys and values of 2, and the output projection."""
MLP = 3 * 64 * 256
PARAMETERS = 2 * (ATTENTION + MLP + 2 * 64) + 64 + 2 * 1000 * 64
"""Two layers with two norms each, the final norm, the embedding and the head."""
TOKENS = 2 * 128
NORMS = 2 * 64 * 8
INPUTS = (64 + 64 + 256) * 4
"""Inputs of the attention's and the MLP's first products and of the MLP's last one, in fp32."""
QUERIES_KEYS_VALUES = 64 * (4 + 4) + 2 * 64 * 4
"""Queries before and after rotary positions; keys and values repeated for all four heads."""
OUTPUT_AND_SUMS = 64 * 4 + 4 * 4
"""The attention's output and one log-sum-exp of each head."""
LAYER = NORMS + INPUTS + QUERIES_KEYS_VALUES + OUTPUT_AND_SUMS + 256 * 12
"""Bytes per token; gate, up and their activation take 12 bytes for each unit of the MLP."""
FINAL = 64 * (8 + 4)
NCCL_BYTES = 0.41e9


def memory(ranks: int = 8, strategy: str = "ddp", micro_batch: int = 2) -> MemoryBreakdown:
    run = case(MODEL, ranks=ranks, strategy=strategy, micro_batch=micro_batch, precision="fp32")
    return predicted_memory(*run, h100_cluster(ranks=ranks))


def test_parameters_add_up() -> None:
    assert PARAMETERS == parameter_count(MODEL) == 251_200


def test_weights_gradients_and_states_are_four_four_and_eight_bytes() -> None:
    terms = memory()
    assert (terms.parameters, terms.gradients, terms.optimizer) == (
        4 * PARAMETERS,
        4 * PARAMETERS,
        8 * PARAMETERS,
    )


def test_shards_divide_weights_and_states() -> None:
    terms = memory(strategy="fsdp")
    assert terms.parameters == pytest.approx(4 * PARAMETERS / 8)
    assert terms.optimizer == pytest.approx(8 * PARAMETERS / 8)


def test_activations_are_those_of_all_layers_and_of_the_final_norm() -> None:
    assert memory().activations == TOKENS * (2 * LAYER + FINAL) == 3_743_744


def test_logits_take_twelve_bytes_each() -> None:
    assert memory().logits == TOKENS * 1000 * 12
    assert memory(micro_batch=4).logits == 2 * TOKENS * 1000 * 12


def test_several_ranks_hold_the_buffers_of_nccl_and_one_does_not() -> None:
    context = parameter("memory.context_bytes")
    one, eight = memory(ranks=1), memory(ranks=8)
    assert one.total - one.reserved == pytest.approx(context, abs=1)
    assert eight.total - eight.reserved == pytest.approx(context + NCCL_BYTES, abs=1)
    assert eight.needed - one.needed >= NCCL_BYTES - 1


def test_flops_are_six_per_weight_that_multiplies_and_the_causal_half_of_the_scores() -> None:
    weights = 2 * (ATTENTION + MLP) + 1000 * 64
    scores = 2 * 6 * 4 * (16 + 16) * 128 / 2
    assert flops_per_token(MODEL, 128) == 6 * weights + scores == 1_219_584


def test_tensor_parallel_ranks_divide_all_but_the_inputs_that_they_gather() -> None:
    workload, candidate = case(MODEL, micro_batch=2, precision="fp32")
    candidate = msgspec.structs.replace(candidate, degrees=Degrees(tp=2, dp=4))
    divided = (NORMS + 256 * 4 + QUERIES_KEYS_VALUES + OUTPUT_AND_SUMS + 256 * 12) / 2
    final = 64 * (8 / 2 + 4)
    predicted = predicted_memory(workload, candidate, h100_cluster()).activations
    assert predicted == TOKENS * (2 * (divided + (64 + 64) * 4) + final)
