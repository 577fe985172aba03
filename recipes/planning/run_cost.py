"""Cost of a whole run: hours, GPU hours, money, and what failures are expected to lose."""

from typing import Literal

from probes.base.record import Unknown
from recipes.constants import constant
from recipes.job.workload import AnyWorkload, Workload
from recipes.machine.cluster_records import Cluster
from recipes.planning.plan import RunCost
from recipes.settings.checkpointing import Checkpoints

RunLength = Literal["tokens", "samples", "steps", "assumed"]


def run_cost(
    workload: AnyWorkload,
    cluster: Cluster,
    step_s: float | Unknown,
    *,
    price: float | None = None,
    checkpoints: Checkpoints | None = None,
    length_from: RunLength = "steps",
) -> RunCost:
    """Return the cost of all steps of the workload; on a CPU a rank counts as a GPU.

    Interruptions are in proportion to GPU hours, or follow from the user's mean time between failures
    (`checkpoints`). A run that is repeated in part is not interrupted again in this estimate.
    """
    gpus = cluster.world_size
    hours: float | Unknown = step_s if isinstance(step_s, Unknown) else step_s * workload.steps / 3600
    samples = workload.steps * workload.global_batch
    rate, share = failures_and_loss(cluster, checkpoints)
    whole = _times(hours, gpus * (1 + share))
    return RunCost(
        length_from=length_from,
        steps=workload.steps,
        samples=samples,
        tokens=samples * workload.sequence_length if isinstance(workload, Workload) else 0,
        hours=hours,
        gpu_hours=_times(hours, gpus),
        interruptions=_times(hours, rate),
        lost_hours=_times(hours, share),
        lost_share=hours if isinstance(hours, Unknown) else share / (1 + share),
        price_per_gpu_hour=price,
        cost=None if price is None else _times(whole, price),
    )


def failures_and_loss(cluster: Cluster, checkpoints: Checkpoints | None) -> tuple[float, float]:
    """Return the interruptions per hour of training, and the hours that they and the writing of checkpoints
    cost for each hour of training.
    """
    interval, writing = constant("checkpoint_interval_s"), 0.0
    if checkpoints is None or isinstance(checkpoints.mtbf_s, Unknown):
        gpus = cluster.world_size if cluster.device == "cuda" else 0
        rate = constant("interruptions_per_gpu_hour") * gpus
    else:
        rate = 3600 / checkpoints.mtbf_s
        if not isinstance(checkpoints.interval_s, Unknown) and not isinstance(checkpoints.write_s, Unknown):
            interval = checkpoints.interval_s
            writing = checkpoints.write_s / interval
    return rate, rate * (interval / 2 + constant("restart_s")) / 3600 + writing


def _times(hours: float | Unknown, factor: float) -> float | Unknown:
    return hours if isinstance(hours, Unknown) else hours * factor
