"""Contents of one pipeline stage on one rank before data-parallel sharding.

The contents are blocks, parameters by kind, embedding and head.
"""

import functools
from typing import NamedTuple

import msgspec

from recipes.job.candidate import Degrees
from recipes.job.models.blocks import Block, blocks_of
from recipes.job.models.counts import root_parameter_count
from recipes.job.workload import TransformerModel
from recipes.predict.shares import BlockShare, block_share, counted_as_layers


class Stage(NamedTuple):
    """One pipeline stage on one rank."""

    blocks: tuple[tuple[float, Block], ...]
    """Number of blocks of each kind."""
    linear: float
    other: float
    expert: float
    table: float
    """Parameters outside the blocks and the head: token embedding, position embedding and final norm.

    If the model has multi-token-prediction layers, the last stage also has a copy of the embedding for them
    (DeepSeek-V3, arXiv 2412.19437, section 2.2).
    """
    head: float
    """Parameters of the head; 0 if the head uses the embedding's weights on the same stage.

    If a tied head is on another stage than the embedding, the head's stage has its own copy of the embedding.
    """
    largest: BlockShare
    first: bool
    last: bool
    in_flight: float
    """Number of micro-batches whose activations exist at the same time."""

    @property
    def dense(self) -> float:
        return self.linear + self.other + self.table + self.head


def stages_of(
    model: TransformerModel, degrees: Degrees, micro_batches: int, schedule: str, *, unties: bool = False
) -> tuple[Stage, ...]:
    """Return the stages that may be the fullest: first, last, and the second if it can be fuller.

    The second stage has no embedding, but nearly as many micro-batches in flight as the first. `unties`: the
    framework stores separate head weights even if the model ties them to the embedding.
    """
    if unties and model.tied_embeddings:
        model = msgspec.structs.replace(model, tied_embeddings=False)
    stages = degrees.pp
    chosen = sorted({0, min(1, stages - 1), stages - 1})
    # A stage depends only on these degrees, and on no more micro-batches than its schedule can keep. Leaving
    # out the other degrees lets `_stage` find more results in its cache.
    dividing = Degrees(tp=degrees.tp, pp=stages, ep=degrees.ep, vp=degrees.vp)
    kept = micro_batches if schedule == "gpipe" else min(micro_batches, 2 * stages * degrees.vp + 1)
    examined = [_stage(model, dividing, kept, schedule, index) for index in chosen]
    if len(examined) > 2 and _has_all_of(examined[0], examined[1]):
        del examined[1]
    return tuple(examined)


def _has_all_of(stage: Stage, other: Stage) -> bool:
    """Return whether no size of the stage is smaller than the same size of the other stage."""
    same_blocks = [block for _, block in stage.blocks] == [block for _, block in other.blocks]
    sizes = (
        (each.linear, each.other, each.expert, each.table, each.head, each.in_flight)
        for each in (stage, other)
    )
    counts = zip(stage.blocks, other.blocks, strict=False)
    return (
        same_blocks
        and all(mine >= theirs for mine, theirs in zip(*sizes, strict=True))
        and all(mine[0] >= theirs[0] for mine, theirs in counts)
    )


@functools.lru_cache(maxsize=4096)
def _stage(model: TransformerModel, degrees: Degrees, micro_batches: int, schedule: str, index: int) -> Stage:
    first, last = index == 0, index == degrees.pp - 1
    root = float(root_parameter_count(model))
    width = model.embedding_size or model.hidden
    head = float(model.vocab * width)
    table = (root if model.tied_embeddings else root - head) / degrees.tp
    blocks, linear, other, expert = [], 0.0, 0.0, 0.0
    largest = BlockShare(0.0, 0.0, 0.0)
    for count, block in _shares(model, degrees.pp, degrees.vp, index, 1.0 if schedule == "layers" else 0.0):
        share = block_share(block, degrees.tp, degrees.ep)
        blocks.append((count, block))
        linear += count * share.linear
        other += count * share.other
        expert += count * share.expert
        largest = max(largest, share, key=lambda part: part.total)
    own_head = last and not (model.tied_embeddings and first)
    return Stage(
        blocks=tuple(blocks),
        linear=linear,
        other=other,
        expert=expert,
        table=table if first or (last and model.prediction_layers) else 0.0,
        head=head / degrees.tp if own_head else 0.0,
        largest=largest,
        first=first,
        last=last,
        in_flight=in_flight(degrees.pp, degrees.vp, index, micro_batches, schedule),
    )


def _shares(
    model: TransformerModel, stages: int, chunks: int, index: int, ahead: float
) -> list[tuple[float, Block]]:
    """Return the blocks of one stage.

    Layers are distributed evenly over all chunks of all stages. If their number is not divisible, the head,
    or the embedding and the head, count as one layer each if this makes it divisible. Layers for multi-token
    prediction are added to the last stage's share (Megatron-LM, multi_token_prediction.py); they are included
    in the even split only if the number of other layers is not divisible. Every stage but the last gets up to
    `ahead` layers more than an even share: Hugging Face's `device_map` fills a GPU up to an even share plus
    1.25 times the largest layer (accelerate, utils/modeling.py, get_balanced_memory).
    """
    groups = blocks_of(model)
    if stages == 1:
        return [(float(group.count), group) for group in groups]
    units = stages * chunks
    beside = tuple(group for group in groups if group.extra)
    total = sum(group.count for group in groups if not group.extra)
    if total % units:
        beside, total = (), sum(group.count for group in groups)
    before, after = counted_as_layers(total, units)
    even = (total + before + after) / units
    ahead = min(ahead, total / (stages * stages))
    dealt = [group for group in groups if group not in beside]
    counts = [0.0] * len(dealt)
    for chunk in range(chunks):
        start = (chunk * stages + index) * (even + ahead) - before
        end = start + even + ahead if index < stages - 1 or chunk < chunks - 1 else float(total)
        low, high = max(0.0, start), min(float(total), end)
        at = 0.0
        for position, group in enumerate(dealt):
            counts[position] += max(0.0, min(high, at + group.count) - max(low, at))
            at += group.count
    shares = [(count, group) for count, group in zip(counts, dealt, strict=True) if count > 0]
    return shares + [(float(group.count), group) for group in beside if index == stages - 1]


def in_flight(stages: int, chunks: int, index: int, micro_batches: int, schedule: str) -> float:
    """Return the largest number of micro-batches whose activations stage `index` (from 0) keeps.

    The number can be fractional if a stage has several chunks. 1F1B (arXiv 2104.04473) keeps one micro-batch
    for this stage and one for each later stage. The interleaved schedule keeps the micro-batches that its
    chunks run in warm-up. GPipe keeps all. ZB-H1 (arXiv 2401.10241) keeps the same number as 1F1B.
    """
    if stages == 1 or schedule == "layers":
        return 1.0
    if schedule == "gpipe":
        return float(micro_batches)
    if chunks > 1:
        return min(micro_batches * chunks, 2 * (stages - index - 1) + (chunks - 1) * stages + 1) / chunks
    return float(min(micro_batches, stages - index))
