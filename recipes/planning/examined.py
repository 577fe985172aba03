"""A layout with its predicted memory and time."""

import math
from collections.abc import Callable
from typing import NamedTuple

from probes.base.record import Unknown, value_or
from recipes.job.candidate import Candidate, Degrees, Sharding
from recipes.machine.cluster_records import Cluster
from recipes.planning.program_jobs import program_job
from recipes.planning.space import Recomputation, Request, Shape, candidate_of
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown
from recipes.predict.job_prediction import memory_for, needed_for
from recipes.predict.training_job import Job

Key = tuple[Degrees, Sharding]
"""A set of degrees with its sharding; the search keeps the best member of each."""
Refuse = Callable[[float], bool]
"""Function that returns whether a layout that needs this memory does not fit."""


class Examined(NamedTuple):
    """A candidate with its prediction."""

    candidate: Candidate
    job: Job
    needed: float
    """Memory that decides whether the candidate fits."""
    time: TimeBreakdown | Unknown | None
    """Time of a step; None for a candidate that does not fit, Unknown if the machine lacks a rate."""

    @property
    def memory(self) -> MemoryBreakdown:
        """The memory with all its terms, predicted anew each time."""
        return memory_for(self.job)

    @property
    def seconds(self) -> float:
        """Seconds of a step; infinite if unknown."""
        return seconds_of(self.time)


def is_within(memory: MemoryBreakdown, cluster: Cluster) -> bool:
    """Return whether a candidate fits even in the worst case; True if the memory of the GPUs is unknown."""
    limit = cluster.memory_bytes_per_rank
    return limit is None or memory.upper <= limit.value


def seconds_of(time: TimeBreakdown | Unknown | None) -> float:
    """Return the seconds of a step; infinite if unknown."""
    if time is None or isinstance(time, Unknown) or isinstance(time.total, Unknown):
        return math.inf
    return time.total


def with_bubble(time: TimeBreakdown | Unknown, share: float) -> float:
    """Return the seconds of a step with this part of the pipeline's bubble."""
    seconds = seconds_of(time)
    if isinstance(time, Unknown) or isinstance(time.bubble, Unknown) or not math.isfinite(seconds):
        return seconds
    # Stragglers lengthen the bubble with the rest of the step.
    return seconds - (1 - share) * time.bubble * seconds / max(seconds - value_or(time.overhead, 0.0), 1e-9)


def job_at(request: Request, shape: Shape, micro_batch: int, again: Recomputation) -> Job:
    """Return the job with this shape, micro-batch and recomputation."""
    candidate = candidate_of(request, shape, micro_batch, again)
    return program_job(request.workload, candidate, request.cluster, request.stack)


def with_memory(request: Request, shape: Shape, micro_batch: int, again: Recomputation) -> Examined:
    """Return the candidate with its memory, and without a time."""
    job = job_at(request, shape, micro_batch, again)
    return Examined(job.candidate, job, needed_for(job), None)


def keep_smallest(smallest: dict[Key, Examined], member: Examined) -> None:
    """Keep the member in `smallest` if it needs less memory than the known member of its key."""
    key = (member.candidate.degrees, member.candidate.sharding_stage)
    other = smallest.get(key)
    if other is None or member.needed < other.needed:
        smallest[key] = member
