"""The training job of the user, and the settings that the user fixed."""

from __future__ import annotations

from typing import Literal

from probes.base.record import StrictRecord

Precision = Literal["bf16", "fp16", "fp32", "tf32", "fp8", "mxfp8", "nvfp4"]
"""Number format of matrix products.

Formats of 16 bits and fewer are mixed precision, with fp32 master weights, unless the workload has pure
weights.
"""

PLANNED_PRECISIONS = ("bf16", "fp32")
"""Precisions that the planner offers and the reference workload can run."""

ModelKind = Literal["decoder", "encoder", "encoder-decoder"]
BiasPlace = Literal["attention-output", "mlp", "router", "head"]


class TransformerModel(StrictRecord, kw_only=True):
    """A transformer.

    Sizes are per layer. Fewer `kv_heads` than `heads` are grouped-query attention, a single one is
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
    """Three matrices (gate, up, down) instead of two."""
    tied_embeddings: bool = False
    learned_positions: int = 0
    """Rows of a learned position table; 0 for rotary positions."""
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    bias: bool = False
    """Biases in the linear layers."""
    qkv_bias: bool = False
    """Biases in the query, key and value projections alone (Qwen2)."""
    other_biases: tuple[BiasPlace, ...] = ()
    """Further places of biases in models with biases in some linear layers only (GPT-J, GPT-OSS, Phi)."""
    norm_bias: bool | None = None
    """Whether norms have a bias; None: a LayerNorm has a bias if the linear layers have."""
    layer_norms: int = 2
    """Norms over the hidden size in one layer: 1 if attention and MLP share a norm, 4 with norms after both
    as well.
    """
    parallel_mlp: bool = False
    """Attention and MLP read the same input, and their outputs are added up (GPT-NeoX, Falcon, Phi,
    Command).
    """
    query_key_norm: Literal["none", "head", "full"] = "none"
    """Norm of queries and keys, of each head by itself or of all heads together."""
    attention_gate: bool = False
    """A gate as wide as the queries on attention's output (Qwen3-Next)."""
    attention_sinks: bool = False
    """One learned logit per head beside the scores (GPT-OSS)."""
    embedding_norm: bool = False
    """A norm right after the embedding (BERT, BLOOM)."""
    final_norm: bool = True
    pooler: bool = False
    """A dense layer over the first token (BERT)."""
    embedding_size: int = 0
    """Width of the token table if projections join it to the hidden size; 0: the hidden size."""
    position_buckets: int = 0
    """Rows of a table of relative positions, one column per head, one table per stack of layers (T5)."""
    kind: ModelKind = "decoder"
    encoder_layers: int = 0
    """Encoder layers of an encoder-decoder, whose `layers` are the decoder's.

    Each decoder layer has attention over itself and over the encoder.
    """
    decoder_tokens: float = 1.0
    """Tokens of the decoder per token of the encoder, whose length `sequence_length` is."""
    head_outputs: int = 0
    """Logits of one token if an adaptive softmax leaves most out; 0: one for each row of the
    vocabulary.
    """
    head_fraction: float = 1.0
    """Share of the tokens that the head gives logits for, in pre-training: the masked ones of a masked
    language model.
    """
    dropout: bool = False
    """Whether a decoder has dropout in its published configuration (GPT-2)."""
    raises_logits: bool = True
    """Whether its Hugging Face code computes the loss from fp32 logits in 16-bit runs too."""
    token_types: int = 0
    """Rows of a token type table (BERT)."""
    sliding_window: int = 0
    """Tokens that a layer with local attention looks back; 0 if no layer has local attention."""
    local_layers: int = 0
    """Layers whose attention is limited to `sliding_window`."""
    experts: int = 0
    """Routed experts of a mixture-of-experts layer; 0 for a dense model."""
    experts_per_token: int = 0
    expert_ffn_hidden: int = 0
    shared_ffn_hidden: int = 0
    """Width of all shared experts of a layer together."""
    shared_expert_gate: bool = False
    """A gate of one output decides how much of the shared expert's output is taken (Qwen2-MoE)."""
    expert_latent: int = 0
    """Width that tokens are projected to before routed experts and back after them; 0: the hidden size."""
    router_correction: bool = False
    """A learned number per expert beside the router's score, for balance without a loss (DeepSeek-V3)."""
    dense_layers: int = 0
    """Layers of a mixture of experts that have one dense MLP of `ffn_hidden` instead."""
    prediction_layers: int = 0
    """Extra layers that predict tokens further ahead in training (multi-token prediction). Not in the
    parameter count.
    """
    query_latent: int = 0
    """Rank of the query's projection in multi-head latent attention (MLA)."""
    key_value_latent: int = 0
    """Rank of the joint key and value projection of MLA; 0 for ordinary attention."""
    output_latent: int = 0
    """Rank of attention's output projection if it has two factors, the first in `output_groups` groups
    (DeepSeek-V4).
    """
    output_groups: int = 1
    rotary_head_dim: int = 0
    """MLA: part of a head that carries positions, beside `head_dim` that does not."""
    value_head_dim: int = 0
    """MLA: size of a value head."""
    attention_layers: int | None = None
    """Attention layers of a hybrid model, in which a layer is one mixer; None if each layer has attention."""
    feed_forward_layers: int | None = None
    """Layers of a hybrid model that are an MLP or a mixture of experts; None if each layer has one."""
    state_space_layers: int = 0
    """Hybrid models: how many layers are a state-space mixer (Mamba-2) or linear attention (gated delta
    net).
    """
    state_space_kind: Literal["mamba2", "gated-delta"] = "mamba2"
    state_space_inner: int = 0
    """Inner width of a state-space mixer (heads x head size)."""
    state_space_heads: int = 0
    state_space_groups: int = 0
    state_space_states: int = 0
    state_space_convolution: int = 4
    """Taps of the causal convolution before the mixer."""
    sequence_length: int
    """The length that the published recipe trains with."""
    learning_rate: float = 0.0
    """Peak learning rate of the published recipe, at `learning_rate_batch_tokens`; 0 if nobody published
    one.
    """
    learning_rate_batch_tokens: int = 0
    names: tuple[str, ...] = ()
    """Other names in tables of published runs, in lower case with `-` between words. Separators do not
    matter.
    """
    source: str
    date: str

    @property
    def is_moe(self) -> bool:
        return self.experts > 0

    @property
    def has_dropout(self) -> bool:
        """Whether training has dropout on the residual stream and attention's probabilities.

        Models with an encoder have.
        """
        return self.dropout or self.kind != "decoder"


class VisionModel(StrictRecord, kw_only=True):
    """An image model by its counts for one image of `image_size`; a step is a forward and a backward pass."""

    id: str
    title: str
    parameters: int
    image_size: int
    """Side of the square, or of the cube, that has as many samples as the input; 0 if the input is no
    image.
    """
    block_parameters: int = 0
    """Parameters of the largest block that FSDP gathers; 0 if the whole model is one unit."""
    root_parameters: int = 0
    """Parameters outside the blocks that FSDP gathers."""
    dimensions: int = 2
    fixed_size: bool = False
    """Whether the name means one input size (SSD300)."""
    forward_flops: float
    """FLOPs of a forward pass, two per multiply-add."""
    dense_flops: float
    """FLOPs of a step in convolutions over all channels and matrix products, which tensor cores run well."""
    grouped_flops: float
    """FLOPs of a step in convolutions in groups of several channels."""
    product_flops: float = 0.0
    """Part of the dense FLOPs in matrix products."""
    spatial_flops: float = 0.0
    """Part of the dense FLOPs in 3x3 convolutions of many channels without stride or dilation.

    Winograd's algorithm accelerates them.
    """
    depthwise_flops: float = 0.0
    """FLOPs of a step in depthwise convolutions, which count neither as dense nor as grouped."""
    convolution_elements: float
    """Elements that dense and grouped convolutions read and write in a step."""
    matrix_elements: float
    """Elements that matrix products read and write in a step."""
    depthwise_elements: float
    """Elements that depthwise convolutions read and write in a step."""
    pointwise_elements: float
    """Elements that all else reads and writes: normalisation, activation, addition, pooling, copies."""
    saved_elements: float
    """Elements that are kept for the backward pass."""
    operators: int
    """Kernels of an eager step, whatever the batch."""
    image_operators: int = 0
    """Further kernels for each image of the batch: matching and sampling of boxes."""
    source: str
    date: str

    @property
    def gathered_parameters(self) -> int:
        """Parameters that fully sharded ranks gather at a time: the root, this block and the next."""
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
"""Time of the optimizer's step.

`after` the backward pass, operation by operation over all tensors if the stack does that; `fused`, each
tensor in one kernel; `in-backward`, each tensor as soon as its gradient exists, which is then freed.
"""
Tuning = Literal["full", "lora", "qlora"]
AdapterTargets = Literal["query-value", "attention", "all"]
"""Linear layers that LoRA adapts."""


FULL_PRECISIONS = ("fp32", "tf32")
"""Precisions whose weights, activations and gradients all have 32 bits."""
NARROW_PRECISIONS = ("fp8", "mxfp8", "nvfp4")
"""Precisions of matrix products alone: all else is computed in 16 bits."""


class Workload(StrictRecord, kw_only=True):
    """One training job, independent of the machine."""

    model: TransformerModel
    sequence_length: int
    global_batch: int
    """Sequences per optimizer step. A convergence setting: the planner never changes it silently."""
    precision: Precision = "bf16"
    optimizer: Optimizer = "adamw"
    steps: int = 1000
    """Length of the run, for the warm-up."""
    pure_weights: bool = False
    """Weights, gradients and optimizer states all in the precision of the products, without fp32 masters."""
    tuning: Tuning = "full"
    """`lora` trains adapters over frozen 16-bit weights, `qlora` over quantised ones."""
    base_bits: Literal[4, 8, 16] = 16
    """Bits per frozen weight under adapters."""
    fine_tuning: bool = False
    """Whether samples are instructions or questions, which may be shorter than `sequence_length`, not packed
    text.
    """
    length_stated: bool = True
    """False if the length of sequences is unknown: `sequence_length` is then only the end of longer samples.
    """
    optimizer_step: OptimizerStep = "after"
    pages_states: bool = False
    """Optimizer states lie in memory that the driver moves between GPU and host, beside what the framework
    allocates.
    """
    adapter_rank: int = 16
    """Rank of LoRA's matrices, in every linear layer of a block unless the stack's row has other layers."""

    @property
    def tokens_per_step(self) -> int:
        return self.global_batch * self.sequence_length


class VisionWorkload(StrictRecord, kw_only=True):
    """Training of an image model, independent of the machine."""

    model: VisionModel
    image_size: int
    global_batch: int
    """Images per optimizer step."""
    precision: Precision = "fp16"
    optimizer: Optimizer = "sgd"


class Pins(StrictRecord, kw_only=True):
    """Settings that the user fixed. The planner obeys or reports why it cannot; it never overrides them."""

    strategy: str | None = None
    micro_batch: int | None = None
    activation_checkpointing: Literal["none", "full"] | None = None
    learning_rate: float | None = None
    warmup_steps: int | None = None
    ranks_per_node: int | None = None


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
"""Bytes of fp32 states per parameter.

Adam and LAMB have two moments; momentum, Lion and Muon have one (Muon's tables and norms have two). Adafactor
has rows and columns (arXiv 1804.04235), 8-bit Adam two quantised moments (arXiv 2110.02861), 4-bit Adam also
a scale for each 128 (arXiv 2309.01507), Adam-mini one moment and a number per block (arXiv 2406.16793).
GaLore has projections and two moments of a quarter of the rank, a third of Adam's (arXiv 2403.03507, table
2). LOMO has none (arXiv 2306.09782).
"""

QUANTISED: frozenset[Optimizer] = frozenset(("adamw-8bit", "adamw-4bit", "lion-8bit", "galore-8bit"))
"""Optimizers whose states have the same size beside 16-bit weights."""

_BY_TENSOR: frozenset[Optimizer] = QUANTISED | {"adafactor", "adam-mini", "galore", "lomo"}
"""Optimizers that step each tensor by itself (bitsandbytes, torchao, transformers).

Their temporaries are smaller than the model.
"""


def steps_all_at_once(workload: Workload) -> bool:
    """Return whether the optimizer steps all tensors together, after the backward pass."""
    return workload.optimizer_step == "after" and workload.optimizer not in _BY_TENSOR


_ADAMW_BYTES = 12.0 + 2.0 * 8.0


def traffic_share(optimizer: Optimizer, *, pure: bool = False) -> float:
    """Return the bytes that a step reads and writes per parameter, relative to AdamW in fp32 alone.

    Weight and gradient are read, the weight is written, and states are read and written; half of it if all is
    16 bits.
    """
    states, weights = STATE_BYTES[optimizer], 12.0
    if pure:
        weights /= 2.0
        states /= 1.0 if optimizer in QUANTISED else 2.0
    return (weights + 2.0 * states) / _ADAMW_BYTES


WITHOUT_MASTERS: frozenset[Optimizer] = frozenset({"lomo"})
"""Optimizers that update 16-bit weights themselves.

They need no memory but weights and one layer's gradient (arXiv 2306.09782, section 3.1).
"""
