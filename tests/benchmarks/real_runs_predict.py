"""Predict configurations as `rigtune plan` does, and state how each differs from the nearest step that the bench
measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from probes.base.record import Unknown
from recipes.job.candidate import Candidate, Degrees
from recipes.job.workload import VisionWorkload, Workload
from recipes.machine.cluster_records import Cluster
from recipes.predict.candidate_prediction import predict
from recipes.predict.image_prediction import predict_images, reference_vision_model, vision_memory
from recipes.predict.stacks import REFERENCE, load_stacks
from recipes.predict.training_job import image_job
from tests.benchmarks.real_runs_cases import Configuration, Images


def predict_transformer(run: Configuration, cluster: Cluster) -> tuple[float | None, float, str]:
    """Return step time, peak memory of tensors, and the differences from the nearest measured step."""
    ranks = cluster.world_size
    batch = run.micro_batch * run.grad_accum * ranks
    workload = Workload(
        model=run.model, sequence_length=run.sequence_length, global_batch=batch, precision=run.precision
    )
    candidate = Candidate(
        strategy=run.strategy,
        degrees=Degrees(dp=ranks) if run.strategy == "ddp" else Degrees(fsdp=ranks),
        micro_batch=run.micro_batch,
        grad_accum=run.grad_accum,
        global_batch=batch,
        activation_checkpointing=run.checkpointing,
        precision=run.precision,
    )
    predicted = predict(workload, candidate, cluster)
    memory, total = predicted.memory_bytes_per_gpu, predicted.step_time_s.total
    tensors = memory.total - memory.overhead
    return (None if isinstance(total, Unknown) else total), tensors, differences(run, cluster)


def predict_image_run(run: Images, cluster: Cluster) -> tuple[float | None, float, str]:
    """Return the same three values as `predict_transformer`, for a run of the residual network."""
    ranks = cluster.world_size
    batch = run.micro_batch * ranks
    model = reference_vision_model(run.network, run.image_size)
    work = VisionWorkload(model=model, image_size=run.image_size, global_batch=batch, precision=run.precision)
    candidate = Candidate(
        strategy="ddp",
        degrees=Degrees(dp=ranks),
        micro_batch=run.micro_batch,
        grad_accum=1,
        global_batch=batch,
        activation_checkpointing="none",
        precision=run.precision,
    )
    time = predict_images(image_job(work, candidate, cluster, load_stacks()[REFERENCE]))
    memory = vision_memory(image_job(work, candidate, cluster, load_stacks()[REFERENCE]))
    total = time if isinstance(time, Unknown) else time.total
    pairs = [
        {
            "model": (anchor.model, model.id),
            "micro-batch": (anchor.micro_batch, run.micro_batch),
            "image": (anchor.image_size, run.image_size),
            "precision": (anchor.precision, run.precision),
            "ranks": (anchor.world_size, ranks),
        }
        for anchor in cluster.image_anchors
    ]
    return (
        (None if isinstance(total, Unknown) else total),
        memory.total - memory.overhead,
        nearest(run.name, pairs),
    )


def differences(run: Configuration, cluster: Cluster) -> str:
    """Return the differences between the run and the nearest measured step."""
    pairs = [
        {
            "model": (anchor.model, run.model.id),
            "strategy": (anchor.strategy, run.strategy),
            "micro-batch": (anchor.micro_batch, run.micro_batch),
            "accumulation": (anchor.grad_accum, run.grad_accum),
            "sequence": (anchor.sequence_length, run.sequence_length),
            "precision": (anchor.precision, run.precision),
            "ranks": (anchor.world_size, cluster.world_size),
            "recompute": (anchor.activation_checkpointing, run.checkpointing),
        }
        for anchor in cluster.anchors
    ]
    return nearest(run.name, pairs)


def nearest(name: str, pairs: Sequence[dict[str, tuple[object, object]]]) -> str:
    """Return the names of the settings that differ from the nearest measured step.

    Raises ValueError if the bench measured this very run.
    """
    differing = [[what for what, (one, other) in pair.items() if one != other] for pair in pairs]
    least = min(differing, key=len, default=["all: no step was measured"])
    if not least:
        raise ValueError(f"{name} is what the bench itself measured")
    return ", ".join(least)
