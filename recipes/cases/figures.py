"""The models of memory and time by what is trained: a transformer or an image model."""

from __future__ import annotations

from probes.base.record import Unknown
from recipes.job.workload import VisionWorkload, Workload
from recipes.planning.plan import Candidate, Cluster, MemoryBreakdown, TimeBreakdown
from recipes.predict.candidate_prediction import corrected
from recipes.predict.image_prediction import predict_images
from recipes.predict.memory import memory_of, vision_memory
from recipes.predict.speed.loading import with_loading
from recipes.predict.speed.step import step_time
from recipes.predict.stacks import Stack


def memory_for(
    what: Workload | VisionWorkload, candidate: Candidate, cluster: Cluster, stack: Stack
) -> MemoryBreakdown:
    """Peak memory of the fullest rank."""
    if isinstance(what, Workload):
        return memory_of(what, candidate, cluster, stack)
    return vision_memory(what, candidate, cluster)


def time_for(
    what: Workload | VisionWorkload, candidate: Candidate, cluster: Cluster, stack: Stack
) -> TimeBreakdown | Unknown:
    """One optimizer step of the slowest rank, by what was measured on the machine where something was."""
    if isinstance(what, Workload):
        time = step_time(what, candidate, cluster, stack)
        if isinstance(time, Unknown):
            return time
        return with_loading(corrected(time, what, candidate, cluster), what, candidate, cluster)
    return predict_images(what, candidate, cluster, stack)
