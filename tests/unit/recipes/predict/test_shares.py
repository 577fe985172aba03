"""Shares of a model on one rank: experts, adapters, and layers of a pipeline."""

from __future__ import annotations

import pytest

from recipes.job.candidate import Candidate, Degrees
from recipes.job.models.blocks import Block, Product, blocks_of
from recipes.job.models.names import find_model
from recipes.job.workload import Tuning
from recipes.planning.planner import default_workload
from recipes.predict.shares import adapter_parameters, block_share, counted_as_layers, held_by
from recipes.predict.stacks import load_stacks
from recipes.predict.training_job import TransformerJob, job_of
from tests.support.clusters import h100_cluster


@pytest.mark.parametrize(
    ("layers", "units", "counted"),
    [
        (128, 16, (0, 0)),
        (127, 16, (0, 1)),  # the head is the 128th
        (126, 16, (1, 1)),  # Llama 3 with 405B
        (125, 16, (0, 0)),
        (126, 2, (0, 0)),
        (127, 2, (0, 1)),
        (3, 1, (0, 0)),
        (6, 4, (1, 1)),
    ],
)
def test_embedding_and_head_count_as_layers_if_that_makes_the_split_even(
    layers: int, units: int, counted: tuple[int, int]
):
    assert counted_as_layers(layers, units) == counted


BLOCK = Block(
    count=1,
    hidden=10,
    products=(
        Product(inputs=10, outputs=30, part="attention"),
        Product(inputs=10, outputs=4, split="none", part="attention"),
        Product(inputs=40, outputs=10, split="rows"),
        Product(inputs=10, outputs=8, split="none", part="router"),
        Product(inputs=10, outputs=5, experts=8, part="experts"),
    ),
    vector_parameters=7,
)
"""300 + 40 parameters of attention, 400 of the MLP, 80 of the router, 8 experts of 50, and 7 others."""


@pytest.mark.parametrize(
    ("tensor", "experts", "linear", "expert"),
    [
        (1, 1, 740.0, 400.0),
        (2, 1, 390.0, 400.0),  # 150 + 40 + 200: the undivided matrix is whole
        (2, 4, 390.0, 100.0),
        (1, 8, 740.0, 50.0),
        (1, 16, 740.0, 50.0),  # no more ranks than experts divide them
    ],
)
def test_ranks_divide_matrices_and_experts_but_not_routers(
    tensor: int, experts: int, linear: float, expert: float
):
    share = block_share(BLOCK, tensor, experts)
    assert (share.linear, share.other, share.expert, share.expert_tensor) == (linear, 87.0, expert, 1)
    assert share.total == linear + 87.0 + expert


@pytest.mark.parametrize(
    ("outputs", "experts", "expert", "tensor"),
    [
        (25_000, 1, 2e9, 1),  # 8 experts of 2.5e8 parameters, each still whole
        (25_000, 4, 5e8, 1),
        (25_001, 1, 2.00008e9 / 2, 2),
        (25_001, 4, 5.0002e8 / 2, 2),
    ],
)
def test_only_large_experts_are_divided_by_tensor_parallelism(
    outputs: int, experts: int, expert: float, tensor: int
):
    block = Block(
        count=1,
        hidden=1,
        products=(Product(inputs=10_000, outputs=outputs, experts=8, part="experts"),),
        vector_parameters=7,
    )
    share = block_share(block, 2, experts)
    assert (share.expert, share.expert_tensor, share.other) == (expert, tensor, 7)


@pytest.mark.parametrize(("targets", "parameters"), [("all", 416), ("attention", 216), ("query-value", 160)])
def test_adapters_have_rank_times_inputs_and_outputs_of_each_adapted_layer(targets: str, parameters: int):
    """Rank 4: 4 (10 + 30) + 4 (10 + 4) of attention and 4 (40 + 10) of the MLP, not of router and experts."""
    assert adapter_parameters(BLOCK, 4, targets) == parameters


def job(model: str, tuning: Tuning = "full", **degrees: int) -> TransformerJob:
    cluster = h100_cluster()
    candidate = Candidate(
        strategy="ddp",
        degrees=Degrees(**degrees),
        micro_batch=1,
        grad_accum=1,
        global_batch=8,
        activation_checkpointing="none",
        precision="bf16",
    )
    workload = default_workload(find_model(model), cluster, tuning=tuning)
    made = job_of(workload, candidate, cluster, load_stacks()["torch"])
    assert isinstance(made, TransformerJob)
    return made


LLAMA_ROOT = 2 * 128256 * 4096
LLAMA_MATRICES = 32 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 14336)
LLAMA_NORMS = 32 * 2 * 4096


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (1, 4), (2, 4)])
def test_a_rank_of_llama_has_its_part_of_matrices_and_all_of_its_stages_norms(tp: int, pp: int):
    """Embedding and head, 525 M parameters each, are on the first and the last stage."""
    made = job("llama-3-8b", tp=tp, pp=pp)
    held = held_by(made, blocks_of(made.workload.model))
    dense = ((LLAMA_ROOT + LLAMA_MATRICES) / tp + LLAMA_NORMS) / pp
    assert held.dense == pytest.approx(dense, rel=1e-5)
    assert held.root == pytest.approx(LLAMA_ROOT / 2 / tp, rel=1e-4)
    assert (held.expert, held.expert_tensor, held.trained_share) == (0.0, 1, 1.0)


def test_tied_embeddings_are_one_table():
    made = job("gpt2")
    held = held_by(made, blocks_of(made.workload.model))
    assert held.root == pytest.approx((50257 + 1024) * 768, rel=1e-3)


def test_experts_of_mixtral_are_divided_over_ranks_and_stages():
    """8 experts of 3 x 4096 x 14336 parameters in each of 32 layers."""
    made = job("mixtral-8x7b", ep=4, pp=2, dp=4)
    assert held_by(made, blocks_of(made.workload.model)).expert == 32 * 8 * 3 * 4096 * 14336 / 4 / 2


@pytest.mark.parametrize(("model", "tp"), [("llama-3-8b", 1), ("llama-3-8b", 2), ("mixtral-8x7b", 1)])
def test_only_adapters_are_trained_with_lora(model: str, tp: int):
    made = job(model, "lora", tp=tp)
    blocks = blocks_of(made.workload.model)
    held = held_by(made, blocks)
    assert made.adapted is not None
    adapters = sum(
        block.count * adapter_parameters(block, made.adapter_rank, made.adapted) for block in blocks
    )
    assert held.trained_share == pytest.approx(adapters / tp / (held.dense + held.expert))
    assert 0.0 < held.trained_share < 0.05
