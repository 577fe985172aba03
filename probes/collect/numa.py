"""NUMA nodes. Those without CPUs are memory of other devices (GPU memory on Grace, CXL)."""

from __future__ import annotations

from probes.collecting import CollectOptions
from probes.facts import NumaNode
from probes.parsers.cpulist import parse_cpu_list
from probes.parsers.procfs import parse_meminfo
from probes.record import Reason, Unknown
from probes.sources.base import Source, read_text

_NODES = "/sys/devices/system/node"


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """`numa_nodes`."""
    online = read_text(source, f"{_NODES}/online")
    if isinstance(online, Unknown):
        # A kernel built without NUMA has no such folder.
        return {"numa_nodes": () if online.reason is Reason.TOOL_MISSING else online}
    nodes = parse_cpu_list(online)
    return {"numa_nodes": nodes if isinstance(nodes, Unknown) else tuple(_node(source, index) for index in nodes)}


def _node(source: Source, index: int) -> NumaNode:
    folder = f"{_NODES}/node{index}"
    meminfo = read_text(source, f"{folder}/meminfo")
    if isinstance(meminfo, Unknown):
        memory: int | Unknown = meminfo
    else:
        memory = parse_meminfo(meminfo).get("MemTotal", Unknown(Reason.UNPARSABLE, f"{folder}/meminfo has no MemTotal"))
    return NumaNode(index=index, cpus=read_text(source, f"{folder}/cpulist"), memory_bytes=memory)
