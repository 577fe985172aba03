"""Activations that an implementation of the transformer keeps for the backward pass, bytes per token.

They depend on the code, not on the mathematics: for the same model one framework keeps up to 1.8 times as
much as another, so every coefficient names the operation that it belongs to.
"""

import functools
from typing import Literal, NamedTuple

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from recipes.job.models.blocks import Block, Product
from recipes.job.workload import AdapterTargets, TransformerModel
from recipes.predict.shares import is_adapted

Compute = Literal["fp32", "autocast", "cast", "raised", "fp8"]
"""Number formats of the forward pass.

`autocast`: autocast to 16 bits over fp32 parameters, with an fp32 residual stream. `cast`: 16 bits
throughout, with 16-bit parameters or parameters that are cast when they are gathered. `raised`: everything
except quantised weights is raised to fp32, so that the residual stream and the outputs of matrix products are
fp32 too (peft, prepare_model_for_kbit_training; products of bitsandbytes have the type of their input).
`fp8`: matrix products in 8 bits, and everything else in 16 bits.
"""


class SavedBytes(StrictRecord, kw_only=True):
    """Bytes per token and element that a layer keeps for its backward pass, by purpose."""

    rmsnorm: float
    """Per norm and unit of `hidden`: what RMSNorm keeps in addition to its output."""
    frozen_rmsnorm: float = 0.0
    """The same for a norm whose weight is not trained; 0 under autocast, because runs that train adapters do
    not use it.
    """
    layernorm: float
    frozen_layernorm: float = 0.0
    input: float
    """Input of a linear layer with a trained weight, such as the output of a norm or the input of the second
    MLP matrix.
    """
    gathers_inputs: bool = False
    """True if every tensor-parallel rank keeps the whole input with sequence parallelism, instead of its own
    part, which must be gathered again.
    """
    adapter_input: float = 0.0
    """Input of an adapter: a copy after dropout, and dropout's mask; 0 under autocast."""
    query: float
    """Per element of each query head."""
    key_value: float
    """Per element of each key head, and per element of each value head."""
    repeats_keys: bool = True
    """True if keys and values are kept once for every query head, although several query heads share them."""
    attention_output: float
    """Per query head and per element of a value head: attention's output.

    This tensor is also the input of the output projection.
    """
    rotary: float = 0.0
    """Per element of each query head: what rotary positions keep in addition."""
    gated: float
    """Per unit of the MLP's width: the outputs of gate and up before they are multiplied."""
    plain: float
    """Per unit of the MLP's width, in an MLP with two matrices: the input of the activation function."""
    scores: float = 5.0
    """Per query head, token and key without fused attention: scores and their softmax."""
    dropped_scores: float = 0.0
    """The same for a model with dropout of scores, which also keeps the dropped copy and a mask of a byte; 0
    if dropout changes nothing.
    """
    mask: float = 0.0
    """Per unit of `hidden`, for each dropout on the residual stream."""
    head: float = 4.0
    """Per query head with fused attention: the log-sum-exp in fp32."""
    expert_output: float = 2.0
    """Per routed copy of a token and unit of `hidden`: an expert's output before it is weighted."""
    state_space: float = 12.0
    """Per unit of a state-space mixer's inner width: projections, convolution, scan and gated norm."""
    residual: float
    """Per unit of `hidden`: one copy of the residual stream, which is all that full checkpointing keeps."""
    logits: float
    """Per vocabulary entry at the peak of the loss's backward pass."""
    raised_logits: float = 0.0
    """The same for 16 bits throughout if the model's code raises logits to fp32; 0 if raising changes
    nothing.
    """
    split_logits: float = 0.0
    """The same if the vocabulary is divided over tensor-parallel ranks; 0 if the division changes nothing."""


class Implementation(StrictRecord, kw_only=True):
    """One implementation's coefficients."""

    id: str
    title: str
    saved: dict[Compute, SavedBytes]
    weight_cache_bytes: dict[Compute, float]
    """Per matmul parameter: low-precision copies of weights, kept until the backward pass has used them."""
    transposes_on: tuple[str, ...] = ()
    """Architectures whose 8-bit products take operands in one layout only.

    A transposed copy of each 8-bit weight is then kept too, one byte per weight. Formats that scale blocks
    along a row or a column keep both copies on every architecture.
    """
    source: str
    date: str

    def kept(self, compute: Compute) -> SavedBytes:
        """Return the coefficients for these number formats, or those for 16 bits throughout if there are
        none.

        For `raised`, most are the coefficients of fp32, and those of attention and logits are of 16 bits.
        """
        if compute == "raised":
            # under autocast attention and the loss's logits are still 16-bit
            wide, narrow = self.saved["fp32"], self.kept("cast")
            kept = (
                "query",
                "key_value",
                "attention_output",
                "rotary",
                "logits",
                "split_logits",
                "adapter_input",
            )
            return msgspec.structs.replace(wide, **{name: getattr(narrow, name) for name in kept})
        return self.saved.get(compute) or self.saved["cast"]


@functools.lru_cache(maxsize=1)
def load_implementations() -> dict[str, Implementation]:
    """Return all rows of `recipes/data/implementations.toml` by id."""
    return {row.id: row for row in load_rows("recipes", "implementations", Implementation)}


class Kept(NamedTuple):
    """Bytes per token that one block keeps on one rank."""

    fixed: float
    half: float
    """Bytes per token if only the block's input and the outputs of attention and of every second product are
    kept.
    """
    per_key: float
    """Bytes per token and key if scores are written to memory."""


@functools.lru_cache(maxsize=8192)
def kept_by(
    block: Block,
    saved: SavedBytes,
    *,
    rms: bool,
    rotary: bool,
    tensor: int,
    split_norms: bool,
    adapted: AdapterTargets | None,
    quantised: bool,
    fused: bool,
    dropout: bool = False,
    compiled: bool = False,
) -> Kept:
    """Return the bytes per token that one block keeps for its backward pass.

    `tensor` ranks share a layer's matrices, and with sequence parallelism (`split_norms`) its norms too.
    `adapted` is None if the weights are trained, else the layers with adapters: a frozen linear layer does
    not need its input for the backward pass. Its adapter needs the input, and the kernels of `quantised`
    weights keep the input anyway.
    """
    norm_share = tensor if split_norms else 1
    trained_norm, frozen_norm = (
        (saved.rmsnorm, saved.frozen_rmsnorm) if rms else (saved.layernorm, saved.frozen_layernorm)
    )
    norm = frozen_norm if adapted else trained_norm
    total = block.norms * block.hidden * (norm + (saved.mask if dropout else 0.0)) / norm_share
    # Outputs of adapters for queries and values are counted for keys too: published peaks grow as if all
    # attention projections had adapters.
    keeping = "attention" if adapted == "query-value" else adapted
    whole_input = 1 if saved.gathers_inputs else norm_share
    kept_inputs = set()  # if several products have the same input, it is kept once
    for product in block.products:
        share = tensor if product.split == "rows" else whole_input
        if keeping is not None and is_adapted(product, keeping):
            branches = 2 if block.gated and product.part == "mlp" and product.split == "columns" else 1
            total += branches * product.rows * product.inputs * saved.adapter_input / share
        if product.part in ("attention", "cross-attention") and product.split == "rows":
            continue  # attention itself keeps this input
        key = (
            product.part if not block.parallel or product.inputs != block.hidden else "",
            product.inputs,
            product.rows,
        )
        if key in kept_inputs or (adapted and (not quantised or product.part == "router")):
            continue
        kept_inputs.add(key)
        total += product.rows * product.inputs * saved.input / share
        if product.experts > 1 and product.split == "rows":
            total += product.rows * block.hidden * saved.expert_output / norm_share
    per_key = 0.0
    selected = _selected_outputs(block, tensor, norm_share, compiled=compiled)
    for attention in block.attention:
        keys = attention.heads if saved.repeats_keys else attention.kv_heads
        elements = (
            attention.heads * attention.query_key_dim * (saved.query + (saved.rotary if rotary else 0.0))
        )
        elements += keys * (attention.query_key_dim + attention.value_dim) * saved.key_value
        elements += attention.heads * attention.value_dim * saved.attention_output
        if fused:
            elements += attention.heads * saved.head
        else:
            scores = attention.heads * ((dropout and saved.dropped_scores) or saved.scores) / tensor
            per_key += scores * (1.0 + attention.earlier)
        total += elements / tensor
        selected += attention.heads * attention.value_dim / tensor
    total += block.ffn_width * (saved.gated if block.gated else saved.plain) / tensor
    if block.state_space is not None:
        total += block.state_space.inner * saved.state_space / tensor
    half = block.hidden * saved.residual / norm_share + selected * saved.input
    return Kept(fixed=total * block.tokens, half=half * block.tokens, per_key=per_key * block.tokens)


def _selected_outputs(block: Block, tensor: int, norm_share: int, *, compiled: bool) -> float:
    """Return the elements per token of every second product's output, in the order in which products run.

    Queries, keys and values count as three products, and gate and up as two (torchtitan,
    distributed/activation_checkpoint.py: every second `aten.mm`). Grouped products are always recomputed.
    Eager code keeps the output of the last product too; a compiler leaves it out, because no gradient needs
    it.
    """
    outputs: list[float] = []
    for product in block.products:
        if product.experts > 1:
            continue
        whole = product.rows * product.outputs / (tensor if product.split == "columns" else norm_share)
        outputs += [whole * part for part in _parts_of(block, product)]
    last = len(outputs) - 1
    return sum(
        size for index, size in enumerate(outputs) if index % 2 == 0 and not (compiled and index == last)
    )


def _parts_of(block: Block, product: Product) -> tuple[float, ...]:
    """Return how the outputs of `product` are shared among the products that the model's code runs for it."""
    if product.split != "columns":
        return (1.0,)
    if product.part in ("mlp", "shared") and block.gated:
        return 0.5, 0.5
    if product.part == "attention" and block.attention:
        attention = block.attention[0]
        key = attention.kv_heads * attention.query_key_dim / product.outputs
        value = attention.kv_heads * attention.value_dim / product.outputs
        if key + value < 1.0:
            return 1.0 - key - value, key, value
    return (1.0,)


def root_kept(model: TransformerModel, saved: SavedBytes, norm_share: int) -> float:
    """Return the bytes per token of the final norm and the head's input.

    `norm_share` ranks divide the tokens of norms.
    """
    norm = saved.rmsnorm if model.norm == "rmsnorm" else saved.layernorm
    return model.hidden * (norm / norm_share + saved.input / (1 if saved.gathers_inputs else norm_share))
