"""The models of memory and time, by what is trained."""

from __future__ import annotations

from probes.base.record import Unknown
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown
from recipes.predict.candidate_prediction import corrected
from recipes.predict.image_prediction import predict_images
from recipes.predict.memory import memory_of, vision_memory
from recipes.predict.speed.loading import with_loading
from recipes.predict.speed.step import step_time
from recipes.predict.training_job import ImageJob, Job, TransformerJob


def memory_for(job: Job) -> MemoryBreakdown:
    """Return the peak memory of the fullest rank."""
    match job:
        case TransformerJob():
            return memory_of(job)
        case ImageJob():
            return vision_memory(job)


def time_for(job: Job) -> TimeBreakdown | Unknown:
    """Return one optimizer step of the slowest rank, scaled by what was measured on the machine."""
    match job:
        case TransformerJob():
            time = step_time(job)
            return time if isinstance(time, Unknown) else with_loading(corrected(time, job), job)
        case ImageJob():
            return predict_images(job)
