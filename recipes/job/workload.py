"""The training job of the user: model, batch, precision and optimizer."""

from typing import Literal, TypeAlias

from probes.base.record import StrictRecord

Precision = Literal["bf16", "fp16", "fp32", "tf32", "fp8", "mxfp8", "nvfp4"]
"""Number format of matrix products.

With formats of 16 bits and fewer, training usually keeps fp32 master weights (mixed precision); exceptions
are `Workload.pure_weights`, frozen weights, and optimizers without master weights.
"""

ModelKind = Literal["decoder", "encoder", "encoder-decoder"]
BiasPlace = Literal["attention-output", "mlp", "router", "head"]


class TransformerModel(StrictRecord, kw_only=True):
    """A transformer.

    Sizes are per layer. Fewer `kv_heads` than `heads` mean grouped-query attention; a single one means
    multi-query attention.
    """

    id: str
    title: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_hidden: int
    vocab: int
    gated_mlp: bool = True
    """True if the MLP has three matrices (gate, up, down) instead of two."""
    tied_embeddings: bool = False
    learned_positions: int = 0
    """Rows of a learned position table; 0 if there is no such table, for example with rotary positions."""
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    bias: bool = False
    """True if linear layers have biases."""
    qkv_bias: bool = False
    """True if only the query, key and value projections have biases (Qwen2)."""
    other_biases: tuple[BiasPlace, ...] = ()
    """Further places of biases in models with biases in some linear layers only (GPT-J, GPT-OSS, Phi)."""
    norm_bias: bool | None = None
    """True if norms have a bias; None: a LayerNorm has a bias if the linear layers have biases."""
    layer_norms: int = 2
    """Number of norms over the hidden size in one layer: 1 if attention and MLP share a norm, 4 if there are
    also norms after attention and after the MLP.
    """
    parallel_mlp: bool = False
    """True if attention and MLP read the same input, and their outputs are added up (GPT-NeoX, Falcon, Phi,
    Command).
    """
    query_key_norm: Literal["none", "head", "full"] = "none"
    """Norm of queries and keys: none, over each head separately, or over all heads together."""
    attention_gate: bool = False
    """True if attention's output has a gate that is as wide as the queries (Qwen3-Next)."""
    attention_sinks: bool = False
    """True if each head has a learned logit in addition to the scores (GPT-OSS)."""
    embedding_norm: bool = False
    """True if a norm directly follows the embedding (BERT, BLOOM)."""
    final_norm: bool = True
    pooler: bool = False
    """True if the model has a dense layer over the first token (BERT)."""
    embedding_size: int = 0
    """Width of the token table if projections convert it to the hidden size; 0: the hidden size."""
    position_buckets: int = 0
    """Rows of the table of relative positions (T5).

    There is one table for each stack of layers, with a column for each head.
    """
    recurrence: float = 0.0
    """Earlier tokens, per token of a sequence, for which each layer computes keys and values again.

    Scores then have a second product, of the queries with the relative positions of the keys (Transformer-XL,
    arXiv 1901.02860, section 3.3).
    """
    kind: ModelKind = "decoder"
    encoder_layers: int = 0
    """Number of encoder layers in an encoder-decoder; `layers` is the number of decoder layers.

    Each decoder layer has attention over itself and over the encoder.
    """
    decoder_tokens: float = 1.0
    """Decoder tokens per encoder token; `sequence_length` is the length of the encoder's input."""
    head_outputs: int = 0
    """Number of logits per token if an adaptive softmax computes only some of them; 0: one logit for each
    entry of the vocabulary.
    """
    head_fraction: float = 1.0
    """Share of the tokens for which the head computes logits in pre-training.

    A masked language model needs logits only for masked tokens.
    """
    dropout: bool = False
    """True if a decoder has dropout in its published configuration (GPT-2)."""
    raises_logits: bool = True
    """True if the model's Hugging Face code computes the loss from fp32 logits even in 16-bit runs."""
    token_types: int = 0
    """Rows of the token type table (BERT)."""
    sliding_window: int = 0
    """Window of layers with local attention, in tokens; 0 if no layer has local attention."""
    local_layers: int = 0
    """Number of layers whose attention is limited to `sliding_window`."""
    experts: int = 0
    """Number of routed experts in a mixture-of-experts layer; 0 for a dense model."""
    experts_per_token: int = 0
    expert_ffn_hidden: int = 0
    shared_ffn_hidden: int = 0
    """Total width of the shared experts of a layer."""
    shared_expert_gate: bool = False
    """True if a gate with one output scales the output of the shared expert (Qwen2-MoE)."""
    expert_latent: int = 0
    """Width to which tokens are projected before the routed experts; after the experts they are projected
    back. 0: the hidden size.
    """
    router_correction: bool = False
    """True if each expert has a learned bias on the router's score, which balances experts without a loss
    (DeepSeek-V3).
    """
    dense_layers: int = 0
    """Number of layers in a mixture of experts that have one dense MLP of width `ffn_hidden` instead of
    experts.
    """
    prediction_layers: int = 0
    """Extra layers that predict tokens further ahead in training (multi-token prediction).

    The parameter count does not include them.
    """
    query_latent: int = 0
    """Rank of the query's projection in multi-head latent attention (MLA)."""
    key_value_latent: int = 0
    """Rank of the joint key and value projection of MLA; 0 for ordinary attention."""
    output_latent: int = 0
    """Rank of attention's output projection if the projection has two factors; the first factor has
    `output_groups` groups (DeepSeek-V4).
    """
    output_groups: int = 1
    rotary_head_dim: int = 0
    """MLA: size of the part of a head with positions; `head_dim` is the part without positions."""
    value_head_dim: int = 0
    """MLA: size of a value head."""
    attention_layers: int | None = None
    """Number of attention layers in a hybrid model, where each layer is only one mixer; None if each layer
    has attention.
    """
    feed_forward_layers: int | None = None
    """Number of layers in a hybrid model that are an MLP or a mixture of experts; None if each layer has an
    MLP.
    """
    state_space_layers: int = 0
    """Number of layers in a hybrid model that are a state-space mixer (Mamba-2) or linear attention (gated
    delta net).
    """
    state_space_kind: Literal["mamba2", "gated-delta"] = "mamba2"
    state_space_inner: int = 0
    """Inner width of a state-space mixer (heads x head size)."""
    state_space_heads: int = 0
    state_space_groups: int = 0
    state_space_states: int = 0
    state_space_convolution: int = 4
    """Length of the causal convolution before the mixer, in tokens."""
    sequence_length: int
    """Sequence length of the published training recipe."""
    learning_rate: float = 0.0
    """Peak learning rate of a published recipe, at `learning_rate_batch_tokens`; 0 if the row states none."""
    learning_rate_batch_tokens: int = 0
    learning_rate_from: str = ""
    """Model or recipe from which the rate and the batch were taken; empty if they are the model's own."""
    names: tuple[str, ...] = ()
    """Other names of the model in tables of published runs, in lower case with `-` between words.

    Separators do not matter.
    """
    source: str
    date: str

    @property
    def is_moe(self) -> bool:
        return self.experts > 0

    @property
    def has_dropout(self) -> bool:
        """Return whether training has dropout on the residual stream and attention's probabilities.

        Models with an encoder have dropout.
        """
        return self.dropout or self.kind != "decoder"


class VisionModel(StrictRecord, kw_only=True):
    """An image model, described by its counts for one image of `image_size`.

    A step is a forward and a backward pass.
    """

    id: str
    title: str
    parameters: int
    image_size: int
    """Side of a square (or cube) with as many pixels (or voxels) as the input; 0 if the input is not an
    image.
    """
    block_parameters: int = 0
    """Parameters of the largest block that FSDP gathers; 0 if the whole model is one unit."""
    root_parameters: int = 0
    """Parameters outside the blocks that FSDP gathers."""
    dimensions: int = 2
    fixed_size: bool = False
    """True if the name implies the input size (SSD300)."""
    forward_flops: float
    """FLOPs of a forward pass, two per multiply-add."""
    dense_flops: float
    """FLOPs of a step in matrix products and in convolutions over all channels, which suit tensor cores."""
    grouped_flops: float
    """FLOPs of a step in convolutions in groups of several channels."""
    product_flops: float = 0.0
    """Part of the dense FLOPs in matrix products."""
    spatial_flops: float = 0.0
    """Part of the dense FLOPs in 3x3 convolutions of many channels without stride or dilation.

    Winograd's algorithm accelerates them.
    """
    depthwise_flops: float = 0.0
    """FLOPs of a step in depthwise convolutions, which belong neither to the dense nor to the grouped
    convolutions.
    """
    convolution_elements: float
    """Elements that dense and grouped convolutions read and write in a step."""
    matrix_elements: float
    """Elements that matrix products read and write in a step."""
    depthwise_elements: float
    """Elements that depthwise convolutions read and write in a step."""
    pointwise_elements: float
    """Elements that all other operations read and write: normalisation, activation, addition, pooling,
    copies.
    """
    saved_elements: float
    """Number of elements that are kept for the backward pass."""
    operators: int
    """Number of kernels of an eager step, which does not depend on the batch."""
    image_operators: int = 0
    """Number of further kernels for each image of the batch, which match and sample boxes in detection."""
    source: str
    date: str

    @property
    def gathered_parameters(self) -> int:
        """Parameters that fully sharded ranks gather at the same time: the root, one block and the next."""
        if not self.block_parameters:
            return self.parameters
        return min(self.parameters, self.root_parameters + 2 * self.block_parameters)


Optimizer = Literal[
    "adamw",
    "adamw-8bit",
    "adamw-4bit",
    "adam-mini",
    "sgd",
    "adafactor",
    "lion",
    "lion-8bit",
    "lamb",
    "lars",
    "muon",
    "galore",
    "galore-8bit",
    "lomo",
]
OptimizerStep = Literal["after", "fused", "in-backward"]
"""Moment at which the optimizer updates the weights.

`after`: after the backward pass; some frameworks then run one operation at a time over all tensors. `fused`:
after the backward pass, each tensor in one kernel. `in-backward`: each tensor as soon as its gradient exists;
the gradient is then freed.
"""
Tuning = Literal["full", "lora", "qlora"]
AdapterTargets = Literal["query-value", "attention", "all"]
"""Linear layers that LoRA adapts."""


def stored_bits(tuning: Tuning, stated: Literal[4, 8, 16] = 16) -> Literal[4, 8, 16]:
    """Return the bits of a frozen weight: QLoRA quantises to 4 bits, unless a row states 8."""
    if tuning != "qlora":
        return 16
    return 4 if stated == 16 else stated


FULL_PRECISIONS = ("fp32", "tf32")
"""Precisions whose weights, activations and gradients all have 32 bits."""
NARROW_PRECISIONS = ("fp8", "mxfp8", "nvfp4")
"""Precisions that only matrix products use; all other operations are computed in 16 bits."""


DEFAULT_ADAPTER_RANK = 16
"""Rank of LoRA's matrices that is assumed if the workload states no rank."""


class Workload(StrictRecord, kw_only=True, tag_field="task", tag="tokens"):
    """One training job of a transformer, independent of the machine."""

    model: TransformerModel
    sequence_length: int
    global_batch: int
    """Sequences per optimizer step.

    This number affects convergence, so the planner never changes it silently.
    """
    precision: Precision = "bf16"
    optimizer: Optimizer = "adamw"
    steps: int = 1000
    """Number of steps of the run, from which the warm-up is derived."""
    pure_weights: bool = False
    """True if weights, gradients and optimizer states have the precision of the matrix products, without fp32
    masters.
    """
    tuning: Tuning = "full"
    """`lora` trains adapters over frozen 16-bit weights, `qlora` over frozen quantised weights."""
    base_bits: Literal[4, 8, 16] = 16
    """Bits per frozen weight under adapters."""
    fine_tuning: bool = False
    """True if samples are instructions or questions, which may be shorter than `sequence_length`; False for
    packed text.
    """
    mean_length: float | None = None
    """Mean number of tokens per sequence; None: every sequence has `sequence_length` tokens, or
    the software determines how many.
    """
    length_stated: bool = True
    """False if the length of sequences is unknown: `sequence_length` is then only the length to which longer
    samples are cut.
    """
    optimizer_step: OptimizerStep = "after"
    pages_states: bool = False
    """True if optimizer states are in memory that the driver moves between GPU and host, outside the
    framework's allocator.
    """
    adapter_rank: int = DEFAULT_ADAPTER_RANK
    """Rank of LoRA's matrices.

    The stack's row determines which linear layers have such matrices.
    """

    @property
    def tokens_per_step(self) -> int:
        return self.global_batch * self.sequence_length


class VisionWorkload(StrictRecord, kw_only=True, tag_field="task", tag="images"):
    """Training of an image model, independent of the machine."""

    model: VisionModel
    image_size: int
    """Side of the images in pixels; 0 if the model's input is not an image."""
    global_batch: int
    """Images per optimizer step."""
    precision: Precision = "fp16"
    optimizer: Optimizer = "sgd"
    steps: int = 1000
    """Number of steps of the run, from which the warm-up is derived."""


AnyWorkload: TypeAlias = Workload | VisionWorkload
"""A training job of any kind."""


STATE_BYTES: dict[Optimizer, float] = {
    "adamw": 8.0,
    "adamw-8bit": 2.0,
    "adamw-4bit": 1.06,
    "adam-mini": 4.0,
    "sgd": 4.0,
    "adafactor": 0.05,
    "lion": 4.0,
    "lion-8bit": 1.0,
    "lamb": 8.0,
    "lars": 4.0,
    "muon": 4.0,
    "galore": 2.7,
    "galore-8bit": 0.9,
    "lomo": 0.0,
}
"""Bytes of optimizer states per parameter if the weights have 32 bits.

Adam and LAMB have two moments; SGD with momentum, Lion and Muon have one (with Muon, tables and norms have
two). Adafactor keeps one value per row and per column (arXiv 1804.04235). 8-bit Adam keeps two quantised
moments (arXiv 2110.02861), and 4-bit Adam also a scale for each 128 values (arXiv 2309.01507). Adam-mini
keeps one moment and one number per block (arXiv 2406.16793). GaLore has projections and two moments; with a
rank of a quarter of the hidden size, these are a third of Adam's bytes (arXiv 2403.03507, table 2). LOMO has
no states (arXiv 2306.09782).
"""

QUANTISED: frozenset[Optimizer] = frozenset(("adamw-8bit", "adamw-4bit", "lion-8bit", "galore-8bit"))
"""Optimizers whose states keep their size when the weights have 16 bits."""

_BY_TENSOR: frozenset[Optimizer] = QUANTISED | {"adafactor", "adam-mini", "galore", "lomo"}
"""Optimizers that step each tensor by itself (bitsandbytes, torchao, transformers).

Their temporary tensors are smaller than the model.
"""


def steps_all_at_once(workload: Workload) -> bool:
    """Return whether the optimizer steps all tensors together, after the backward pass."""
    return workload.optimizer_step == "after" and workload.optimizer not in _BY_TENSOR


_ADAMW_BYTES = 12.0 + 2.0 * 8.0


def traffic_share(optimizer: Optimizer, *, pure: bool = False) -> float:
    """Return the bytes that a step reads and writes per parameter, relative to AdamW with everything in fp32.

    A step reads weight and gradient, writes the weight, and reads and writes the states. If everything has 16
    bits (`pure`), the traffic is half as large.
    """
    states, weights = STATE_BYTES[optimizer], 12.0
    if pure:
        weights /= 2.0
        states /= 1.0 if optimizer in QUANTISED else 2.0
    return (weights + 2.0 * states) / _ADAMW_BYTES


WITHOUT_MASTERS: frozenset[Optimizer] = frozenset({"lomo"})
"""Optimizers that update 16-bit weights themselves.

They need memory only for the weights and one layer's gradient (arXiv 2306.09782, section 3.1).
"""
