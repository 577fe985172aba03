"""Collect NUMA nodes from sysfs, numactl, lscpu, hwloc and an NCCL topology.

Nodes without CPUs are memory of other devices.
"""

from __future__ import annotations

import re

import msgspec

from probes.base.record import Reason, Unknown, items_of, known, map_known, only_known, when_missing
from probes.collect.collecting import CollectOptions
from probes.facts import Contradiction, NumaNode, Reading
from probes.parsers.host.cpulist import cpu_list, mask_list, parse_cpu_list
from probes.parsers.host.procfs import parse_meminfo
from probes.parsers.topology.numactl import numa_status_node
from probes.reading.readers.reader_rows import NUMA_NODES
from probes.reading.readers.text_reader import ReadText, read_all, records_of
from probes.sources.base import Source, read_text

_NODES = "/sys/devices/system/node"
_ONLINE_CPUS = "/sys/devices/system/cpu/online"
_GPUS = "/proc/driver/nvidia/gpus"
_NAME = re.compile(r"node(\d{1,5})")


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """`numa_nodes`, with what contradicts itself."""
    own = _nodes_of_kernel(source)
    texts = () if source.is_live else read_all(source, NUMA_NODES)
    if not records_of(texts):
        return {"numa_nodes": own}
    by_index = {node.index: node for node in items_of(own)}
    for node in records_of(texts):
        by_index[node.index] = _filled(by_index[node.index], node) if node.index in by_index else node
    return {
        "numa_nodes": tuple(by_index[index] for index in sorted(by_index)),
        "contradictions": _contradictions(texts),
    }


def _nodes_of_kernel(source: Source) -> tuple[NumaNode, ...] | Unknown:
    online = read_text(source, f"{_NODES}/online")
    if isinstance(online, Unknown):
        if online.reason is Reason.TOOL_MISSING:
            return ()  # a kernel built without NUMA has no such folder
        names = source.names(_NODES)
        if isinstance(names, Unknown):
            return online
        indexes: tuple[int, ...] | Unknown = tuple(
            sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))
        )
    else:
        indexes = parse_cpu_list(online)
    if isinstance(indexes, Unknown):
        return indexes
    nodes = tuple(_node(source, index) for index in indexes)
    if all(node.cpus != "" for node in nodes):
        return nodes
    gpu_nodes = _gpu_nodes(source)
    return tuple(
        msgspec.structs.replace(
            node, is_gpu_memory=gpu_nodes if isinstance(gpu_nodes, Unknown) else node.index in gpu_nodes
        )
        for node in nodes
    )


def _node(source: Source, index: int) -> NumaNode:
    folder = f"{_NODES}/node{index}"
    meminfo = read_text(source, f"{folder}/meminfo")
    total: int | Unknown
    free: int | Unknown
    if isinstance(meminfo, Unknown):
        total = free = meminfo
    else:
        values = parse_meminfo(meminfo)
        total = values.get("MemTotal", Unknown(Reason.UNPARSABLE, f"{folder}/meminfo has no MemTotal"))
        free = values.get("MemFree", Unknown(Reason.UNPARSABLE, f"{folder}/meminfo has no MemFree"))
    distances = read_text(source, f"{folder}/distance")
    return NumaNode(
        index=index,
        cpus=_cpus(source, folder),
        memory_bytes=total,
        memory_free_bytes=free,
        distances=map_known(distances, _row),
        is_gpu_memory=False,
    )


def _cpus(source: Source, folder: str) -> str | Unknown:
    """Return the CPUs of a node that are online."""
    text = read_text(source, f"{folder}/cpulist")
    if isinstance(text, Unknown):
        mask = read_text(source, f"{folder}/cpumap")
        return text if isinstance(mask, Unknown) else mask_list(mask)
    cpus, online = parse_cpu_list(text), read_text(source, _ONLINE_CPUS)
    running = map_known(online, parse_cpu_list)
    if isinstance(cpus, Unknown) or isinstance(running, Unknown) or not running:
        return text
    up = set(running)
    return text if up.issuperset(cpus) else cpu_list(cpu for cpu in cpus if cpu in up)


def _row(text: str) -> tuple[int, ...] | Unknown:
    numbers = text.split()
    if not numbers or not all(number.isdecimal() and len(number) < 5 for number in numbers):
        return Unknown(Reason.UNPARSABLE, f"distance: {text[:40]!r}")
    return tuple(int(number) for number in numbers)


def _gpu_nodes(source: Source) -> frozenset[int] | Unknown:
    """Return the nodes that the NVIDIA driver created for GPU memory."""
    gpus = source.names(_GPUS)
    if isinstance(gpus, Unknown):
        return when_missing(gpus, frozenset())
    texts = [read_text(source, f"{_GPUS}/{gpu}/numa_status") for gpu in gpus]
    nodes = [numa_status_node(text) for text in only_known(texts)]
    return frozenset(node for node in nodes if node is not None)


def _filled(first: NumaNode, second: NumaNode) -> NumaNode:
    """Return `first` with the values that only `second` knows."""
    missing = {
        name: value
        for name in first.__struct_fields__
        if isinstance(getattr(first, name), Unknown) and known(value := getattr(second, name))
    }
    return msgspec.structs.replace(first, **missing)


def _contradictions(texts: tuple[ReadText[NumaNode], ...]) -> tuple[Contradiction, ...]:
    """Texts that give one node different CPUs."""
    readings: dict[int, dict[str, Reading]] = {}
    for read in texts:
        for node in read.records:
            cpus = map_known(node.cpus, parse_cpu_list)
            if not isinstance(cpus, Unknown) and cpus:
                text = cpu_list(cpus)
                readings.setdefault(node.index, {}).setdefault(
                    text, Reading(value=text, evidence=read.output.evidence)
                )
    return tuple(
        Contradiction(subject=f"NUMA node {index}", field="cpus", readings=tuple(values.values()))
        for index, values in sorted(readings.items())
        if len(values) > 1
    )
