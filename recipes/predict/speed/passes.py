"""Work of one micro-batch in both passes: in all blocks, and on the fullest pipeline stage."""

from typing import NamedTuple

from probes.base.record import Unknown
from recipes.job.candidate import Candidate
from recipes.job.models.blocks import blocks_of
from recipes.predict.breakdowns import COMPUTE_TERMS
from recipes.predict.parameters import parameter
from recipes.predict.shares import counted_as_layers
from recipes.predict.speed.communication import block_s
from recipes.predict.speed.layers import BlockTime, Rates, computation_of, computed_by
from recipes.predict.training_job import ByKey, TransformerJob

_OF_BLOCKS = ("products", "attention", "elementwise", "launches")


class Passes(NamedTuple):
    """Seconds of one micro-batch on one rank, in all blocks of the model before they are dealt to stages."""

    forward: float
    backward: float
    weights: float
    exposed: float
    root: float
    """Head and loss."""
    rates: Rates
    parts: dict[str, float]
    """Parts of the computation by the field of `TimeBreakdown`, without the head."""
    layers: int
    dealt: int
    """Number of layers without those for multi-token prediction."""


def passes_key(job: TransformerJob) -> tuple[object, ...]:
    """Return the key of a job's passes: jobs with equal keys have the same `passes_of`."""
    candidate = job.candidate
    checkpointing = (candidate.activation_checkpointing, candidate.recomputed_share)
    return computed_by(job), candidate.degrees.cp, *checkpointing


@ByKey
def passes_of(job: TransformerJob) -> Passes | Unknown:
    """Return the time of all blocks, which is the same for any number of stages."""
    candidate, computation = job.candidate, computation_of(job)
    if isinstance(computation, Unknown):
        return computation
    forward = backward = weights = exposed = repeated = 0.0
    parts = dict.fromkeys(COMPUTE_TERMS, 0.0)
    blocks = blocks_of(job.workload.model)
    for block, times in zip(blocks, computation.blocks, strict=True):
        talk = block_s(job, block)
        again = block.count * _recomputed(candidate, times)
        if candidate.activation_checkpointing == "full":
            talk = (talk[0], talk[1] + talk[0] * candidate.recomputed_share)
        forward += block.count * times.forward
        backward += block.count * times.backward + again
        weights += block.count * times.weights
        repeated += again
        exposed += block.count * (talk[0] + talk[1])
        for name in _OF_BLOCKS:
            parts[name] += block.count * getattr(times, name)
    parts["recomputation"] = repeated
    dealt = sum(block.count for block in blocks if not block.extra)
    return Passes(
        *(forward, backward, weights, exposed, computation.root_s, computation.rates, parts),
        layers=sum(block.count for block in blocks),
        dealt=dealt,
    )


def _recomputed(candidate: Candidate, times: BlockTime) -> float:
    """Return the time for repeating parts of a block's forward pass during the backward pass."""
    if candidate.activation_checkpointing == "full":
        return times.again * candidate.recomputed_share
    selects = candidate.activation_checkpointing == "selective"
    return times.forward * parameter("time.selective_share") if selects else 0.0


class StagePart(NamedTuple):
    """Seconds of one micro-batch on the fullest stage."""

    forward: float
    backward: float
    exposed: float
    root: float
    """Head and loss, as far as they delay this stage."""
    even: float
    """Number by which times over all stages are divided to get the time of the fullest stage."""


def fullest_part(passes: Passes, stages: int, parts: int) -> StagePart:
    """Return the time of the fullest stage if each stage has this number of parts.

    This stage has more than the mean number of layers if embedding and head replace layers of other stages;
    the head then delays its stage only by the time by which it exceeds a layer's.
    """
    count, replaced, has_head = _replaced_layers(passes, stages, parts)
    even = stages * count / (count + replaced)
    forward, backward, exposed = passes.forward / even, passes.backward / even, passes.exposed / even
    root = passes.root
    if has_head:
        root = max(0.0, root - (forward + backward + exposed) * even / count)
    root *= 1.0 if stages == 1 else parameter("time.head_on_stage")
    return StagePart(forward, backward, exposed, root, even)


def _replaced_layers(passes: Passes, stages: int, parts: int) -> tuple[int, int, bool]:
    """Return the number of layers, the number of layers' places that embedding and head take in an even
    division over the stages, and whether the head takes one.

    Layers for multi-token prediction are added to an even division of the other layers, if there is one.
    """
    if stages == 1 or passes.dealt % (stages * parts) == 0:
        return passes.layers, 0, False
    before, after = counted_as_layers(passes.layers, stages * parts)
    return passes.layers, before + after, after > 0


class LeastStep(NamedTuple):
    """Lower bounds on a step of 1F1B from the work inside a stage, which is the same for all shardings."""

    work_s: float = 0.0
    """Computation and visible communication of all micro-batches."""
    bubble_s: float = 0.0
    zero_bubble_share: float = 0.0
    """Smallest part of the bubble that the schedule ZB-H1 can leave."""


class LeastPasses(NamedTuple):
    """Work of one micro-batch, from which the lower bounds for any number of pipeline stages follow."""

    passes: Passes | None = None
    """None if no time is known."""
    slowest: float = 1.0
    """Time of the slowest rank divided by the mean."""

    def step(self, stages: int, micro_batches: int) -> LeastStep:
        """Return the lower bounds on the terms of a step; all are 0 if no time is known."""
        passes = self.passes
        if passes is None:
            return LeastStep()
        part = fullest_part(passes, stages, 1)
        passing = part.forward + part.backward + part.exposed
        return LeastStep(
            work_s=micro_batches * (part.forward + part.backward + part.root + part.exposed) * self.slowest,
            bubble_s=(stages - 1) * passing * self.slowest,
            zero_bubble_share=max(0.0, 1.0 - 2.0 * passes.weights / part.even / passing),
        )
