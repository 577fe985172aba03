"""Memory and time of a job of any kind: a transformer or an image model."""

from probes.base.record import Unknown
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown
from recipes.predict.candidate_prediction import corrected, with_loading
from recipes.predict.image_prediction import predict_images, vision_memory
from recipes.predict.memory.peak import memory_of
from recipes.predict.speed.step import step_time
from recipes.predict.training_job import ImageJob, Job


def memory_for(job: Job) -> MemoryBreakdown:
    """Return the peak memory of the fullest rank."""
    return vision_memory(job) if isinstance(job, ImageJob) else memory_of(job)


def time_for(job: Job) -> TimeBreakdown | Unknown:
    """Return one optimizer step of the slowest rank, scaled by what was measured on the machine."""
    if isinstance(job, ImageJob):
        return predict_images(job)
    time = step_time(job)
    return time if isinstance(time, Unknown) else with_loading(corrected(time, job), job)
