"""Memory and time of a job of any kind: a transformer or an image model."""

import msgspec

from probes.base.record import Reason, Unknown
from recipes.predict.breakdowns import MemoryBreakdown, Predicted, TimeBreakdown
from recipes.predict.candidate_prediction import corrected, predicted_of, time_with_interval, with_loading
from recipes.predict.familiarity import familiarity
from recipes.predict.image_prediction import predict_images, vision_memory
from recipes.predict.memory.peak import memory_of, needed_of
from recipes.predict.parameters import kind_of, time_interval
from recipes.predict.speed.passes import LeastPasses
from recipes.predict.speed.step import least_passes, step_time
from recipes.predict.training_job import ImageJob, Job


def memory_for(job: Job) -> MemoryBreakdown:
    """Return the peak memory of the fullest rank."""
    return vision_memory(job) if isinstance(job, ImageJob) else memory_of(job)


def needed_for(job: Job) -> float:
    """Return the memory that decides whether the job fits: `needed` of `memory_for`."""
    return vision_memory(job).needed if isinstance(job, ImageJob) else needed_of(job)


def time_for(job: Job) -> TimeBreakdown | Unknown:
    """Return the time of an optimizer step on the slowest rank, scaled by measured steps if there are any."""
    if isinstance(job, ImageJob):
        return predict_images(job)
    time = step_time(job)
    return time if isinstance(time, Unknown) else with_loading(corrected(time, job), job)


def least_time_for(job: Job) -> LeastPasses:
    """Return quick lower bounds on the terms of a step, for any number of stages.

    All are 0 for image models, and if steps measured on this machine may scale the time.
    """
    return LeastPasses() if isinstance(job, ImageJob) or job.cluster.anchors else least_passes(job)


def predicted_for(job: Job, memory: MemoryBreakdown) -> Predicted:
    """Return memory, the time with its interval, throughput and MFU."""
    if not isinstance(job, ImageJob):
        return predicted_of(job, memory, time_with_interval(job))
    time, cluster = predict_images(job), job.cluster
    no_tokens = Unknown(Reason.NOT_SUPPORTED, "images have no tokens")
    if isinstance(time, Unknown) or isinstance(time.total, Unknown):
        why = time if isinstance(time, Unknown) else time.total
        unknown = TimeBreakdown(
            total=why, compute=why, exposed_communication=why, optimizer=why, low=why, high=why
        )
        return Predicted(
            memory_bytes_per_gpu=memory,
            step_time_s=unknown,
            tokens_per_s_per_gpu=no_tokens,
            samples_per_s=why,
            mfu=why,
        )
    seen = familiarity("time", job.stack.id, cluster.gpu) if cluster.device == "cuda" else "seen-seen"
    ends = time_interval(kind_of(job.model), "measured" if cluster.image_anchors else "catalogue", seen)
    samples_per_s = job.workload.global_batch / time.total
    peak = cluster.peak_flops_per_s.get(job.workload.precision)
    mfu: float | Unknown = Unknown(
        Reason.NOT_RECORDED, f"{job.workload.precision} peak of {cluster.device_name}"
    )
    if peak is not None:
        mfu = samples_per_s / cluster.world_size * 3.0 * job.model.forward_flops / peak.value
    return Predicted(
        memory_bytes_per_gpu=memory,
        step_time_s=msgspec.structs.replace(time, low=time.total * ends.low, high=time.total * ends.high),
        tokens_per_s_per_gpu=no_tokens,
        samples_per_s=samples_per_s,
        mfu=mfu,
    )
