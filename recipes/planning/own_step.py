"""A measured step of the user's own program (`rigtune bench --step`) as an anchor of the plan's times.

The measurement does not state which model the step trains. A plan for the user's program assumes that the
step trains the planned model in the planned precision, and warns about this assumption. A step whose time is
far from the prediction is assumed to train something else, and is left out.
"""

import msgspec

from probes.base.record import Unknown
from probes.base.units import duration
from probes.facts.measurements import Measurement
from recipes.constants import constant
from recipes.job.workload import AnyWorkload, VisionWorkload
from recipes.machine.cluster_records import Cluster, ImageAnchor, StepAnchor
from recipes.machine.measured_rates import threads_of, whole_of
from recipes.predict.candidate_prediction import modelled_anchor
from recipes.predict.image_prediction import modelled_image_anchor

_BENCHMARK = "own-step"


def with_own_steps(cluster: Cluster, workload: AnyWorkload, measurements: tuple[Measurement, ...]) -> Cluster:
    """Return the cluster with the measured steps of the user's program as anchors, and with what is assumed
    about them as warnings.
    """
    used: list[StepAnchor | ImageAnchor] = []
    notes: list[str] = []
    for step in measurements:
        if step.bench_id != _BENCHMARK or step.metric != "step_time_s" or not step.samples:
            continue
        name = f"{step.parameters.get('step')} on {step.parameters.get('world_size')} ranks"
        measured = _anchor_of(step, cluster, workload, measurements)
        if measured is None:
            notes.append(
                f"your step {name} does not state its micro-batch: its measured time is not used; "
                "give its function a parameter micro_batch"
            )
            continue
        anchor, modelled = measured
        if isinstance(modelled, Unknown):
            continue
        factor, most = anchor.step_time_s / modelled, constant("own_step_factor")
        if not 1 / most <= factor <= most:
            notes.append(
                f"your step {name} took {duration(anchor.step_time_s)}, but {duration(modelled)} is "
                f"predicted for {workload.model.id}: it seems to train something else, and is not used"
            )
            continue
        used.append(anchor)
        notes.append(
            f"times are scaled by your measured step {name} ({duration(anchor.step_time_s)}), which is "
            f"assumed to train {workload.model.id} in {workload.precision} with data parallelism"
        )
    return msgspec.structs.replace(
        cluster,
        anchors=(*cluster.anchors, *(each for each in used if isinstance(each, StepAnchor))),
        image_anchors=(*cluster.image_anchors, *(each for each in used if isinstance(each, ImageAnchor))),
        warnings=(*cluster.warnings, *dict.fromkeys(notes)),
    )


def _anchor_of(
    step: Measurement, cluster: Cluster, workload: AnyWorkload, measurements: tuple[Measurement, ...]
) -> tuple[StepAnchor | ImageAnchor, float | Unknown] | None:
    """Return the anchor of a measured step and its modelled time; None if its micro-batch or number of ranks
    is unknown.
    """
    ranks = whole_of(step.parameters.get("world_size"))
    items = _items_per_rank(step, measurements)
    micro_batch = whole_of(step.parameters.get("micro_batch"))
    if isinstance(workload, VisionWorkload):
        micro_batch = round(items.get("images", items.get("samples", 0.0))) or micro_batch
        if min(ranks, micro_batch) < 1:
            return None
        images = ImageAnchor(
            model=workload.model.id,
            micro_batch=micro_batch,
            image_size=workload.image_size,
            precision=workload.precision,
            world_size=ranks,
            threads=threads_of(step),
            step_time_s=step.median,
            source=f"benchmark {_BENCHMARK} on {step.subject}",
        )
        return images, modelled_image_anchor(images, cluster, workload.model)
    tokens = round(items.get("tokens", 0.0))
    if not micro_batch:
        micro_batch = round(items.get("samples", 0.0)) or round(tokens / workload.sequence_length)
    if min(ranks, micro_batch) < 1:
        return None
    # Steps that report only samples are assumed to have the plan's sequences.
    length = round(tokens / micro_batch) or workload.sequence_length
    anchor = StepAnchor(
        model=workload.model.id,
        strategy="ddp",
        micro_batch=micro_batch,
        grad_accum=1,
        sequence_length=length,
        precision=workload.precision,
        world_size=ranks,
        activation_checkpointing="none",
        threads=threads_of(step),
        step_time_s=step.median,
        low_s=step.quantile(0.1),
        high_s=step.quantile(0.9),
        source=f"benchmark {_BENCHMARK} on {step.subject}",
    )
    return anchor, modelled_anchor(anchor, cluster, workload.model)


def _items_per_rank(step: Measurement, measurements: tuple[Measurement, ...]) -> dict[str, float]:
    """Return the tokens, images or samples of one rank and step, as far as the step reports them."""
    ranks = max(1, whole_of(step.parameters.get("world_size")))
    return {
        name: rate.median * step.median / ranks
        for rate in measurements
        for name in ("tokens", "images", "samples")
        if rate.bench_id == _BENCHMARK
        and rate.metric == f"{name}_per_s"
        and rate.samples
        and rate.parameters == step.parameters
    }
