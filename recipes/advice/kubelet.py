"""Observe the NUMA map of a machine, and write a fragment of the kubelet's configuration."""

import json
import math
from collections.abc import Iterator
from typing import Any

from probes.base.grouping import folded
from probes.base.record import (
    NOT_RECORDED,
    Reason,
    Unknown,
    first_unknown,
    items_of,
    known,
    only_known,
    quoted,
)
from probes.base.units import MIB, gib
from probes.facts import MachineFacts, NumaNode
from probes.judging.affinity import affinity_of
from probes.judging.reporting import fold_names
from probes.parsers.host.cpulist import parse_cpu_list
from recipes.advice.advice_lines import Document, Observed, filled, matches, unread
from recipes.advice.machine_parts import Parts, figure


def observe_kubelet(parts: Parts) -> Iterator[Observed]:
    """Yield the conditions of `recipes/data/advice/kubelet.toml` that hold."""
    facts = parts.facts
    everything = facts.numa_nodes
    nodes = tuple(node for node in items_of(everything) if node.can_hold_ranks)
    if not nodes:
        yield unread("numa_unknown", everything if isinstance(everything, Unknown) else NOT_RECORDED)
        return
    cpus = facts.cpu.logical_cpus
    words = {
        "nodes": str(len(nodes)),
        "all_nodes": str(len(items_of(everything))),
        "cpus": str(cpus),
    }
    yield Observed("has_nodes", words)
    yield from _cpus(facts, nodes)
    yield from _policy(parts, nodes)
    if len(nodes) > 1:
        yield Observed("aligns", words)
    if len(nodes) > 2:
        yield Observed("more_than_two", words)
    most = int(figure("most_numa_nodes"))
    if len(items_of(everything)) > most:
        yield Observed("many_nodes", {**words, "most": str(most)})
    yield from _memory(facts, nodes)
    if parts.is_virtual:
        yield Observed("virtual")


def _cpus(facts: MachineFacts, nodes: tuple[NumaNode, ...]) -> Iterator[Observed]:
    threads = _threads_per_core(facts)
    if isinstance(threads, Unknown):
        yield unread("threads_unknown", threads)
    elif threads > 1:
        is_read = known(facts.cpu.threads_per_core)
        fact = "cpu.threads_per_core" if is_read else "cpu.logical_cpus / cpu.physical_cores"
        yield Observed("smt", {"threads": str(threads), "threads_fact": fact})
    cores = int(figure("reserved_cores_per_node"))
    chosen = [_first_cores(node.cpus, threads, cores) for node in nodes]
    missing = first_unknown(*chosen)
    if missing is not None:
        # A core has one or two threads, so two CPUs per core are enough to reserve a whole core.
        yield Observed("reserved_unknown", {"reason": missing.words, "count": str(2 * cores * len(nodes))})
        return
    reserved = folded(cpu for each in only_known(chosen) for cpu in each)
    words = {
        "reserved": reserved,
        "node_cpus": "; ".join(f"node {node.index}: {node.cpus}" for node in nodes),
        "cores": str(cores),
    }
    yield Observed("reserved", words)


def _threads_per_core(facts: MachineFacts) -> int | Unknown:
    """Return the threads of a core, as reported, or else logical CPUs divided by physical cores."""
    cpu = facts.cpu
    if known(cpu.threads_per_core):
        return cpu.threads_per_core
    if known(cpu.logical_cpus) and known(cpu.physical_cores) and cpu.physical_cores > 0:
        threads, rest = divmod(cpu.logical_cpus, cpu.physical_cores)
        if threads and not rest:
            return threads
    return cpu.threads_per_core


def _first_cores(cpus: str | Unknown, threads: int | Unknown, cores: int) -> tuple[int, ...] | Unknown:
    """Return the CPUs of the first cores of a node.

    With several threads per core, the kernel usually numbers the second threads of all cores after the first
    threads, so that a node has as many ranges of equal length as a core has threads. The result is Unknown
    for any other numbering, for a node without a spare core, and if an argument is Unknown.
    """
    if isinstance(cpus, Unknown):
        return cpus
    if isinstance(threads, Unknown):
        return threads
    numbers = parse_cpu_list(cpus)
    if isinstance(numbers, Unknown):
        return numbers
    if len(numbers) <= cores * threads:
        return Unknown(Reason.NOT_SUPPORTED, f"a node with the CPUs {quoted(cpus)} has no core to spare")
    if threads == 1:
        return numbers[:cores]
    per_thread, rest = divmod(len(numbers), threads)
    ordered = sorted(numbers)
    offsets = (
        {
            ordered[thread * per_thread + place]
            - ordered[place]
            - thread * (ordered[per_thread] - ordered[0])
            for thread in range(threads)
            for place in range(per_thread)
        }
        if not rest
        else {1}
    )
    is_split = ordered[per_thread] - ordered[per_thread - 1] > 1
    if offsets != {0} or not is_split:
        return Unknown(Reason.NOT_RECORDED, f"the list {quoted(cpus)} does not show which CPUs share a core")
    return tuple(ordered[thread * per_thread + place] for thread in range(threads) for place in range(cores))


def _policy(parts: Parts, nodes: tuple[NumaNode, ...]) -> Iterator[Observed]:
    if len(nodes) == 1:
        yield Observed("one_node")
        return
    if not parts.gpus:
        known_none = parts.facts.gpus == ()
        reason = parts.facts.gpus.words if isinstance(parts.facts.gpus, Unknown) else ""
        yield Observed("no_gpu") if known_none else Observed("gpu_nodes_unknown", {"reason": reason})
        return
    groups: dict[int, list[str]] = {}
    for place in items_of(affinity_of(parts.facts)):
        if isinstance(place.numa_node, Unknown):
            yield unread("gpu_nodes_unknown", place.numa_node)
            return
        groups.setdefault(place.numa_node, []).append(place.gpu)
    words = "; ".join(f"{fold_names(names)} on node {node}" for node, names in sorted(groups.items()))
    yield Observed("single_node" if len(groups) == 1 else "several", {"gpus": words})


def _memory(facts: MachineFacts, nodes: tuple[NumaNode, ...]) -> Iterator[Observed]:
    of_gpus = [node for node in items_of(facts.numa_nodes) if node.is_gpu_memory is True]
    if of_gpus:
        yield Observed("memory_of_gpus", {"gpu_nodes": fold_names(f"node{node.index}" for node in of_gpus)})
        return
    sizes = [node.memory_bytes for node in nodes]
    missing = first_unknown(*sizes)
    if missing is not None:
        yield unread("memory_unknown", missing)
        return
    total = sum(only_known(sizes))
    share, eviction = figure("reserved_memory_share"), int(figure("eviction_mib"))
    each = max(eviction, math.ceil(total / MIB * share / len(nodes)))
    words = {
        "reserved_memory": gib(each * MIB),
        "reserved_mib": str(each),
        "memory": ", ".join(dict.fromkeys(map(gib, only_known(sizes)))),
        "rule": f"{share:g} of the memory, and {eviction} MiB before pods are evicted",
        "system_mib": str(each * len(nodes) - eviction),
        "eviction_mib": str(eviction),
        "indexes": ",".join(str(node.index) for node in nodes),
    }
    yield Observed("memory_static", words)


def kubelet_documents(observations: tuple[Observed, ...]) -> tuple[Document, ...]:
    """Return the fragment of the kubelet's configuration, with the reason of each line as a comment.

    Returns no document if the NUMA nodes are unknown.
    """
    fields: dict[str, tuple[Any, list[str]]] = {}
    for row, observed in matches("kubelet", observations):
        for name, value in filled(row.settings, observed.words).items():
            reason = filled(row.why or row.text, observed.words)
            before, reasons = fields.get(name, ({}, []))
            merged = {**before, **value} if isinstance(value, dict) else value
            fields[name] = (merged, [*reasons, reason])
        if row.when == "memory_static":
            fields["reservedMemory"] = (_reserved_memory(observed), [filled(row.why, observed.words)])
    if not fields:
        return ()
    lines: list[str] = []
    said: list[str] = []
    for name, (value, reasons) in fields.items():
        if reasons != said:  # consecutive settings with the same reason share one comment
            lines += [f"# {' '.join(reason.split())}" for reason in dict.fromkeys(reasons)]
        said = reasons
        lines += _field(name, value)
    return (
        Document(
            name="kubelet",
            purpose="A fragment of the kubelet's configuration (kubelet.config.k8s.io/v1beta1)",
            language="yaml",
            text="\n".join(lines) + "\n",
        ),
    )


def _reserved_memory(observed: Observed) -> list[dict[str, Any]]:
    each = f"{observed.words['reserved_mib']}Mi"
    return [
        {"numaNode": int(index), "limits": {"memory": each}} for index in observed.words["indexes"].split(",")
    ]


def _field(name: str, value: Any) -> Iterator[str]:
    """Yield the lines of one field. JSON is YAML too, so values are written as JSON."""
    match value:
        case dict():
            yield f"{name}:"
            yield from (f"  {json.dumps(key)}: {json.dumps(part)}" for key, part in value.items())
        case list():
            yield f"{name}:"
            yield from (f"  - {json.dumps(part)}" for part in value)
        case _:
            yield f"{name}: {json.dumps(value)}"
