"""The NUMA nodes of a machine as benchmarks of the host ask for them."""

from __future__ import annotations

from probes.base.record import known, value_or
from probes.facts import MachineFacts
from probes.parsers.host.cpulist import parse_cpu_list


def numa_cpus(facts: MachineFacts) -> dict[str, tuple[int, ...]]:
    """CPUs by node, nodes without any left out, such as a GPU's memory; empty where unknown: then the host
    counts as one node.
    """
    found = {}
    for node in facts.numa_nodes if known(facts.numa_nodes) else ():
        cpus = parse_cpu_list(node.cpus) if known(node.cpus) else ()
        if known(cpus) and cpus:
            found[str(node.index)] = cpus
    return found


def node_indices(facts: MachineFacts) -> tuple[int, ...]:
    """The nodes with CPUs in ascending order; node 0 where they are unknown."""
    return tuple(sorted(int(index) for index in numa_cpus(facts))) or (0,)


def distance_between(facts: MachineFacts, node: int, other: int) -> int | None:
    """As the firmware states it, 10 to itself; None where it is unknown."""
    nodes = facts.numa_nodes if known(facts.numa_nodes) else ()
    indices = [entry.index for entry in nodes]
    own = next((entry.distances for entry in nodes if entry.index == node), ())
    if not known(own) or len(own) != len(indices) or other not in indices:
        return None
    return own[indices.index(other)]


def most_threads(facts: MachineFacts) -> int:
    """At most so many threads at a time: the CPUs that this process may use, a container's share counted."""
    return max(1, value_or(facts.cpu.allowed_cpus, value_or(facts.cpu.logical_cpus, 1)))
