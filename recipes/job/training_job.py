"""One training job as the models of time and memory see it: what is trained, how it is laid out, on what,
with which software.

`job_of` resolves once what follows from all four together, so that no model asks again what the job is.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from recipes.job.models.blocks import Block
from recipes.job.models.image_models import at_size
from recipes.job.workload import FULL_PRECISIONS, AdapterTargets, VisionModel, VisionWorkload, Workload
from recipes.planning.plan import Candidate, Cluster
from recipes.predict.image_precision import HALF, computed_in
from recipes.predict.parameters import parameter
from recipes.predict.stacks import Stack


class TransformerJob(NamedTuple):
    """Training of a transformer."""

    workload: Workload
    candidate: Candidate
    cluster: Cluster
    stack: Stack
    adapted: AdapterTargets | None
    """Linear layers beside which adapters are trained; None if all weights are trained."""
    wide_bytes: float
    """Bytes of an element that no narrow type holds: 4 in fp32 and TF32, else 2."""

    @property
    def trains_weights(self) -> bool:
        """Whether the weights themselves are trained, not adapters beside them."""
        return self.adapted is None

    @property
    def is_quantised(self) -> bool:
        """Whether adapters are trained over weights of fewer than 16 bits."""
        return self.adapted is not None and self.workload.base_bits < 16

    @property
    def adapter_rank(self) -> int:
        return self.stack.adapter_rank(self.workload)

    @property
    def kernels(self) -> str:
        """Kind of the kernels that run a layer."""
        return "compiled" if self.candidate.compiled else self.stack.kernels

    @property
    def divides_norms(self) -> bool:
        """Whether tensor-parallel ranks divide norms and residual stream too."""
        return self.stack.divides_norms(self.candidate.sequence_parallel)

    @property
    def sequence(self) -> float:
        """Tokens that each sequence of a micro-batch costs."""
        return self.stack.sample_tokens(self.workload, self.candidate.micro_batch)

    @property
    def tokens(self) -> float:
        """Tokens of a micro-batch that one rank computes; tensor-parallel ranks compute the same ones."""
        return self.candidate.micro_batch * self.sequence / self.candidate.degrees.cp

    @property
    def attended(self) -> float:
        """Tokens over which attention reaches: a sequence, or a sample if several are packed into one."""
        if (
            not self.workload.fine_tuning
            or not self.stack.packs_samples
            or self.workload.model.kind != "decoder"
        ):
            return self.sequence
        return min(self.sequence, parameter("time.packed_tokens"))

    def tokens_of(self, block: Block) -> float:
        """Return the tokens of one block: the decoder of an encoder-decoder gets the shorter target."""
        return self.tokens * self.target_share if block.decoder else self.tokens

    @property
    def target_share(self) -> float:
        """Tokens of an encoder-decoder's target over those of its source, for answers and summaries; else
        1.
        """
        model = self.workload.model
        if model.kind != "encoder-decoder":
            return 1.0
        return parameter("time.target_share") if self.workload.fine_tuning else model.decoder_tokens


class ImageJob(NamedTuple):
    """Training of an image model."""

    workload: VisionWorkload
    candidate: Candidate
    cluster: Cluster
    stack: Stack
    model: VisionModel
    """The model at the size of the images."""
    computed: str
    """Precision that the device really multiplies in."""

    @property
    def element_bytes(self) -> int:
        """Bytes of an activation."""
        return 2 if self.computed in HALF else 4


Job: TypeAlias = TransformerJob | ImageJob


def transformer_job(
    workload: Workload, candidate: Candidate, cluster: Cluster, stack: Stack
) -> TransformerJob:
    """Return the job with what its parts decide together."""
    adapted = None if workload.tuning == "full" else stack.memory.adapter_targets
    wide = 4.0 if workload.precision in FULL_PRECISIONS else 2.0
    return TransformerJob(workload, candidate, cluster, stack, adapted, wide)


def image_job(workload: VisionWorkload, candidate: Candidate, cluster: Cluster, stack: Stack) -> ImageJob:
    """Return the job with the model at its size and the precision that the device has."""
    model = at_size(workload.model, workload.image_size)
    return ImageJob(workload, candidate, cluster, stack, model, computed_in(workload.precision, cluster))


def job_of(workload: Workload | VisionWorkload, candidate: Candidate, cluster: Cluster, stack: Stack) -> Job:
    """Return the job of either kind."""
    match workload:
        case Workload():
            return transformer_job(workload, candidate, cluster, stack)
        case VisionWorkload():
            return image_job(workload, candidate, cluster, stack)
