"""Shares of a model on one rank: experts, adapters, and layers of a pipeline."""

from __future__ import annotations

import pytest

from recipes.job.models.blocks import Block, Product
from recipes.predict.shares import adapter_parameters, block_share, counted_as_layers


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
        count=1, hidden=1, products=(Product(inputs=10_000, outputs=outputs, experts=8, part="experts"),)
    )
    share = block_share(block, 2, experts)
    assert (share.expert, share.expert_tensor) == (expert, tensor)


@pytest.mark.parametrize(("targets", "parameters"), [("all", 416), ("attention", 216), ("query-value", 160)])
def test_adapters_have_rank_times_inputs_and_outputs_of_each_adapted_layer(targets: str, parameters: int):
    """Rank 4: 4 (10 + 30) + 4 (10 + 4) of attention and 4 (40 + 10) of the MLP, not of router and experts."""
    assert adapter_parameters(BLOCK, 4, targets) == parameters
