"""One way to run a workload: the division of its work over ranks and micro-batches."""

from typing import Literal

from probes.base.record import Record

ActivationCheckpointing = Literal["none", "selective", "full"]
Sharding = Literal["none", "zero1", "zero2", "zero3"]
"""Training state that is divided among data-parallel ranks.

Each level adds to the previous level: nothing, optimizer states, gradients, parameters (FSDP).
"""
Offload = Literal["states", "weights"]
"""Training state in the host's memory: only optimizer states, or also fully sharded weights."""
Schedule = Literal["1f1b", "gpipe", "interleaved", "zero-bubble", "layers"]
"""Order of work in a pipeline.

`gpipe` runs all forward passes before the backward passes; `1f1b` alternates them. `interleaved` is 1F1B with
several parts of a stage on each rank. `zero-bubble` computes the gradients of weights while the pipeline
would otherwise be idle (ZB-H1, arXiv 2401.10241). `layers` has no pipeline: one stage computes while the
others wait.
"""


class Degrees(Record, kw_only=True):
    """Degrees of parallelism; the world size is their product without `ep` and `vp`, which add no ranks."""

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
    """Sequences or images per rank and forward pass."""
    grad_accum: int
    global_batch: int
    activation_checkpointing: ActivationCheckpointing
    precision: str
    sharding: Sharding | None = None
    """Sharding; None means the sharding that the strategy implies: `none` for ddp and `zero3` for fsdp."""
    recomputed_share: float = 1.0
    """Fraction of the layers that full checkpointing recomputes, above 0 and at most 1.

    In Megatron it follows from recompute_num_layers; torchtitan recomputes every n-th layer.
    """
    recomputed_together: int = 1
    """Number of consecutive layers that are recomputed together, so that only the input of the first one is
    kept (Megatron's uniform method).
    """
    offload: bool = False
    """True if optimizer states are in the host's memory."""
    offload_weights: bool = False
    """True if fully sharded parameters are in the host's memory too; they are copied to the GPU when they are
    gathered.
    """
    offload_checkpoints: bool = False
    """True if the activations that full checkpointing keeps are in the host's memory too."""
    compiled: bool | None = None
    """True if torch.compile is used; None: the stack's default."""
    flash_attention: bool | None = None
    sequence_parallel: bool | None = None
    schedule: Schedule = "1f1b"

    @property
    def sharding_stage(self) -> Sharding:
        return self.sharding or ("zero3" if self.degrees.fsdp > 1 or self.strategy == "fsdp" else "none")
