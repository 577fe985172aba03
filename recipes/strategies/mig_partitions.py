"""Partitions of a GPU (MIG) for many small jobs."""

import msgspec

from probes.base.record import Unknown
from probes.base.units import duration, gib, percent
from recipes.machine.cluster_records import Cluster
from recipes.machine.scaled_rates import with_figures
from recipes.strategies.strategy_table import Strategy
from recipes.strategies.verdicts import Situation, Verdict, inapplicable, judged, time_of, undecided

_SEVENTHS, _EIGHTHS = 7, 8


def many_small_jobs(strategy: Strategy, here: Situation) -> Verdict:
    """Judge whether several jobs like this one finish earlier on MIG instances than one after the other.

    An instance has a fraction of the GPU's multiprocessors, memory and memory bandwidth. A job whose kernels
    are too small to fill the GPU slows down by less than this fraction suggests, so that several jobs at the
    same time finish earlier.
    """
    cluster, total = here.cluster, here.total_s
    if not cluster.gpu.startswith(strategy.gpus):
        return inapplicable(
            strategy, here, f"{cluster.device_name} is not in the table of GPUs with seven MIG instances"
        )
    if cluster.world_size > 1:
        return inapplicable(
            strategy,
            here,
            f"the job uses {cluster.world_size} GPUs together, and NCCL cannot connect MIG instances",
        )
    needed = here.plan.chosen.predicted.memory_bytes_per_gpu.needed
    room = cluster.memory_bytes_per_rank
    if room is None or isinstance(total, Unknown):
        return undecided(strategy, here, "the memory of the GPU or the step time is unknown")
    fitting = [row for row in strategy.partitions if needed <= room.value * row[2] / _EIGHTHS]
    if not fitting:
        largest = max(row[2] for row in strategy.partitions) / _EIGHTHS * room.value
        return inapplicable(
            strategy, here, f"the job needs {gib(needed)}, an instance has at most {gib(largest)}"
        )
    best: tuple[float, float, int] | None = None
    for instances, sevenths, eighths in fitting:
        part = time_of(here.job._replace(cluster=_instance(cluster, sevenths, eighths))).total
        if not isinstance(part, Unknown) and (best is None or part / instances < best[0]):
            best = (part / instances, part, instances)
    if best is None:
        return undecided(strategy, here, "the step time on an instance is unknown")
    each, alone, instances = best
    because = (
        f"{instances} jobs like this one, each on an instance: {duration(alone)} per step, "
        f"{duration(each)} per job and step against {duration(total)} on the whole GPU",
        f"the job needs {gib(needed)}, {percent(needed / room.value)} of the GPU's memory",
        "a single job is slower on an instance",
    )
    return judged(strategy, here, 1 - each / total, alone, because)


def _instance(cluster: Cluster, sevenths: int, eighths: int) -> Cluster:
    computing = {
        name: {key: figure.times(sevenths / _SEVENTHS) for key, figure in getattr(cluster, name).items()}
        for name in ("flops_per_s", "peak_flops_per_s")
    }
    part = with_figures(cluster, eighths / _EIGHTHS, "memory_bandwidth_bytes_per_s", "memory_bytes_per_rank")
    return msgspec.structs.replace(part, **computing, anchors=(), image_anchors=())
