"""Partitions of a GPU (MIG) for many small jobs."""

import msgspec

from probes.base.record import Unknown
from probes.base.units import duration, gib, percent
from probes.catalogue.hardware import load_catalogue
from recipes.machine.cluster_records import Cluster
from recipes.machine.mig_profiles import bandwidth_share, memory_of, mig_model
from recipes.machine.scaled_rates import with_figures
from recipes.strategies.strategy_table import Strategy
from recipes.strategies.verdicts import Situation, Verdict, inapplicable, judged, time_of, undecided


def many_small_jobs(strategy: Strategy, here: Situation) -> Verdict:
    """Judge whether several jobs like this one finish earlier on MIG instances than one after the other.

    An instance has a fraction of the GPU's multiprocessors, memory and memory bandwidth. A job whose kernels
    are too small to fill the GPU slows down by less than this fraction suggests, so that several jobs at the
    same time finish earlier.
    """
    cluster, total = here.cluster, here.total_s
    row = load_catalogue().gpu(cluster.gpu)
    model = mig_model(row) if row is not None else None
    if row is None or model is None:
        return inapplicable(
            strategy, here, f"{cluster.device_name} is not in the table of GPUs with MIG profiles"
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
    divided = [profile for profile in model.profiles if profile.count > 1]
    memories = {profile.name: memory_of(profile, model, row) for profile in divided}
    shares = {name: memory.size_bytes / row.memory_bytes for name, memory in memories.items()}
    fitting = [profile for profile in divided if needed <= room.value * shares[profile.name]]
    if not fitting:
        largest = max(shares.values()) * room.value
        return inapplicable(
            strategy, here, f"the job needs {gib(needed)}, an instance has at most {gib(largest)}"
        )
    best: tuple[float, float, int] | None = None
    for profile in fitting:
        instance = with_figures(cluster, shares[profile.name], "memory_bytes_per_rank")
        bandwidth = bandwidth_share(memories[profile.name], row)
        instance = _instance(instance, profile.slices / model.slices, bandwidth)
        part = time_of(here.job._replace(cluster=instance)).total
        if not isinstance(part, Unknown) and (best is None or part / profile.count < best[0]):
            best = (part / profile.count, part, profile.count)
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


def _instance(cluster: Cluster, computing_share: float, bandwidth: float) -> Cluster:
    """Return the cluster with a part of the rates of its GPU."""
    computing = {
        name: {key: figure.times(computing_share) for key, figure in getattr(cluster, name).items()}
        for name in ("flops_per_s", "peak_flops_per_s")
    }
    part = with_figures(cluster, bandwidth, "memory_bandwidth_bytes_per_s")
    return msgspec.structs.replace(part, **computing, anchors=(), image_anchors=())
