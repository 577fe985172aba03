"""Prediction of a training step on images on a machine that was measured.

As in `predict`, the modelled time is scaled by measured over modelled of the nearest step of the reference
network.
"""

from __future__ import annotations

from typing import cast

import msgspec

from probes.base.record import Unknown, map_known
from recipes.job.candidate import Candidate, Degrees
from recipes.job.workload import Precision, VisionWorkload
from recipes.machine.cluster_records import Cluster, ImageAnchor
from recipes.predict.breakdowns import TimeBreakdown, scaled_terms
from recipes.predict.candidate_prediction import as_measured
from recipes.predict.reference_images import NETWORKS, reference_vision_model
from recipes.predict.speed.image_speed import vision_time
from recipes.predict.stacks import REFERENCE, load_stacks
from recipes.predict.training_job import ImageJob, image_job


def predict_images(job: ImageJob) -> TimeBreakdown | Unknown:
    """Return `vision_time` scaled by what was measured here in the same precision, if anything was."""
    time = vision_time(job)
    precision = job.workload.precision
    usable = [
        anchor
        for anchor in job.cluster.image_anchors
        if anchor.precision == precision and anchor.model in NETWORKS
    ]
    if isinstance(time, Unknown) or not usable:
        return time
    nearest = min(usable, key=lambda anchor: _distance(anchor, job))
    modelled = _modelled(nearest, job.cluster)
    if isinstance(modelled, Unknown):
        return time
    factor = nearest.step_time_s / modelled
    ends = {name: cast("float", getattr(time, name)) * factor for name in ("total", "low", "high")}
    return msgspec.structs.replace(time, **scaled_terms(time, factor), **ends)


def _distance(anchor: ImageAnchor, job: ImageJob) -> tuple[bool, bool, float]:
    """Return a sort key: as many ranks first, then the model, then the pixels of a micro-batch."""
    work = job.workload
    pixels, measured = (
        job.candidate.micro_batch * work.image_size**2,
        anchor.micro_batch * anchor.image_size**2,
    )
    return (
        anchor.world_size != job.cluster.world_size,
        anchor.model != work.model.id,
        max(pixels, measured) / max(1, min(pixels, measured)),
    )


def _modelled(anchor: ImageAnchor, cluster: Cluster) -> float | Unknown:
    ranks = anchor.world_size
    batch = anchor.micro_batch * ranks
    work = VisionWorkload(
        model=reference_vision_model(NETWORKS[anchor.model], anchor.image_size),
        image_size=anchor.image_size,
        global_batch=batch,
        precision=cast("Precision", anchor.precision),
    )
    candidate = Candidate(
        strategy="ddp",
        degrees=Degrees(dp=ranks),
        micro_batch=anchor.micro_batch,
        grad_accum=1,
        global_batch=batch,
        activation_checkpointing="none",
        precision=anchor.precision,
    )
    then = as_measured(cluster, ranks, anchor.threads)
    time = vision_time(image_job(work, candidate, then, load_stacks()[REFERENCE]))
    return map_known(time, lambda time: cast("float", time.total))
