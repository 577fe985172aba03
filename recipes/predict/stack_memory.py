"""Properties of a software stack that determine memory, and its schedule of fully sharded parameters."""

from typing import Literal

from probes.base.record import StrictRecord
from recipes.job.workload import AdapterTargets


class StackMemory(StrictRecord, kw_only=True):
    """Properties of a stack that determine memory, and the memory figure that users of the stack print."""

    mixed_states: Literal["master", "fp32", "pure"] = "fp32"
    """Weights under mixed precision. `master`: 16-bit weights with fp32 masters. `fp32`: fp32 weights that
    autocast or FSDP casts. `pure`: only 16-bit weights.
    """
    shards_in_fp32: bool = False
    """True if fully sharded parameters are raised to fp32 even if the weights have 16 bits."""
    keeps_gradients: bool = False
    """True if gradients are in buffers that are never freed; otherwise they exist only from the backward pass
    to the optimizer step.
    """
    step_copies: float = 0.0
    """Temporary memory of the optimizer step, as a multiple of the bytes of the updated parameters (torch's
    foreach kernels).
    """
    bucket_elements: float = 0.0
    """Number of gradients that are reduced together; 0: the default of DistributedDataParallel, or of
    DeepSpeed where the stack uses its ZeRO.
    """
    step_elements: float = 0.0
    """Number of 16-bit gradients that DeepSpeed flattens and converts to fp32 at a time for the optimizer
    step if they are fully sharded. With less sharding DeepSpeed converts the rank's whole part in one step.
    0: no conversion.
    """
    loss: Literal["whole", "chunked", "fused"] = "whole"
    """Logits in memory at one time.

    `whole`: logits of all tokens. `chunked`: fp32 logits of one part; 16-bit logits of all tokens, or the
    gradients that replace them. `fused`: logits of one part only, in one kernel with the head's product
    (Liger, cut cross-entropy); the gradient of the hidden states is kept.
    """
    checkpoints_on_host: bool = False
    """True if the activations that full checkpointing keeps are copied to the host's memory and back."""
    adapter_rank: int = 0
    """Default rank of LoRA, for jobs that state none; 0 if the software has no default."""
    adapter_targets: AdapterTargets = "attention"
    pure_adapters: bool = False
    """True if adapters, their gradients and states have 16 bits, as the frozen weights have.

    Otherwise adapters are raised to fp32 (peft's autocast_adapter_dtype, on by default), or have fp32 masters
    (`mixed_states`).
    """
    double_quantised: bool = False
    """True if the constants of 4-bit weights are themselves quantised, to 8 bits."""
    shards_constants: bool = False
    """True if fully sharded ranks share quantisation constants too (torchao's NF4Tensor).

    Those of bitsandbytes and GPTQ are not parameters, so that every rank has all of them.
    """
    raises_tables: bool = False
    """True if embedding, head and norms are in fp32 if the base is quantised (peft's
    prepare_model_for_kbit_training).
    """
    raises_stream: bool = False
    """True if under `raises_tables` the residual stream and the outputs of matrix products are fp32 too,
    because bitsandbytes computes in the type of its input. False for stacks with GPTQ bases, for which peft
    converts nothing to fp32, and for stacks that cast embeddings back for fused attention.
    """
    own_loss: bool = False
    """True if the training loop computes the loss itself, in the type of the logits; Hugging Face's models
    convert logits to fp32 first.
    """
    frozen_in_fp8: bool = False
    """True if frozen weights are kept in 8 bits if products are computed in fp8."""
    sequence_parallel: bool = True
    """True if tensor-parallel ranks divide norms and residual stream too, by default."""
    selective: Literal["scores", "products", "blocks"] = "scores"
    """Activations that selective checkpointing recomputes. `scores`: only attention scores. `products`:
    everything except attention and every second matrix product, in the order of the operators. `blocks`:
    every second block.
    """
    names_pure: bool = False
    """True if a stated precision `bf16` or `fp16` without "mixed" means that weights have only 16 bits, even
    for training from scratch.
    """
    unties_head: bool = False
    """True if the head has its own weights even if the model ties the head to the embedding."""
    loads_whole: bool = False
    """True if every rank loads all weights before they are sharded."""
    gathers_logits: bool = False
    """True if every tensor-parallel rank has the logits of the whole vocabulary."""
    compiles_loss: bool = False
    """True if compiling the model compiles the loss too, which avoids some fp32 copies of logits."""
    logged_figure: Literal["allocated", "reserved", "device"] = "reserved"
    """Figure of memory that users of the stack print by default."""
    logged_stage: Literal["fullest", "first", "last"] = "fullest"
    """The pipeline stage whose memory is logged."""


class ShardSchedule(StrictRecord, kw_only=True):
    """Schedule of fully sharded parameters in a step of several micro-batches.

    Deferred reductions trade memory for traffic: gradients, and perhaps weights, are whole on every rank.
    """

    accumulation: Literal["each", "last"] = "each"
    """Micro-batch after which gradients are reduced without a pipeline.

    `each`: after every micro-batch, into shards. `last`: only after the last; gradients are whole until then.
    """
    pipeline: Literal["each", "last"] = "each"
    """The same under a pipeline.

    With `last`, weights too stay gathered from the first forward pass to the last backward pass.
    """
    adds_in_fp32: bool = False
    """True if whole gradients are in fp32, the type of FSDP2's reduction, instead of the computation's type.
    """
