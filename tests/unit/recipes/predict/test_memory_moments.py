"""Test the memory that a step needs only for a short time: temporaries of the optimizer, casts of weights
under autocast, and gathered blocks.
"""

from __future__ import annotations

import msgspec
import pytest

from recipes.job.candidate import Degrees
from recipes.job.models.counts import parameter_count
from recipes.job.models.names import find_model
from recipes.predict.memory.peak import memory_of
from recipes.predict.stacks import load_stacks
from recipes.predict.training_job import transformer_job
from tests.support.clusters import case, h100_cluster

LLAMA = find_model("llama-2-7b")


def bill(
    model=LLAMA,
    stack="hf-trainer",
    *,
    optimizer="adamw",
    checkpointing="full",
    micro_batch=1,
    sequence_length=512,
):
    first, second = case(model, checkpointing=checkpointing, sequence_length=sequence_length)
    first = msgspec.structs.replace(first, optimizer=optimizer)
    candidate = msgspec.structs.replace(second, micro_batch=micro_batch)
    return memory_of(transformer_job(first, candidate, h100_cluster(ranks=1), load_stacks()[stack]))


@pytest.mark.parametrize(
    ("optimizer", "copies"), [("adamw", True), ("sgd", True), ("adamw-8bit", False), ("adafactor", False)]
)
def test_foreach_kernels_hold_a_copy_of_all_that_they_update(optimizer, copies):
    assert (bill(optimizer=optimizer).buffers == pytest.approx(4 * parameter_count(LLAMA))) == copies


def test_autocast_keeps_its_casts_of_weights_until_the_loss_though_layers_are_recomputed():
    memory = bill(optimizer="adafactor", micro_batch=16)
    assert memory.logits > 0
    assert memory.buffers == pytest.approx(
        2 * (parameter_count(LLAMA) - LLAMA.vocab * LLAMA.hidden), rel=0.01
    )


def test_autocast_casts_views_of_experts_anew():
    mixture = find_model("qwen3-30b-a3b")
    memory = bill(mixture, optimizer="adafactor", micro_batch=16, checkpointing="none")
    assert memory.buffers < 2 * 0.1 * parameter_count(mixture)


@pytest.mark.parametrize(("offload_weights", "blocks"), [(False, 3), (True, 2)])
def test_adapters_over_sharded_weights_hold_the_present_block_the_next_and_one_that_arrives(
    offload_weights, blocks
):
    first, second = case(LLAMA, ranks=8, checkpointing="full", sequence_length=512)
    memory = memory_of(
        transformer_job(
            msgspec.structs.replace(first, tuning="lora", fine_tuning=True, pure_weights=True),
            msgspec.structs.replace(
                second,
                strategy="fsdp",
                sharding="zero3",
                degrees=Degrees(fsdp=8),
                offload=offload_weights,
                offload_weights=offload_weights,
            ),
            h100_cluster(ranks=8),
            load_stacks()["fsdp-qlora"],
        )
    )
    block = 2 * (parameter_count(LLAMA) - parameter_count(msgspec.structs.replace(LLAMA, layers=31)))
    root = 2 * 2 * LLAMA.vocab * LLAMA.hidden
    assert memory.buffers == pytest.approx(root + blocks * block, rel=0.01)
