"""Read the NUMA nodes of a machine for benchmarks of the host."""

from probes.base.record import items_of, value_or
from probes.facts import MachineFacts
from probes.parsers.host.cpulist import parse_cpu_list


def numa_cpus(facts: MachineFacts) -> dict[str, tuple[int, ...]]:
    """Return the CPUs of each node that has CPUs; empty if unknown; the host is then treated as one node."""
    cpus_by_node = {
        str(node.index): items_of(parse_cpu_list(value_or(node.cpus, "")))
        for node in items_of(facts.numa_nodes)
    }
    return {index: cpus for index, cpus in cpus_by_node.items() if cpus}


def node_indices(facts: MachineFacts) -> tuple[int, ...]:
    """Return the nodes with CPUs in ascending order; node 0 if the nodes are unknown."""
    return tuple(sorted(map(int, numa_cpus(facts)))) or (0,)


def node_distances(facts: MachineFacts) -> dict[int, dict[int, int]]:
    """Return the distances that the firmware reports between all nodes, with 10 from a node to itself.

    The distances of a node are empty if they are unknown.
    """
    nodes = items_of(facts.numa_nodes)
    indices = [node.index for node in nodes]
    own = {node.index: items_of(node.distances) for node in nodes}
    return {
        index: dict(zip(indices, distances, strict=True)) if len(distances) == len(indices) else {}
        for index, distances in own.items()
    }


def most_threads(facts: MachineFacts) -> int:
    """Return the number of CPUs that this process may use, or else of all CPUs; 1 if both are unknown."""
    return max(1, value_or(facts.cpu.allowed_cpus, value_or(facts.cpu.logical_cpus, 1)))
