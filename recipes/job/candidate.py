"""One way to run a workload: how its work is divided over ranks and micro-batches."""

from typing import Literal

from probes.base.record import Record

ActivationCheckpointing = Literal["none", "selective", "full"]
Sharding = Literal["none", "zero1", "zero2", "zero3"]
"""Training state that is divided among data-parallel ranks: nothing, optimizer states, also gradients, also
parameters (FSDP).
"""
Schedule = Literal["1f1b", "gpipe", "interleaved", "zero-bubble", "layers"]
"""Order of work in a pipeline.

`interleaved` is 1F1B with several parts of a stage on each rank. `zero-bubble` computes the weights'
gradients while the pipeline would be idle (ZB-H1, arXiv 2401.10241). `layers` has no pipeline: one stage
works while the others wait.
"""


class Degrees(Record, kw_only=True):
    """Degrees of parallelism; their product is the world size (`ep` folds into `dp`, `vp` divides stages)."""

    dp: int = 1
    fsdp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    vp: int = 1


class Candidate(Record, kw_only=True):
    """One way to run the workload."""

    strategy: str
    degrees: Degrees
    micro_batch: int
    """Sequences per rank and forward pass."""
    grad_accum: int
    global_batch: int
    activation_checkpointing: ActivationCheckpointing
    precision: str
    sharding: Sharding | None = None
    """Sharding; None: the sharding that the strategy implies, `none` for ddp and `zero3` for fsdp."""
    recomputed_share: float = 1.0
    """Part of the layers that full checkpointing recomputes, above 0 and at most 1.

    Megatron has recompute_num_layers for this, torchtitan every n-th layer.
    """
    recomputed_together: int = 1
    """Number of consecutive layers that are recomputed together, so that only the input of the first is kept
    (Megatron's uniform method).
    """
    offload: bool = False
    """Whether optimizer states are in the host's memory."""
    offload_weights: bool = False
    """Whether fully sharded parameters are in the host's memory too; they are copied to the GPU when they are
    gathered.
    """
    offload_checkpoints: bool = False
    """Whether the activations that full checkpointing keeps are in the host's memory too."""
    compiled: bool | None = None
    """Whether torch.compile is used; None: the stack's default."""
    flash_attention: bool | None = None
    sequence_parallel: bool | None = None
    schedule: Schedule = "1f1b"

    @property
    def sharding_stage(self) -> Sharding:
        return self.sharding or ("zero3" if self.degrees.fsdp > 1 or self.strategy == "fsdp" else "none")
