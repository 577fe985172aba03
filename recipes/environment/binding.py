"""Binding of ranks to the processors near their GPUs, and the number of DataLoader workers.

`probes.judging.affinity` finds the processors of each GPU. The launch scripts do not bind ranks: a binding
also applies to the threads of NCCL and of data loaders, so the user decides where these threads may run.
"""

from itertools import groupby

from probes.base.record import known
from probes.base.versions import at_least
from probes.judging.affinity import affinity_of
from probes.judging.reporting import fold_names
from recipes.constants import constant
from recipes.environment.environment_plan import HostSetting, RankBinding
from recipes.environment.job_situation import Situation
from recipes.machine.ranks import training_gpus

_NUMA_BINDING_SINCE = "2.9"
"""First torch whose torchrun has --numa-binding (pytorch/pytorch, pull request 149334, merged 2025-07)."""


def rank_bindings(situation: Situation) -> tuple[RankBinding, ...]:
    """Return the CPUs and the NUMA node of each local rank.

    The result is empty on a CPU, if the GPUs of all ranks have the same NUMA node, if a place is unknown, if
    MIG divides a GPU, and if there are more ranks than GPUs.
    """
    places = affinity_of(situation.facts)
    ranks = situation.cluster.ranks_per_node
    is_whole = len(training_gpus(situation.facts)) == (0 if not known(places) else len(places))
    if situation.cluster.device != "cuda" or not known(places) or not is_whole or len(places) < ranks:
        return ()
    bindings = tuple(
        RankBinding(local_rank=rank, cpus=place.cpus, numa_node=place.numa_node)
        for rank, place in enumerate(places[:ranks])
        if isinstance(place.cpus, str) and isinstance(place.numa_node, int)
    )
    is_divided = len({binding.numa_node for binding in bindings}) > 1
    return bindings if len(bindings) == ranks and is_divided else ()


def binding_words(bindings: tuple[RankBinding, ...], torch: str | None) -> dict[str, str]:
    """Return how launchers express the binding; empty without bindings.

    Sources: torch.distributed.run; srun(1), --cpu-bind and --mem-bind; mpirun(1) of Open MPI; numactl(8).
    """
    if not bindings:
        return {}
    nodes = [str(binding.numa_node) for binding in bindings]
    is_new = torch is not None and at_least(torch, _NUMA_BINDING_SINCE) is True
    sizes = {len(tuple(group)) for _, group in groupby(nodes)}
    is_even = len(sizes) == 1 and len(set(nodes)) == len([*groupby(nodes)])
    return {
        "torchrun": "--numa-binding=node" + ("" if is_new else f" (torch {_NUMA_BINDING_SINCE} or newer)"),
        "srun, one task per rank": f"--cpu-bind=map_ldom:{','.join(nodes)} --mem-bind=local",
        "mpirun of Open MPI": f"--map-by ppr:{sizes.pop()}:numa --bind-to numa" if is_even else "a rankfile",
        "any other": "numactl --cpunodebind=NODE --membind=NODE before the command of each rank",
    }


def host_settings(situation: Situation, bindings: tuple[RankBinding, ...]) -> tuple[HostSetting, ...]:
    """Return the number of DataLoader workers and the binding of ranks, as far as each can be derived."""
    workers = _workers(situation)
    return (*([workers] if workers else []), *([_binding(bindings)] if bindings else []))


def _binding(bindings: tuple[RankBinding, ...]) -> HostSetting:
    nodes = {binding.numa_node: binding.cpus for binding in bindings}
    places = [
        f"{fold_names([f'rank {each.local_rank}' for each in bindings if each.numa_node == node])} on node "
        f"{node} (CPUs {cpus})"
        for node, cpus in nodes.items()
    ]
    return HostSetting(
        name="cpu_binding",
        value="numa",
        basis="rule",
        because=f"{'; '.join(places)}: threads and memory of a rank belong on the NUMA node of its GPU. The "
        "scripts do not bind ranks; torchrun does with `--numa-binding=node`, and "
        "`environment.binding_words` in the JSON output has the options of other launchers",
    )


def _workers(situation: Situation) -> HostSetting | None:
    """Return the workers per rank: the measured number, or else the usual number, at most cores - 1.

    The result is None if nothing was measured and the cores are unknown.
    """
    measured, cores = situation.cluster.data_loader_workers, situation.cluster.physical_cores_per_rank
    if measured is not None:
        because = (
            "for a DataLoader in your program: the smallest number of workers per rank that loads as fast as "
            f"any larger number ({measured.source})"
        )
        return HostSetting(
            name="num_workers", value=f"{measured.value:.0f}", basis="measured", because=because
        )
    if cores is None:
        return None
    usual = int(constant("loader_workers_images" if situation.is_image_job else "loader_workers_text"))
    number = max(0, min(usual, cores - 1))
    kind = "images, which workers decode" if situation.is_image_job else "tokens, which need little work"
    own = (
        "the only physical core of a rank is"
        if cores == 1
        else f"one of the {cores} physical cores of a rank is"
    )
    because = (
        f"for a DataLoader in your program: {usual} workers per rank are usual for {kind}, and {own} "
        "left for its own thread; `rigtune bench --only data-loader` measures the best number"
    )
    return HostSetting(name="num_workers", value=str(number), basis="rule", because=because)
