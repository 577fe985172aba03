"""One training job with everything that predictions need: workload, layout, cluster and software.

`job_of` computes the values that depend on several of these parts once, so that every prediction uses the
same values.
"""

import functools
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from recipes.job.candidate import Candidate
from recipes.job.models.blocks import Block
from recipes.job.models.image_models import at_size
from recipes.job.workload import (
    FULL_PRECISIONS,
    NARROW_PRECISIONS,
    AdapterTargets,
    Precision,
    VisionModel,
    VisionWorkload,
    Workload,
)
from recipes.machine.cluster_records import Cluster
from recipes.predict.parameters import parameter
from recipes.predict.stacks import Stack

HALF = ("bf16", "fp16", "fp8", "mxfp8", "nvfp4")
"""Precisions whose activations are kept in 16 bits."""


def computed_in(precision: Precision, cluster: Cluster) -> str:
    """Return the precision in which the GPU really multiplies.

    Only image models call this function, and convolutions are never trained in 8 bits or fewer. A GPU that
    lacks a type uses another: fp16 for bf16, fp32 for tf32.
    """
    wanted, peaks = "bf16" if precision in NARROW_PRECISIONS else precision, cluster.peak_flops_per_s
    if wanted == "bf16" and "bf16" not in peaks and "fp16" in peaks:
        return "fp16"
    lacks_tf32 = "tf32" not in peaks or peaks["tf32"] == peaks.get("fp32")
    return "fp32" if wanted == "tf32" and lacks_tf32 else wanted


def convolved_in(precision: Precision, cluster: Cluster, stack: Stack) -> str:
    """Return the precision of convolutions.

    Convolutions of fp32 tensors run on tensor cores as TF32, unless the stack forbids it.
    """
    computed = computed_in(precision, cluster)
    return computed_in("tf32", cluster) if computed == "fp32" and stack.tf32 != "never" else computed


Item = TypeVar("Item")
Value = TypeVar("Value")
_MOST_VALUES = 65536


class ByKey(Generic[Item, Value]):
    """Function of an item whose values are kept by a key, on which alone they depend.

    The key may contain the `id()` of a part of the item, because the part stays alive with the value. If
    there are too many values, all are dropped.
    """

    __slots__ = ("_function", "_known")

    def __init__(self, function: Callable[[Item], Value]) -> None:
        self._function = function
        self._known: dict[tuple[object, ...], tuple[Item, Value]] = {}

    def __call__(self, item: Item, key: tuple[object, ...]) -> Value:
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_VALUES:
                self._known.clear()
            known = self._known[key] = (item, self._function(item))
        return known[1]

    def cache_clear(self) -> None:
        """Drop all values."""
        self._known.clear()


class TransformerJob(NamedTuple):
    """Training of a transformer."""

    workload: Workload
    candidate: Candidate
    cluster: Cluster
    stack: Stack
    adapted: AdapterTargets | None
    """Linear layers for which adapters are trained; None if all weights are trained."""
    wide_bytes: float
    """Bytes of an element that is not stored in 8 bits or fewer: 4 in fp32 and TF32, else 2."""
    sequence: float
    """Number of tokens that are computed for each sequence of a micro-batch."""
    tokens: float
    """Number of tokens of a micro-batch that one rank computes; tensor-parallel ranks compute the same
    tokens.
    """
    attended: float
    """Number of tokens over which attention reaches: a sequence, or a sample if several samples are packed
    into one sequence.
    """
    target_share: float
    """Tokens of the target divided by tokens of the source in an encoder-decoder; 1 for other models."""
    basis: Workload
    """The workload without its batch and its steps, the same object for jobs that differ only in these."""

    @property
    def trains_weights(self) -> bool:
        """Return whether the weights themselves are trained, instead of adapters."""
        return self.adapted is None

    @property
    def is_quantised(self) -> bool:
        """Return whether adapters are trained over weights of fewer than 16 bits."""
        return self.adapted is not None and self.workload.base_bits < 16

    @property
    def adapter_rank(self) -> int:
        return self.workload.adapter_rank

    @property
    def kernels(self) -> str:
        """Kind of the kernels that run a layer."""
        return "compiled" if self.candidate.compiled else self.stack.kernels

    @property
    def divides_norms(self) -> bool:
        """Return whether tensor-parallel ranks divide norms and residual stream too."""
        asked = self.candidate.sequence_parallel
        return self.stack.memory.sequence_parallel if asked is None else asked

    def tokens_of(self, block: Block) -> float:
        """Return the number of tokens of one block: the decoder of an encoder-decoder gets the shorter
        target.
        """
        return self.tokens * self.target_share if block.decoder else self.tokens


class ImageJob(NamedTuple):
    """Training of an image model."""

    workload: VisionWorkload
    candidate: Candidate
    cluster: Cluster
    stack: Stack
    model: VisionModel
    """The model for the size of the images."""
    computed: str
    """Precision in which the device really multiplies."""

    @property
    def element_bytes(self) -> int:
        """Bytes of an activation."""
        return 2 if self.computed in HALF else 4


Job: TypeAlias = TransformerJob | ImageJob


def transformer_job(
    workload: Workload, candidate: Candidate, cluster: Cluster, stack: Stack
) -> TransformerJob:
    """Return the job with the values that depend on several of its parts."""
    kind, sequence = workload.model.kind, stack.sample_tokens(workload, candidate.micro_batch)
    packs = workload.fine_tuning and stack.packs_samples and kind == "decoder"
    target_share = 1.0
    if kind == "encoder-decoder":  # answers and summaries are short
        answers = workload.fine_tuning
        target_share = parameter("time.target_share") if answers else workload.model.decoder_tokens
    return TransformerJob(
        workload=workload,
        candidate=candidate,
        cluster=cluster,
        stack=_with_fp16(stack, (id(stack),)) if workload.precision == "fp16" else stack,
        adapted=None if workload.tuning == "full" else stack.memory.adapter_targets,
        wide_bytes=4.0 if workload.precision in FULL_PRECISIONS else 2.0,
        sequence=sequence,
        tokens=candidate.micro_batch * sequence / candidate.degrees.cp,
        attended=min(sequence, parameter("time.packed_tokens")) if packs else sequence,
        target_share=target_share,
        basis=_basis(workload, (id(workload),)),
    )


@ByKey
def _basis(workload: Workload) -> Workload:
    return _same(msgspec.structs.replace(workload, global_batch=1, steps=1))


@ByKey
def _with_fp16(stack: Stack) -> Stack:
    """Return the stack with the gradients that it has in fp16."""
    if not stack.narrow_in_fp16:
        return stack
    return msgspec.structs.replace(stack, gradient_bytes=2, reduced_bytes=2)


@functools.lru_cache(maxsize=1024)
def _same(basis: Workload) -> Workload:
    """Return the first of equal workloads, because predictions are kept by identity."""
    return basis


def image_job(workload: VisionWorkload, candidate: Candidate, cluster: Cluster, stack: Stack) -> ImageJob:
    """Return the job with the model at the image size and a precision that the device supports."""
    model = at_size(workload.model, workload.image_size)
    return ImageJob(workload, candidate, cluster, stack, model, computed_in(workload.precision, cluster))


def job_of(workload: Workload | VisionWorkload, candidate: Candidate, cluster: Cluster, stack: Stack) -> Job:
    """Return the job, of a transformer or an image model."""
    if isinstance(workload, VisionWorkload):
        return image_job(workload, candidate, cluster, stack)
    return transformer_job(workload, candidate, cluster, stack)
