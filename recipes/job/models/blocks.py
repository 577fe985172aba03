"""A transformer as groups of equal blocks: matrix products, attention and vectors.

The time model, the memory model and the parameter counts all use these groups, so a new kind of layer is
described once.
"""

import functools
from typing import Literal

import msgspec

from probes.base.record import Record
from recipes.job.workload import TransformerModel

Split = Literal["columns", "rows", "none"]
"""Dimension along which tensor parallelism divides a weight: output columns, input rows, or none."""


class Product(Record, kw_only=True):
    """A linear layer: each of `rows` copies of a token is multiplied by a weight of `inputs` x `outputs`."""

    inputs: int
    outputs: int
    split: Split = "columns"
    rows: float = 1.0
    """Number of copies of a token that are multiplied by a weight of this kind: the experts per token, and
    usually 1 outside of experts.
    """
    experts: int = 1
    """Number of weights of this shape in the block; a token uses `rows` of them.

    Expert parallelism divides them.
    """
    part: Literal[
        "attention", "cross-attention", "mlp", "experts", "shared", "router", "state-space", "head"
    ] = "mlp"

    @property
    def parameters(self) -> int:
        return self.inputs * self.outputs * self.experts


class Attention(Record, kw_only=True):
    """Attention scores and weighted values of one layer."""

    heads: int
    query_key_dim: int
    value_dim: int
    kv_heads: int
    causal: bool
    window: int = 0
    """Number of tokens that a token attends to at most; 0 for no limit."""
    cross: bool = False
    earlier: float = 0.0
    """Keys of earlier segments per token of the sequence; all queries use them. The keys then have relative
    positions, which are multiplied with the queries too.
    """

    @property
    def score_dim(self) -> int:
        """Width of a query times the number of products that make a score."""
        return self.query_key_dim * (2 if self.earlier else 1)


class StateSpace(Record, kw_only=True):
    """Sizes of a Mamba-2 mixer or of a gated delta net."""

    inner: int
    heads: int
    groups: int
    states: int


class Block(Record, kw_only=True):
    """`count` equal blocks in sequence."""

    count: int
    products: tuple[Product, ...]
    attention: tuple[Attention, ...] = ()
    state_space: StateSpace | None = None
    hidden: int
    ffn_width: float = 0.0
    """Width of the MLP, or the total width of the experts that one token uses, including shared experts."""
    gated: bool = True
    norms: int = 2
    parallel: bool = False
    """True if attention and MLP read the same input, so that tensor parallelism reduces their outputs
    together.
    """
    decoder: bool = True
    """False in the encoder of an encoder-decoder."""
    tokens: float = 1.0
    """Number of tokens that the block processes per token of the workload's sequence.

    The number is not 1 in the decoder of an encoder-decoder, whose sequences have another length.
    """
    vector_parameters: int = 0
    """Parameters of one block outside matrix products: biases, norms, convolutions and others."""
    extra: bool = False
    """True if the block is used only in training and not included in parameter counts (multi-token
    prediction).
    """

    @property
    def parameters(self) -> int:
        """Parameters of one of the blocks."""
        return sum(product.parameters for product in self.products) + self.vector_parameters


@functools.lru_cache(maxsize=1024)
def blocks_of(model: TransformerModel) -> tuple[Block, ...]:
    """Return the groups of equal blocks. The head is not among them (see `head_product`).

    The result is cached, because thousands of cases share a few models.
    """
    if model.attention_layers is not None or model.state_space_layers:
        return _hybrid_blocks(model)
    if model.kind == "encoder-decoder":
        return (
            _block(model, model.encoder_layers, causal=False, decoder=False),
            _block(model, model.layers, causal=True, cross=True),
        )
    groups: list[Block] = []
    causal = model.kind == "decoder"
    dense = min(model.dense_layers, model.layers) if model.is_moe else model.layers
    local = min(model.local_layers, model.layers) if model.sliding_window else 0
    for moe, layers in ((False, dense), (True, model.layers - dense)):
        share = round(local * layers / model.layers) if model.layers else 0
        if layers - share > 0:
            groups.append(_block(model, layers - share, causal=causal, moe=moe))
        if share > 0:
            groups.append(_block(model, share, causal=causal, moe=moe, window=model.sliding_window))
    if model.prediction_layers:
        groups.append(_prediction_block(model))
    return tuple(groups)


def head_product(model: TransformerModel) -> Product:
    """Return the matrix product that computes the logits."""
    return Product(inputs=model.hidden, outputs=model.head_outputs or model.vocab, part="head")


def norm_parameters(model: TransformerModel, width: int) -> int:
    """Return the parameters of one norm over `width` elements."""
    bias = model.norm == "layernorm" and model.bias if model.norm_bias is None else model.norm_bias
    return width * (2 if bias else 1)


def _block(
    model: TransformerModel,
    count: int,
    *,
    causal: bool,
    moe: bool = False,
    window: int = 0,
    cross: bool = False,
    decoder: bool = True,
) -> Block:
    products = list(_attention_products(model))
    attentions = [_attention(model, causal=causal, window=window)]
    vectors = _attention_vectors(model)
    norms = model.layer_norms
    if cross:
        products += _cross_products(model)
        attentions.append(_attention(model, causal=False, cross=True))
        vectors *= 2
        norms += 1
    feed_forward, width = (
        _expert_products(model) if moe else (_mlp_products(model, model.ffn_hidden), float(model.ffn_hidden))
    )
    vectors += _expert_vectors(model) if moe else _mlp_vectors(model, model.ffn_hidden)
    return Block(
        count=count,
        products=(*products, *feed_forward),
        attention=tuple(attentions),
        hidden=model.hidden,
        ffn_width=width,
        gated=model.gated_mlp,
        norms=norms,
        parallel=model.parallel_mlp,
        decoder=decoder,
        tokens=model.decoder_tokens if cross else 1.0,
        vector_parameters=vectors + norms * norm_parameters(model, model.hidden),
    )


def _prediction_block(model: TransformerModel) -> Block:
    """Return the block of multi-token prediction: a projection of two joined inputs, then a usual layer.

    Source: arXiv 2412.19437, section 2.2.
    """
    block = _block(model, model.prediction_layers, causal=True, moe=model.is_moe)
    joined = Product(inputs=2 * model.hidden, outputs=model.hidden, part="mlp")
    return msgspec.structs.replace(
        block, products=(joined, *block.products), norms=block.norms + 2, extra=True
    )


def _attention(model: TransformerModel, *, causal: bool, window: int = 0, cross: bool = False) -> Attention:
    latent = model.key_value_latent > 0
    return Attention(
        heads=model.heads,
        query_key_dim=model.head_dim + model.rotary_head_dim if latent else model.head_dim,
        value_dim=(model.value_head_dim or model.head_dim) if latent else model.head_dim,
        kv_heads=model.heads if latent else model.kv_heads,
        causal=causal,
        window=window,
        cross=cross,
        earlier=0.0 if cross else model.recurrence,
    )


def _query_products(model: TransformerModel, outputs: int) -> tuple[Product, ...]:
    if not model.query_latent:
        return (Product(inputs=model.hidden, outputs=outputs, part="attention"),)
    return (
        Product(inputs=model.hidden, outputs=model.query_latent, split="none", part="attention"),
        Product(inputs=model.query_latent, outputs=outputs, part="attention"),
    )


def _attention_products(model: TransformerModel) -> tuple[Product, ...]:
    hidden = model.hidden
    if model.key_value_latent:
        value_dim = model.heads * (model.value_head_dim or model.head_dim)
        return (
            *_query_products(model, model.heads * (model.head_dim + model.rotary_head_dim)),
            Product(
                inputs=hidden,
                outputs=model.key_value_latent + model.rotary_head_dim,
                split="none",
                part="attention",
            ),
            Product(
                inputs=model.key_value_latent,
                outputs=model.heads * model.head_dim + value_dim,
                part="attention",
            ),
            Product(inputs=value_dim, outputs=hidden, split="rows", part="attention"),
        )
    query, key_value = model.heads * model.head_dim, 2 * model.kv_heads * model.head_dim
    if model.query_latent:  # DeepSeek-V4: one head is both key and value
        inputs = (
            *_query_products(model, query),
            Product(inputs=hidden, outputs=key_value // 2, split="none", part="attention"),
        )
    else:
        gate = query if model.attention_gate else 0
        # One product computes queries, keys and values, for the tokens of earlier segments too.
        rows = 1.0 + model.recurrence
        inputs = (Product(inputs=hidden, outputs=query + gate + key_value, rows=rows, part="attention"),)
    if not model.output_latent:
        return (*inputs, Product(inputs=query, outputs=hidden, split="rows", part="attention"))
    return (
        *inputs,
        Product(inputs=query // model.output_groups, outputs=model.output_latent, part="attention"),
        Product(inputs=model.output_latent, outputs=hidden, split="rows", part="attention"),
    )


def _cross_products(model: TransformerModel) -> tuple[Product, ...]:
    """Return the products of cross-attention: the decoder's queries and the encoder's keys and values."""
    query, key_value = model.heads * model.head_dim, 2 * model.kv_heads * model.head_dim
    return (
        Product(inputs=model.hidden, outputs=query, part="cross-attention"),
        Product(
            inputs=model.hidden, outputs=key_value, rows=1.0 / model.decoder_tokens, part="cross-attention"
        ),
        Product(inputs=query, outputs=model.hidden, split="rows", part="cross-attention"),
    )


def _attention_vectors(model: TransformerModel) -> int:
    """Return the parameters in the biases of the projections, in the norms of queries, keys and latents, and
    in the sinks.
    """
    heads, kv_heads, size = model.heads, model.kv_heads, model.head_dim
    vectors = model.query_latent + model.key_value_latent
    if model.query_latent and not model.key_value_latent:
        vectors += size
    if model.bias or model.qkv_bias:
        vectors += (heads + 2 * kv_heads) * size
    if model.bias or "attention-output" in model.other_biases:
        vectors += model.hidden
    if model.query_key_norm != "none":
        vectors += (
            2 * norm_parameters(model, size) if model.query_key_norm == "head" else (heads + kv_heads) * size
        )
    return vectors + (heads if model.attention_sinks else 0)


def _mlp_products(model: TransformerModel, width: int) -> tuple[Product, ...]:
    return (
        Product(inputs=model.hidden, outputs=width * (2 if model.gated_mlp else 1)),
        Product(inputs=width, outputs=model.hidden, split="rows"),
    )


def _mlp_vectors(model: TransformerModel, width: int) -> int:
    has_biases = model.bias or "mlp" in model.other_biases
    return width * (2 if model.gated_mlp else 1) + model.hidden if has_biases else 0


def _expert_products(model: TransformerModel) -> tuple[tuple[Product, ...], float]:
    width, outer = model.expert_ffn_hidden or model.ffn_hidden, model.expert_latent or model.hidden
    rows, wide = float(model.experts_per_token), width * (2 if model.gated_mlp else 1)
    products = [Product(inputs=model.hidden, outputs=model.experts, split="none", part="router")]
    if model.expert_latent:
        products.append(Product(inputs=model.hidden, outputs=outer, split="none", part="shared"))
    products += [
        Product(inputs=outer, outputs=wide, rows=rows, experts=model.experts, part="experts"),
        Product(inputs=width, outputs=outer, split="rows", rows=rows, experts=model.experts, part="experts"),
    ]
    if model.expert_latent:
        products.append(Product(inputs=outer, outputs=model.hidden, split="none", part="shared"))
    shared = model.shared_ffn_hidden
    if shared:
        products += [
            Product(inputs=model.hidden, outputs=shared * (2 if model.gated_mlp else 1), part="shared"),
            Product(inputs=shared, outputs=model.hidden, split="rows", part="shared"),
        ]
    return tuple(products), rows * width + shared


def _expert_vectors(model: TransformerModel) -> int:
    vectors = model.experts * _mlp_vectors(model, model.expert_ffn_hidden or model.ffn_hidden)
    if model.bias or "router" in model.other_biases:
        vectors += model.experts
    if model.router_correction:
        vectors += model.experts
    if model.shared_ffn_hidden:
        vectors += _mlp_vectors(model, model.shared_ffn_hidden) + (
            model.hidden if model.shared_expert_gate else 0
        )
    return vectors


def _hybrid_blocks(model: TransformerModel) -> tuple[Block, ...]:
    """Return separate blocks for attention, state space, MLP and experts (Nemotron-H, Qwen3-Next)."""
    norm = norm_parameters(model, model.hidden)
    groups = []
    if model.state_space_layers:
        groups.append(_state_space_block(model, norm))
    if model.attention_layers:
        groups.append(
            Block(
                count=model.attention_layers,
                products=_attention_products(model),
                attention=(_attention(model, causal=True),),
                hidden=model.hidden,
                norms=1,
                vector_parameters=_attention_vectors(model) + norm,
            )
        )
    feed_forward = model.feed_forward_layers if model.feed_forward_layers is not None else model.layers
    dense = min(model.dense_layers, feed_forward) if model.is_moe else feed_forward
    if dense:
        groups.append(
            Block(
                count=dense,
                products=_mlp_products(model, model.ffn_hidden),
                hidden=model.hidden,
                ffn_width=float(model.ffn_hidden),
                gated=model.gated_mlp,
                norms=1,
                vector_parameters=_mlp_vectors(model, model.ffn_hidden) + norm,
            )
        )
    if feed_forward - dense > 0:
        products, width_met = _expert_products(model)
        groups.append(
            Block(
                count=feed_forward - dense,
                products=products,
                hidden=model.hidden,
                ffn_width=width_met,
                gated=model.gated_mlp,
                norms=1,
                vector_parameters=_expert_vectors(model) + norm,
            )
        )
    if model.prediction_layers:
        groups.append(_prediction_block(model))
    return tuple(groups)


def _state_space_block(model: TransformerModel, norm: int) -> Block:
    """Return a Mamba-2 mixer or a gated delta net.

    In a gated delta net, values and gate are as wide as the inner width, and keys as wide as the states.
    """
    inner, heads, width = (
        model.state_space_inner,
        model.state_space_heads,
        model.state_space_groups * model.state_space_states,
    )
    mamba = model.state_space_kind == "mamba2"
    channels = inner + 2 * width
    vectors = channels * (model.state_space_convolution + (1 if mamba else 0))
    vectors += 3 * heads + inner if mamba else 2 * heads + inner // heads
    return Block(
        count=model.state_space_layers,
        products=(
            Product(
                inputs=model.hidden,
                outputs=2 * inner + 2 * width + heads * (1 if mamba else 2),
                part="state-space",
            ),
            Product(inputs=inner, outputs=model.hidden, split="rows", part="state-space"),
        ),
        state_space=StateSpace(
            inner=inner, heads=heads, groups=model.state_space_groups, states=model.state_space_states
        ),
        hidden=model.hidden,
        norms=1,
        vector_parameters=vectors + norm,
    )
