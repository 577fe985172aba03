"""The facts of a machine. Every field is a value or an `Unknown`; an empty tuple means "there are none".

Field names are the JSON contract of `rigtune probe --format json`.
"""

from probes.base.record import NOT_RECORDED, Record, Unknown, items_of
from probes.facts.expected import Cluster, Profile
from probes.facts.gpu_facts import (
    Fabric,
    Gpu,
    GpuLimits,
    GpuMemoryHealth,
    GpuProcess,
    MigDevice,
    NvLink,
    PcieLink,
)
from probes.facts.host_facts import (
    Clock,
    Cpu,
    Dmi,
    Filesystem,
    Kernel,
    Limit,
    Limits,
    Memory,
    Naming,
    NumaNode,
    Power,
    Sysctl,
)
from probes.facts.named import Count, State, count_of, counts, state_of, states
from probes.facts.network_facts import FabricPort, FabricSwitch, Gid, Interface, Nic
from probes.facts.observed import Contradiction, Diagnosis, LogEvent, Reading, ToolResult, Unread
from probes.facts.pci_facts import Accelerator, Link, LinkKind, PciDevice, PciKind, PeerAccess
from probes.facts.software_facts import (
    Cloud,
    Container,
    EnvironmentVariable,
    Library,
    Scheduler,
    Software,
    TrainingPython,
)

__all__ = [
    "Accelerator",
    "Clock",
    "Cloud",
    "Cluster",
    "Container",
    "Contradiction",
    "Count",
    "Cpu",
    "Diagnosis",
    "Dmi",
    "EnvironmentVariable",
    "Fabric",
    "FabricPort",
    "FabricSwitch",
    "Filesystem",
    "Gid",
    "Gpu",
    "GpuLimits",
    "GpuMemoryHealth",
    "GpuProcess",
    "Interface",
    "Kernel",
    "Library",
    "Limit",
    "Limits",
    "Link",
    "LinkKind",
    "LogEvent",
    "MachineFacts",
    "Memory",
    "MigDevice",
    "Naming",
    "Nic",
    "NumaNode",
    "NvLink",
    "PciDevice",
    "PciKind",
    "PcieLink",
    "PeerAccess",
    "Power",
    "Profile",
    "Reading",
    "Scheduler",
    "Software",
    "State",
    "Sysctl",
    "ToolResult",
    "TrainingPython",
    "Unread",
    "count_of",
    "counts",
    "is_virtual",
    "state_of",
    "states",
    "value_of",
]

SCHEMA_VERSION = 1


class MachineFacts(Record, kw_only=True):
    """All facts that the collectors read about one machine."""

    schema_version: int = SCHEMA_VERSION
    hostname: str | Unknown = NOT_RECORDED
    naming: Naming = Naming()
    source: str = ""
    """Title of the source, such as a live machine, a recording or a catalogue machine."""
    dmi: Dmi = Dmi()
    gpus: tuple[Gpu, ...] | Unknown = NOT_RECORDED
    pci_gpus: tuple[str, ...] | Unknown = NOT_RECORDED
    """Bus ids of the NVIDIA GPUs on the PCI bus, with or without a working driver."""
    attached_gpus: int | Unknown = NOT_RECORDED
    """Number of GPUs that the driver reports as attached.

    The number exceeds the length of `gpus` if an output was cut off or a GPU is lost.
    """
    driver_answer_s: float | Unknown = NOT_RECORDED
    """Seconds until the driver had answered a first query about every GPU."""
    pci_devices: tuple[PciDevice, ...] | Unknown = NOT_RECORDED
    accelerators: tuple[Accelerator, ...] | Unknown = NOT_RECORDED
    """Accelerators of vendors other than NVIDIA."""
    nics: tuple[Nic, ...] | Unknown = NOT_RECORDED
    links: tuple[Link, ...] | Unknown = NOT_RECORDED
    peer_access: tuple[PeerAccess, ...] | Unknown = NOT_RECORDED
    interfaces: tuple[Interface, ...] | Unknown = NOT_RECORDED
    fabric_ports: tuple[FabricPort, ...] | Unknown = NOT_RECORDED
    fabric_switches: tuple[FabricSwitch, ...] | Unknown = NOT_RECORDED
    cpu: Cpu = Cpu()
    numa_nodes: tuple[NumaNode, ...] | Unknown = NOT_RECORDED
    memory: Memory = Memory()
    limits: Limits = Limits()
    kernel: Kernel = Kernel()
    clock: Clock = Clock()
    power: Power = Power()
    software: Software = Software()
    environment: tuple[EnvironmentVariable, ...] | Unknown = NOT_RECORDED
    training: TrainingPython = TrainingPython()
    storage: tuple[Filesystem, ...] | Unknown = NOT_RECORDED
    container: Container = Container()
    cloud: Cloud = Cloud()
    scheduler: Scheduler = Scheduler()
    events: tuple[LogEvent, ...] | Unknown = NOT_RECORDED
    """Events of the kernel log and other logs; empty if a log was read and contains none."""
    logs: tuple[str, ...] | Unknown = NOT_RECORDED
    """Kinds of log from which `events` come: `kernel-log`, `nccl-log` (`probes/catalogue/text_kinds.py`)."""
    diagnoses: tuple[Diagnosis, ...] | Unknown = NOT_RECORDED
    tool_results: tuple[ToolResult, ...] | Unknown = NOT_RECORDED
    profile: Profile = Profile()
    """Always unknown; the field remains for readers of the JSON."""
    cluster: Cluster = Cluster()
    """Always unknown, like `profile`."""
    contradictions: tuple[Contradiction, ...] = ()
    unread: tuple[Unread, ...] = ()


def value_of(facts: MachineFacts, name: str) -> str | None:
    """Return the effective value of a variable; None if it is not set, or if the environment is unknown."""
    rows = items_of(facts.environment)
    return next((row.value for row in rows if row.name == name and row.is_effective), None)


def is_virtual(facts: MachineFacts) -> bool:
    """Return whether a hypervisor is named or the processor reports one; False if both facts are unknown."""
    return isinstance(facts.container.virtualization, str) or facts.cpu.virtualization_flag is True
