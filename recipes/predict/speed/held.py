"""Share of one rank in the model, for communication and the optimizer."""

from __future__ import annotations

from typing import NamedTuple

from recipes.job.models.blocks import Block
from recipes.job.models.counts import root_parameter_count
from recipes.predict.shares import adapter_parameters, block_share
from recipes.predict.training_job import TransformerJob


class Held(NamedTuple):
    """Parameters of one rank before data-parallel sharding, the mean over pipeline stages."""

    dense: float
    """Reduced over all data-parallel ranks."""
    expert: float
    """Parameters that are reduced over the ranks with the same experts."""
    expert_tensor: int
    """Tensor-parallel ranks that one expert is cut over."""
    root: float
    """Part of those outside the layers on a first or a last stage: an embedding or a head."""
    trained_share: float
    """Part of all that is trained: everything, or LoRA's adapters."""


def held_by(job: TransformerJob, blocks: tuple[Block, ...]) -> Held:
    """Return the share of one rank in these blocks, the whole model's, and in the layers' surroundings."""
    workload, degrees = job.workload, job.candidate.degrees
    dense = root = root_parameter_count(workload.model) / degrees.tp
    expert, adapters, cut = 0.0, 0.0, 1
    for block in blocks:
        share = block_share(block, degrees.tp, degrees.ep)
        dense += block.count * (share.linear + share.other)
        expert += block.count * share.expert
        cut = max(cut, share.expert_tensor)
        if job.adapted is not None:
            each = adapter_parameters(block, job.adapter_rank, job.adapted)
            adapters += block.count * each / degrees.tp
    return Held(
        dense=dense / degrees.pp,
        expert=expert / degrees.pp,
        expert_tensor=cut,
        root=root if workload.model.tied_embeddings else root / 2,
        trained_share=1.0 if job.trains_weights else adapters / (dense + expert),
    )
