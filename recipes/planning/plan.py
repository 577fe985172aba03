"""The records of a plan: what was chosen, why, what else was possible and what was rejected.

Field names are the JSON contract of `rigtune plan --format json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from probes.base.record import EvidenceRef, Reason, Record, Unknown
from probes.bench.latency_bandwidth import Fit
from recipes.job.workload import Workload

SCHEMA_VERSION = 1

Basis = Literal["measured", "modelled", "rule", "user"]
"""`measured` on this machine, `modelled` from formulas and catalogue rows, `rule` of the field, or pinned by
the `user`.
"""

ActivationCheckpointing = Literal["none", "selective", "full"]
Sharding = Literal["none", "zero1", "zero2", "zero3"]
"""What data-parallel ranks share: nothing, optimizer states, also gradients, also parameters (FSDP)."""
Schedule = Literal["1f1b", "gpipe", "interleaved", "zero-bubble", "layers"]
"""Of a pipeline: interleaved is 1F1B with several parts of a stage, zero-bubble puts the weights' gradients
into the gaps (ZB-H1, arXiv 2401.10241). `layers` has no pipeline: one stage works while the others wait.
"""
Fabric = Literal["nvswitch", "nvlink", "pcie", "xgmi", "host", "unknown"]
"""What joins the ranks of a node: a switch of NVLinks, single NVLinks, PCIe, AMD's links, or the memory of a
CPU.
"""
Transport = Literal["infiniband", "roce", "efa", "tcpxo", "ethernet", "unknown"]
"""How ranks speak to other nodes: RDMA over InfiniBand or Ethernet, AWS's and Google's own ways, or TCP
sockets.
"""


class Figure(Record, kw_only=True):
    """A number that a prediction rests on, with where it comes from."""

    value: float
    basis: Basis
    source: str


class StepAnchor(Record, kw_only=True):
    """A training step measured on this machine; predictions of other steps are scaled by its ratio to the
    model.
    """

    model: str
    """Id of the preset that was trained."""
    strategy: str
    micro_batch: int
    grad_accum: int
    sequence_length: int
    precision: str
    world_size: int
    activation_checkpointing: ActivationCheckpointing
    threads: int = 0
    """Of each rank's CPU work; 0 where that was not told."""
    step_time_s: float
    low_s: float
    high_s: float
    source: str


class ImageAnchor(Record, kw_only=True):
    """A training step of the reference network on images, measured on this machine with data parallelism."""

    model: str
    micro_batch: int
    image_size: int
    precision: str
    world_size: int
    threads: int = 0
    step_time_s: float
    source: str


class AttentionRate(Record, kw_only=True):
    """Rate of fused causal attention measured on this machine, as benchmark attention counts its
    operations.
    """

    precision: str
    backward: bool
    sequence_length: int
    head_dim: int
    flops_per_s: float


class Cluster(Record, kw_only=True):
    """The machine as the models see it. Rates are per rank; one rank drives one GPU, or a share of the
    CPU.
    """

    title: str
    device: Literal["cuda", "cpu"]
    device_name: str
    gpu: str = ""
    """Id of the catalogue row, where there is one."""
    architecture: str = ""
    """`hopper`, as the catalogue row says."""
    fabric: Fabric = "unknown"
    domain_ranks: int | None = None
    """Ranks that one NVLink domain joins where it spans nodes (72); None where it ends with the node."""
    transport: Transport = "unknown"
    nodes: int
    ranks_per_node: int
    memory_bytes_per_rank: Figure | None
    """Memory that one rank may fill."""
    flops_per_s: dict[str, Figure] = {}
    """Achievable GEMM rate by precision."""
    peak_flops_per_s: dict[str, Figure] = {}
    """Datasheet rate by precision, for MFU alone."""
    memory_bandwidth_bytes_per_s: Figure | None = None
    attention_rates: tuple[AttentionRate, ...] = ()
    hidden_communication: Figure | None = None
    """Part of the gradients' reduction that was measured to pass beside the backward pass; negative where
    both slow down.
    """
    intra_bus_bandwidth_bytes_per_s: Figure | None = None
    """All-reduce bus bandwidth within a node, for large messages."""
    intra_latency_s: Figure | None = None
    collective_fits: dict[str, Fit] = {}
    """What each collective over all ranks of a node costs by its size, where that was measured here."""
    inter_bus_bandwidth_bytes_per_s: Figure | None = None
    """The same across nodes, per node, when every rank of the node takes part."""
    inter_latency_s: Figure | None = None
    noise_scale_sequences: Figure | None = None
    """Measured gradient noise scale of the user's own training step."""
    data_loader_workers: Figure | None = None
    """DataLoader workers per rank that were measured to be enough with as many ranks per node."""
    reads_per_s: Figure | None = None
    """Requests of 128 KiB at random places that the data's storage answers to one node."""
    loaded_samples_per_s: Figure | None = None
    """What the DataLoader workers of one rank were measured to deliver, with as many ranks per node."""
    physical_cores_per_rank: int | None = None
    has_bf16: bool = False
    """The device multiplies bf16 natively (compute capability 8.0 or newer); False where that is unknown."""
    anchors: tuple[StepAnchor, ...] = ()
    image_anchors: tuple[ImageAnchor, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the description of the machine leaves out or averages away."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.ranks_per_node


class Degrees(Record, kw_only=True):
    """Degrees of parallelism; their product is the world size (`ep` folds into `dp`, `vp` divides stages)."""

    dp: int = 1
    fsdp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    vp: int = 1


class MemoryBreakdown(Record, kw_only=True):
    """Peak memory of the fullest rank by term, bytes."""

    total: float
    """Device memory, the sum of the terms."""
    parameters: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    buffers: float
    """Unsharded windows, buckets and communication buffers."""
    overhead: float
    """CUDA context, NCCL, allocator."""
    allocated: float
    """What the framework's allocator holds for tensors at its peak: `total` without overhead."""
    reserved: float
    """What the framework's allocator holds of the device: with freed blocks that it keeps."""
    upper: float
    """The bound that a plan must stay below: on a GPU with `margin`."""
    margin: float = 0.0
    """Of `upper` on a GPU: by how much 1 of 10 published peaks exceeded what was predicted of them
    (`recipes/predict/intervals.py`).
    """
    needed: float
    """Without what the allocator gives back when memory is short: a run that needs more than there is
    fails.
    """
    logged: float = 1.0
    """Part of these figures that the stack's log shows, where it logs another pipeline stage."""
    logged_figure: str = "allocated"
    """`allocated`, `reserved` or `device`: what the stack's users print."""


UNKNOWN_LOADING = Unknown(Reason.NOT_RECORDED, "neither storage nor data-loader was measured")


class TimeBreakdown(Record, kw_only=True):
    """One optimizer step by term, seconds. Unknown where a rate that it needs is unknown."""

    total: float | Unknown
    compute: float | Unknown
    exposed_communication: float | Unknown
    optimizer: float | Unknown
    bubble: float | Unknown = 0.0
    """Idle time of pipeline stages."""
    data: float | Unknown = UNKNOWN_LOADING
    """Waiting for the next batch, beside which all else passes; the total holds none of it where it is
    unknown.
    """
    overhead: float | Unknown = 0.0
    """What a step costs the stack whatever its size, and waiting for the slowest of the ranks."""
    low: float | Unknown
    high: float | Unknown
    products: float = 0.0
    """Of `compute`: matrix products of the layers."""
    attention: float = 0.0
    """Of `compute`: scores and values."""
    elementwise: float = 0.0
    """Of `compute`: norms, residuals, activations, routing."""
    recomputation: float = 0.0
    """Of `compute`: what the backward pass repeats of the forward pass."""
    launches: float = 0.0
    """Of `compute`: waiting for the host to launch kernels."""
    head: float = 0.0
    """Of `compute`: logits and loss."""


TIME_TERMS = ("compute", "exposed_communication", "bubble", "data", "optimizer", "overhead")
"""Fields of `TimeBreakdown` that sum to its total, those that are known."""
COMPUTE_TERMS = ("products", "attention", "elementwise", "recomputation", "launches", "head")
"""Fields of `TimeBreakdown` that sum to its `compute` where the model tells them."""


def scaled_terms(time: TimeBreakdown, factor: float) -> dict[str, float]:
    """The known terms of time and of compute, times a factor."""
    found = {name: getattr(time, name) for name in (*TIME_TERMS, *COMPUTE_TERMS)}
    return {name: value * factor for name, value in found.items() if not isinstance(value, Unknown)}


def terms_of(time: TimeBreakdown) -> Iterator[tuple[str, float, bool]]:
    """Name, seconds and whether it is a part of `compute`, which stands before its parts, of all that takes
    any time.
    """
    for name in TIME_TERMS:
        parts = COMPUTE_TERMS if name == "compute" else ()
        for term in (name, *parts):
            seconds = getattr(time, term)
            if not isinstance(seconds, Unknown) and seconds > 0:
                yield term.replace("_", " "), seconds, term != name


class Predicted(Record, kw_only=True):
    """What the models say of one candidate."""

    memory_bytes_per_gpu: MemoryBreakdown
    step_time_s: TimeBreakdown
    tokens_per_s_per_gpu: float | Unknown
    mfu: float | Unknown
    """Model FLOPs (6 per matmul parameter and token, causal attention) over the datasheet peak."""


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
    """None: as the strategy implies, `none` for ddp and `zero3` for fsdp."""
    recomputed_share: float = 1.0
    """Of the layers, where activation_checkpointing is full: the part that is recomputed, above 0 and at most
    1. Megatron's recompute_num_layers, torchtitan's every n-th layer.
    """
    recomputed_together: int = 1
    """Consecutive layers that are recomputed at once, so that only the input of the first is kept (Megatron's
    uniform method).
    """
    offload: bool = False
    """Optimizer states live in the host's memory."""
    offload_weights: bool = False
    """Fully sharded parameters do too, and are copied to the GPU as they are gathered."""
    offload_checkpoints: bool = False
    """What full checkpointing keeps of a layer does too."""
    compiled: bool | None = None
    """torch.compile; None: as the stack does."""
    flash_attention: bool | None = None
    sequence_parallel: bool | None = None
    schedule: Schedule = "1f1b"
    """Of the pipeline."""

    @property
    def sharding_stage(self) -> Sharding:
        return self.sharding or ("zero3" if self.degrees.fsdp > 1 or self.strategy == "fsdp" else "none")


class Choice(Record, kw_only=True):
    """A candidate that fits, with its convergence settings and prediction."""

    strategy: str
    degrees: Degrees
    micro_batch: int
    grad_accum: int
    global_batch: int
    activation_checkpointing: ActivationCheckpointing
    precision: str
    learning_rate: float
    warmup_steps: int
    predicted: Predicted


class Rejected(Record, kw_only=True):
    """A candidate that was dropped, with the reason."""

    candidate: Candidate
    reason: str
    """`needs 91.2 GiB of 79.1 GiB: activations 48.0 GiB`."""


class Decision(Record, kw_only=True):
    """One choice of the plan with its basis."""

    name: str
    """`strategy`, `micro_batch`, `memory_margin`, `grad_accum`, `learning_rate`, `warmup_steps`, or an
    environment variable.
    """
    value: str
    basis: Basis
    because: str
    alternatives: tuple[str, ...] = ()
    evidence: tuple[EvidenceRef, ...] = ()


class EnvVar(Record, kw_only=True):
    """An environment variable of the job, with what justifies it."""

    name: str
    value: str
    why: str
    source: str


class Plan(Record, kw_only=True):
    """The answer to "how should this workload run on this machine"."""

    schema_version: int = SCHEMA_VERSION
    workload: Workload
    cluster: Cluster
    chosen: Choice
    decisions: tuple[Decision, ...]
    env: tuple[EnvVar, ...] = ()
    alternatives: tuple[Choice, ...] = ()
    """Best first, without the chosen one."""
    rejected: tuple[Rejected, ...] = ()
    warnings: tuple[str, ...] = ()
