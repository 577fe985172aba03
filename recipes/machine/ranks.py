"""The GPUs that training uses, and the default number of ranks of a machine."""

from probes.base.record import items_of, value_or
from probes.facts import Gpu, MachineFacts

_LEAST_CPU_RANKS = 2
"""Minimum number of ranks on a CPU: two, so that communication between ranks is used on every machine."""


def training_gpus(facts: MachineFacts) -> tuple[Gpu, ...]:
    """Return the GPUs that a rank can use as a whole: all GPUs that are not divided by MIG.

    NCCL before 2.31 cannot connect slices of one GPU.
    """
    return tuple(gpu for gpu in items_of(facts.gpus) if gpu.mig_enabled is not True)


def default_ranks(facts: MachineFacts) -> int:
    """Return the ranks per node: one per GPU, or one per NUMA node (at least 2, at most one per CPU)."""
    gpus = training_gpus(facts)
    if gpus:
        return len(gpus)
    numa_nodes = len(items_of(facts.numa_nodes))
    cpus = value_or(facts.cpu.allowed_cpus, value_or(facts.cpu.logical_cpus, _LEAST_CPU_RANKS))
    return max(1, min(max(_LEAST_CPU_RANKS, numa_nodes), cpus))


def cores_per_rank(facts: MachineFacts, ranks: int) -> int:
    """Return the physical cores that each of `ranks` ranks may use, at least one, for OMP_NUM_THREADS.

    If this process may use only a share of the CPUs, the same share of the physical cores is counted.
    """
    logical = value_or(facts.cpu.logical_cpus, 0)
    cores = value_or(facts.cpu.physical_cores, logical)
    if logical > 0:
        cores = cores * min(value_or(facts.cpu.allowed_cpus, logical), logical) // logical
    return max(1, cores // max(1, ranks))
