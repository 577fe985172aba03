"""The model presets, and the numbers of parameters and FLOPs that a model's sizes determine."""

import functools

from probes.base.rows import load_rows
from recipes.job.models.blocks import Block, blocks_of, head_product, norm_parameters
from recipes.job.models.files import with_learning_rate
from recipes.job.workload import TransformerModel


@functools.lru_cache(maxsize=1)
def load_models() -> tuple[TransformerModel, ...]:
    """Return the presets of `recipes/data/models/`.

    A preset without a learning rate gets one from `with_learning_rate`.
    """
    return tuple(with_learning_rate(model) for model in load_rows("recipes", "models", TransformerModel))


@functools.lru_cache(maxsize=1024)
def preset(model_id: str) -> TransformerModel | None:
    """Return the preset with this id; None if there is none. Files without the id are not parsed."""
    rows = load_rows("recipes", "models", TransformerModel, with_words=model_id)
    row = next((row for row in rows if row.id == model_id), None)
    return None if row is None else with_learning_rate(row)


def root_parameter_count(model: TransformerModel) -> int:
    """Return the parameters outside the layers.

    These are the tables of tokens and positions with their projections, the norms outside the layers, the
    pooler, and the head. A head that shares the token table (tied) adds only its bias.
    """
    width = model.embedding_size or model.hidden
    stacks = 2 if model.kind == "encoder-decoder" else 1
    positions = stacks * model.learned_positions * (width if model.kind == "encoder" else model.hidden)
    count = (
        (model.vocab + model.token_types) * width + positions + stacks * model.position_buckets * model.heads
    )
    # Projections into the layers, and in a decoder out of them; BERT's projection has a bias.
    if model.embedding_size:
        count += model.hidden * (width + 1) if model.kind == "encoder" else 2 * model.hidden * width
    if model.embedding_norm:
        count += stacks * norm_parameters(model, width)
    if model.final_norm:
        count += stacks * norm_parameters(model, model.hidden)
    if model.pooler:
        count += model.hidden * (model.hidden + 1)
    if not model.tied_embeddings:
        count += model.vocab * width
    return count + (model.vocab if "head" in model.other_biases else 0)


@functools.lru_cache(maxsize=1024)
def parameter_count(model: TransformerModel) -> int:
    """Return the number of trainable parameters, each counted once.

    Layers for multi-token prediction, and the head that pre-training adds to an encoder, are not counted.
    """
    return sum(block.count * block.parameters for block in _counted(model)) + root_parameter_count(model)


def active_parameter_count(model: TransformerModel) -> int:
    """Return the parameters that one token uses: all parameters except those of the experts that the token
    does not use.
    """
    idle = sum(
        block.count * product.inputs * product.outputs * (product.experts - product.rows)
        for block in _counted(model)
        for product in block.products
        if product.experts > 1
    )
    return round(parameter_count(model) - idle)


@functools.lru_cache(maxsize=1024)
def matmul_parameter_count(model: TransformerModel) -> int:
    """Return the number of weights that multiply one token: in layers, in its experts and in the head.

    Weights that are only looked up in a table are excluded. If the head computes logits for a part of the
    tokens, only this part of its weights is counted. In an encoder-decoder, the weights of the decoder are
    multiplied by the decoder tokens per encoder token.
    """
    layers = sum(
        block.count * block.tokens * product.inputs * product.outputs * product.rows
        for block in _counted(model)
        for product in block.products
    )
    tokens = model.head_fraction * (model.decoder_tokens if model.kind == "encoder-decoder" else 1.0)
    return round(layers + tokens * head_product(model).parameters)


def attention_flops_per_token(model: TransformerModel, sequence_length: int) -> float:
    """Return the forward and backward FLOPs per token of attention scores, weighted values and state-space
    scans.

    Causal attention costs 6 a d s per layer, half of the 12 a d s of full attention (a heads of size d, s
    tokens).
    """
    total = 0.0
    for block in _counted(model):
        for attention in block.attention:
            keys = float(sequence_length) * (1.0 if attention.cross else block.tokens)
            earlier = attention.earlier * keys
            if attention.window and attention.window < keys:
                keys = float(attention.window)
            elif attention.causal:
                keys /= 2  # a token attends to half of the sequence on average
            keys += earlier
            dims = attention.score_dim + attention.value_dim
            total += block.count * block.tokens * 6.0 * attention.heads * dims * keys
        if block.state_space is not None:
            total += block.count * _SCAN_FLOPS * 3.0 * block.state_space.inner * block.state_space.states
    return total


_SCAN_FLOPS = 7.0
"""FLOPs of a forward scan per token, inner element and state, from Megatron-LM's throughput report."""


def flops_per_token(model: TransformerModel, sequence_length: int) -> float:
    """Return the model FLOPs per token, forward and backward: attention, and 6 per weight that multiplies it.

    Recomputation is not counted. Megatron-LM counts in the same way; torchtitan and llm-foundry count full
    attention. For an encoder-decoder, the result is for one encoder token and its share of decoder tokens.
    """
    return 6.0 * matmul_parameter_count(model) + attention_flops_per_token(model, sequence_length)


def _counted(model: TransformerModel) -> tuple[Block, ...]:
    return tuple(block for block in blocks_of(model) if not block.extra)
