"""Read the NUMA nodes of a machine for benchmarks of the host."""

from __future__ import annotations

from probes.base.record import known, value_or
from probes.facts import MachineFacts
from probes.parsers.host.cpulist import parse_cpu_list


def numa_cpus(facts: MachineFacts) -> dict[str, tuple[int, ...]]:
    """Return CPUs by node, without nodes that have none.

    Empty if unknown: the host then counts as one node.
    """
    cpus_by_node = {}
    for node in facts.numa_nodes if known(facts.numa_nodes) else ():
        cpus = parse_cpu_list(node.cpus) if known(node.cpus) else ()
        if known(cpus) and cpus:
            cpus_by_node[str(node.index)] = cpus
    return cpus_by_node


def node_indices(facts: MachineFacts) -> tuple[int, ...]:
    """Return the nodes with CPUs in ascending order; node 0 if they are unknown."""
    return tuple(sorted(int(index) for index in numa_cpus(facts))) or (0,)


def distance_between(facts: MachineFacts, node: int, other: int) -> int | None:
    """Return the distance of two nodes according to the firmware (10 to itself); None if unknown."""
    nodes = facts.numa_nodes if known(facts.numa_nodes) else ()
    indices = [entry.index for entry in nodes]
    own = next((entry.distances for entry in nodes if entry.index == node), ())
    if not known(own) or len(own) != len(indices) or other not in indices:
        return None
    return own[indices.index(other)]


def most_threads(facts: MachineFacts) -> int:
    """Return the number of CPUs that this process may use, limited by its container: the most threads."""
    return max(1, value_or(facts.cpu.allowed_cpus, value_or(facts.cpu.logical_cpus, 1)))
