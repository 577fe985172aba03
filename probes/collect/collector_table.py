"""The ordered table of collectors. A new collector is a function in a file of this folder, and a row here."""

from probes.base.table_rows import ProbeRow, Tier


def _probe(
    probe_id: str,
    title: str,
    *provides: str,
    module: str = "",
    tier: Tier = "quick",
    asks_driver: bool = False,
) -> ProbeRow:
    """Return the row of the collector `collect` in the module of the same name, or in a shared module."""
    return ProbeRow(
        id=probe_id,
        title=title,
        module=f"probes.collect.{module or probe_id}",
        function=f"collect_{probe_id.replace('-', '_')}" if module else "collect",
        provides=provides or (probe_id,),
        tier=tier,
        asks_driver=asks_driver,
    )


PROBES: tuple[ProbeRow, ...] = (
    _probe("hostname", "Name", "hostname", "naming", module="identity"),
    _probe("dmi", "Maker and model", module="identity"),
    _probe("gpu", "GPUs", "gpus", "pci_gpus", "attached_gpus", "driver_answer_s", asks_driver=True),
    _probe("pci", "PCI devices", "pci_devices", "accelerators", module="topology"),
    _probe("topology", "Topology", "links", "peer_access", module="topology", asks_driver=True),
    _probe("infiniband", "InfiniBand and RoCE", "nics"),
    _probe("interfaces", "Network interfaces"),
    _probe("fabric", "InfiniBand fabric", "fabric_ports", "fabric_switches", module="given"),
    _probe("cpu", "CPU", module="processors"),
    _probe("numa", "NUMA nodes", "numa_nodes", module="processors"),
    _probe("memory", "Memory", module="resources"),
    _probe("limits", "Limits", module="resources"),
    _probe("kernel", "Kernel settings", module="kernel"),
    _probe("clock", "Time of day", module="kernel"),
    _probe("power", "Power and sensors", module="resources", tier="deep"),
    _probe("software", "Software", asks_driver=True),
    _probe("environment", "Environment"),
    _probe("interpreter", "Training interpreter", "training"),
    _probe("storage", "Storage", module="resources"),
    _probe("container", "Container", module="surroundings"),
    _probe("cloud", "Cloud", module="surroundings"),
    _probe("scheduler", "Scheduler", module="surroundings"),
    _probe("events", "Logs", "events", "logs"),
    _probe("diagnoses", "Diagnoses of other tools", module="given", tier="deep"),
    _probe("tool-results", "Measurements of other tools", "tool_results", module="given"),
    _probe("strangers", "Unrecognised files", "unread", module="given"),
)
