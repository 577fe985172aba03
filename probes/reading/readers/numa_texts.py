"""Texts that tell of processors and NUMA nodes: `parse_cpu(text) -> Cpu` and `parse_numa_nodes(text) ->
tuple[NumaNode, ...]`.
"""

from __future__ import annotations

import importlib

import msgspec

from probes.base.record import EvidenceRef, items_of
from probes.facts import Cpu, NumaNode
from probes.reading.outputs import Output, outputs
from probes.sources.base import Source

CPU_KINDS = (("lscpu", "host.lscpu"), ("hwloc", "topology.hwloc_xml"), ("lstopo", "topology.lstopo_console"))
"""Kind and parser module, in the order of trust."""
NODE_KINDS = (("numactl", "topology.numactl"), *CPU_KINDS, ("nccl-topology", "topology.nccl_topology"))


def told_cpus(source: Source) -> tuple[Cpu, ...]:
    """What each given text says of the processors."""
    found: list[Cpu] = []
    for kind, module in CPU_KINDS:
        for output in _texts(source, kind):
            cpu: Cpu = importlib.import_module(f"probes.parsers.{module}").parse_cpu(output.text)
            detail = cpu.evidence[0].detail if cpu.evidence else ""
            origin = EvidenceRef(source=output.evidence.source, key=output.evidence.key, detail=detail)
            found.append(msgspec.structs.replace(cpu, evidence=(origin,)))
    return tuple(found)


def told_nodes(source: Source) -> tuple[tuple[Output, tuple[NumaNode, ...]], ...]:
    """What each given text says of the NUMA nodes."""
    return tuple(
        (output, nodes)
        for kind, module in NODE_KINDS
        for output in _texts(source, kind)
        if (nodes := importlib.import_module(f"probes.parsers.{module}").parse_numa_nodes(output.text))
    )


def _texts(source: Source, kind: str) -> tuple[Output, ...]:
    return items_of(outputs(source, kind))
