"""Parameters of one rank: its share of a block and of the model, and the adapters."""

import functools
from typing import NamedTuple

from recipes.job.models.blocks import Block, Product
from recipes.job.models.counts import root_parameter_count
from recipes.job.workload import AdapterTargets
from recipes.predict.training_job import TransformerJob

QUANTISED_PARTS = ("attention", "cross-attention", "mlp", "experts", "shared", "state-space")
"""Parts whose weights are quantised in a quantised base; tables, norms and routers stay in 16 bits."""


class BlockShare(NamedTuple):
    """Parameters of one block on one rank, before data-parallel sharding."""

    linear: float
    """Parameters in matrices that are not routed experts."""
    other: float
    """Parameters in norms, biases and routers."""
    expert: float
    expert_tensor: int = 1
    """Tensor-parallel ranks that share one expert; 1: each of these ranks has different experts or different
    tokens.
    """

    @property
    def total(self) -> float:
        return self.linear + self.other + self.expert


_WHOLE_EXPERT = 2.5e8
"""Maximum number of parameters of an expert that one rank keeps whole.

Larger experts are divided by tensor parallelism, which is Megatron-LM's default
(--expert-tensor-parallel-size). The limit is between the experts of Mixtral 8x7B and 8x22B.
"""


@functools.lru_cache(maxsize=4096)
def block_share(block: Block, tensor: int, experts: int) -> BlockShare:
    """Return the part of the block that one rank has under tensor and expert parallelism."""
    linear = other = expert = 0.0
    count = max(product.experts for product in block.products) if block.products else 1
    for product in block.products:
        if product.experts > 1:
            expert += product.parameters / min(experts, product.experts)
        elif product.part in QUANTISED_PARTS:
            linear += product.parameters / (1 if product.split == "none" else tensor)
        else:
            other += product.parameters
    if expert * min(experts, count) / count > _WHOLE_EXPERT:
        return BlockShare(linear, other + block.vector_parameters, expert / tensor, tensor)
    return BlockShare(linear, other + block.vector_parameters, expert)


def is_adapted(product: Product, targets: AdapterTargets | None) -> bool:
    """Return whether this layer has LoRA's matrices; routers and routed experts have none.

    Queries, keys and values are one matrix product, so `query-value` adapts all three.
    """
    if targets is None or product.part == "router" or product.experts > 1:
        return False
    return targets == "all" or (
        product.part == "attention" and (targets == "attention" or product.split == "columns")
    )


@functools.lru_cache(maxsize=4096)
def adapter_parameters(block: Block, rank: int, targets: AdapterTargets) -> int:
    """Return the number of parameters in LoRA's two thin matrices for each adapted linear layer of a block.

    Each layer has rank x (inputs + outputs) (arXiv 2106.09685).
    """
    return sum(
        rank * (product.inputs + product.outputs)
        for product in block.products
        if is_adapted(product, targets)
    )


@functools.lru_cache(maxsize=1024)
def counted_as_layers(layers: int, units: int) -> tuple[int, int]:
    """Return 1 for the embedding and 1 for the head if each replaces a layer of a pipeline, else 0.

    If `units`, the chunks of all stages, does not divide the layers, people let the head, or both, count as
    one layer where this makes the split even (Megatron-LM: --account-for-embedding-in-pipeline-split,
    --account-for-loss-in-pipeline-split; Llama 3's 126 layers, arXiv 2407.21783, section 3.3.2).
    """
    if layers % units and (layers + 2) % units == 0:
        return 1, 1
    return 0, int(layers % units > 0 and (layers + 1) % units == 0)


class Held(NamedTuple):
    """Parameters of one rank before data-parallel sharding, the mean over pipeline stages."""

    dense: float
    """Parameters whose gradients are reduced over all data-parallel ranks."""
    expert: float
    """Parameters whose gradients are reduced over the ranks with the same experts."""
    expert_tensor: int
    """Tensor-parallel ranks that share one expert."""
    root: float
    """Parameters outside the layers on the first or the last stage: an embedding or a head."""
    trained_share: float
    """Trained part of all parameters: 1, or the part of LoRA's adapters."""


def held_by(job: TransformerJob, blocks: tuple[Block, ...]) -> Held:
    """Return one rank's share of the model: of these blocks, and of embedding and head."""
    workload, degrees = job.workload, job.candidate.degrees
    dense = root = root_parameter_count(workload.model) / degrees.tp
    expert, adapters, cut = 0.0, 0.0, 1
    for block in blocks:
        share = block_share(block, degrees.tp, degrees.ep)
        dense += block.count * (share.linear + share.other)
        expert += block.count * share.expert
        cut = max(cut, share.expert_tensor)
        if job.adapted is not None:
            adapters += block.count * adapter_parameters(block, job.adapter_rank, job.adapted) / degrees.tp
    return Held(
        dense=dense / degrees.pp,
        expert=expert / degrees.pp,
        expert_tensor=cut,
        root=root if workload.model.tied_embeddings else root / 2,
        trained_share=1.0 if job.trains_weights else adapters / (dense + expert),
    )
