"""The ordered table of collectors. A new one is a file of this folder and a row here."""

from __future__ import annotations

from probes.base.table_rows import ProbeRow, Tier


def _probe(probe_id: str, title: str, *provides: str, module: str = "", tier: Tier = "quick") -> ProbeRow:
    return ProbeRow(
        id=probe_id,
        title=title,
        module=f"probes.collect.{module or probe_id}",
        provides=provides or (probe_id,),
        tier=tier,
    )


PROBES: tuple[ProbeRow, ...] = (
    _probe("hostname", "Name", "hostname", "naming"),
    _probe("dmi", "Maker and model"),
    _probe("gpu", "GPUs", "gpus", "pci_gpus", "attached_gpus"),
    _probe("pci", "PCI devices", "pci_devices", "accelerators"),
    _probe("topology", "Topology", "links", "peer_access"),
    _probe("infiniband", "InfiniBand and RoCE", "nics"),
    _probe("interfaces", "Network interfaces"),
    _probe("fabric", "InfiniBand fabric", "fabric_ports", "fabric_switches"),
    _probe("cpu", "CPU"),
    _probe("numa", "NUMA nodes", "numa_nodes"),
    _probe("memory", "Memory"),
    _probe("limits", "Limits"),
    _probe("kernel", "Kernel settings"),
    _probe("clock", "Time of day"),
    _probe("power", "Power and sensors", tier="deep"),
    _probe("software", "Software"),
    _probe("environment", "Environment"),
    _probe("interpreter", "Training interpreter", "training"),
    _probe("storage", "Storage"),
    _probe("container", "Container"),
    _probe("cloud", "Cloud"),
    _probe("scheduler", "Scheduler"),
    _probe("events", "Logs", "events", "logs"),
    _probe("diagnoses", "Diagnoses of other tools", tier="deep"),
    _probe("tool-results", "Measurements of other tools", "tool_results", module="tool_results"),
    _probe("strangers", "Unrecognised files", "unread"),
)
"""Collectors: `collect(source: Source, options: CollectOptions) -> dict[str, object]`, fields of
`MachineFacts`."""
