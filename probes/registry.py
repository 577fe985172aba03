"""The ordered tables of what rigtune can probe, check and measure. A new one is a file and a row here.

Rows name modules as text and load them on use, so that listing imports nothing.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Literal

from probes.base.record import Record

Tier = Literal["quick", "deep"]
"""`quick` reads files and NVML; `deep` also starts commands. A stored source answers both at no cost."""


class Row(Record, kw_only=True):
    """One entry of a table."""

    id: str
    title: str
    module: str

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


class ProbeRow(Row, kw_only=True):
    """A collector: `collect(source: Source, options: CollectOptions) -> dict[str, object]` in its module."""

    provides: tuple[str, ...]
    """The fields of `MachineFacts` that it returns, all of them each time. `contradictions` and `unread` may
    come on top; those of all collectors are joined.
    """
    tier: Tier = "quick"


Group = Literal[
    "input", "driver", "gpu", "fabric", "pcie", "network", "host", "software", "storage", "logs", "tools", "measured", "policy"
]  # fmt: skip

Need = Literal[
    "gpus", "nics", "logs", "diagnoses", "tools", "fabric-discovery", "switches", "container", "policy",
    "measurements", "baselines"
]  # fmt: skip
"""What a check is about (`probes/judging/applicability.py`). A machine without it gives one SKIP, and the
module is not even loaded.
"""


class CheckRow(Row, kw_only=True):
    """A check: `function(evidence: Evidence) -> Iterator[Finding]` in its module."""

    function: str = "check"
    group: Group
    required: bool = True
    """An UNKNOWN of a required check makes the verdict UNKNOWN."""
    tier: Tier = "quick"
    needs: tuple[Need, ...] = ()


class BenchmarkRow(Row, kw_only=True):
    """A benchmark. Its module has `requests(context: BenchContext) -> tuple[BenchRequest, ...]`, none where
    it does not apply, and `interpret(request: BenchRequest, lines_by_rank: LinesByRank) -> tuple[Measurement,
    ...] | BenchFailure`.
    """

    suites: tuple[str, ...]
    """`quick` and `full`; one that stands in neither runs when the user names it or gives what it needs."""
    occupies: str
    """What nobody else should use meanwhile: `one GPU at a time`, `all GPUs`, `all CPUs`."""
    cost_s: float
    """Rough duration on one machine (calculated for eight H100) in the quick suite, or where it stands in
    none, shown before it starts. A start of torch that several share counts at the first of them: ten seconds
    for eight ranks, with NCCL twelve.
    """
    full_cost_s: float
    """The same in the full suite."""
    applies: str = ""
    """Where it applies, in words: `GPUs`, `several ranks`, `--hosts`, `--step`; empty for everywhere."""


def _check(
    check_id: str,
    title: str,
    group: Group,
    *needs: Need,
    module: str = "",
    required: bool = False,
    tier: Tier = "quick",
) -> CheckRow:
    """A row; with `module`, the check is the function of its name in a module that it shares."""
    name = check_id.replace("-", "_")
    return CheckRow(
        id=check_id,
        title=title,
        module=f"probes.checks.{module or name}",
        function=name if module else "check",
        group=group,
        required=required,
        tier=tier,
        needs=needs,
    )


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
    _probe("pci", "PCI devices", "pci_devices"),
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
`MachineFacts`.
"""

CHECKS: tuple[CheckRow, ...] = (
    _check("input-readable", "What was given could be read", "input", module="inputs"),
    _check("input-agreement", "The sources agree", "input", module="inputs"),
    _check("gpu-driver", "The driver answers for the GPUs", "driver", required=True),
    _check(
        "driver-library",
        "Driver module and library are one version",
        "driver",
        "gpus",
        module="driver_software",
    ),
    _check("gpu-recovery-action", "No GPU asks for a reset", "driver", "gpus", required=True),
    _check("gpu-count", "Every GPU on the PCI bus is available", "driver"),
    _check("gpu-lost", "Every GPU answers in full", "driver", "gpus"),
    _check("device-nodes", "The GPU device files are here", "driver", "gpus", module="driver_software"),
    _check(
        "driver-flavour",
        "The driver's kernel module suits the GPUs",
        "driver",
        "gpus",
        module="driver_software",
    ),
    _check(
        "driver-cuda", "The driver is new enough for these GPUs", "driver", "gpus", module="driver_software"
    ),
    _check("persistence-mode", "Persistence mode is on", "driver", "gpus"),
    _check("xid-hardware", "No Xid points at hardware", "logs", "logs", module="xid"),
    _check("xid-reset", "No Xid asks for a reset", "logs", "logs", module="xid"),
    _check("xid-application", "No program crashed on a GPU", "logs", "logs", module="xid"),
    _check("gsp-timeout", "The GPU's system processor answers", "logs", "logs", module="xid"),
    _check("driver-messages", "The driver complains of nothing else", "logs", "logs", module="xid"),
    _check("gpu-model", "The GPUs are alike", "gpu", "gpus"),
    _check("gpu-memory-size", "Every GPU shows its full memory", "gpu", "gpus", module="gpu_identity"),
    _check("vbios", "The GPUs have one VBIOS", "gpu", "gpus", module="gpu_identity"),
    _check("gpu-firmware", "The GPUs have one firmware", "gpu", "gpus", module="gpu_identity"),
    _check("inforom", "The InfoROM is valid", "gpu", "gpus", module="gpu_identity"),
    _check("ecc-mode", "ECC is on", "gpu", "gpus", module="gpu_memory"),
    _check("ecc-uncorrected", "No uncorrected memory errors", "gpu", "gpus", required=True),
    _check("ecc-corrected", "Few corrected memory errors", "gpu", "gpus", module="gpu_memory"),
    _check("ecc-sram", "No wear of on-chip memory", "gpu", "gpus", module="gpu_memory"),
    _check("row-remap", "No memory row waits for replacement", "gpu", "gpus", required=True),
    _check("row-remap-reserve", "Spare memory rows are left", "gpu", "gpus", module="gpu_memory"),
    _check("retired-pages", "Few memory pages are retired", "gpu", "gpus", module="gpu_memory"),
    _check("gpu-throttle", "Nothing holds the clocks down", "gpu", "gpus", required=True),
    _check("gpu-violations", "Clocks were not held down for long", "gpu", "gpus", module="gpu_clocks"),
    _check("gpu-temperature", "GPUs are cool enough", "gpu", "gpus", module="gpu_thermal"),
    _check("gpu-memory-temperature", "GPU memory is cool enough", "gpu", "gpus", module="gpu_thermal"),
    _check(
        "gpu-temperature-spread", "No GPU is much hotter than the others", "gpu", "gpus", module="gpu_thermal"
    ),
    _check("gpu-fan", "The fans turn", "gpu", "gpus", module="gpu_thermal"),
    _check("gpu-power-limit", "Power limits are at their default", "gpu", "gpus"),
    _check(
        "application-clocks", "Application clocks are at their default", "gpu", "gpus", module="gpu_clocks"
    ),
    _check("gpu-busy", "No other program uses the GPUs", "gpu", "gpus"),
    _check("gpu-memory-leftover", "No memory is in use without a process", "gpu", "gpus", module="gpu_use"),
    _check("gpu-idle", "An idle GPU shows no load", "gpu", "gpus", module="gpu_use"),
    _check("gpu-spinning", "No program waits in a collective for ever", "gpu", "gpus", module="gpu_use"),
    _check("mig-mode", "No GPU is partitioned", "gpu", "gpus"),
    _check("compute-mode", "Compute modes are at their default", "gpu", "gpus"),
    _check("confidential-compute", "Confidential computing is off", "gpu", "gpus", module="gpu_identity"),
    _check("fabric-manager", "The Fabric Manager runs", "fabric", "gpus"),
    _check(
        "fabric-manager-version",
        "The Fabric Manager has the driver's version",
        "fabric",
        "gpus",
        module="nvswitch",
    ),
    _check("nvlink-fabric", "Every GPU has joined the NVLink fabric", "fabric", "gpus"),
    _check("fabric-health", "The NVLink fabric is healthy", "fabric", "gpus", module="nvswitch"),
    _check("fabric-clique", "The GPUs are in one NVLink clique", "fabric", "gpus", module="nvswitch"),
    _check("nvswitch-count", "All NVSwitches are there", "fabric", "gpus", module="nvswitch"),
    _check("nvswitch-faults", "The NVSwitches report no fault", "fabric", "logs", module="nvswitch"),
    _check("imex", "The IMEX domain is up", "fabric", "gpus", module="nvswitch"),
    _check("nvlink-active", "All NVLinks are up", "fabric", "gpus", required=True),
    _check("nvlink-speed", "NVLinks run at full speed", "fabric", "gpus"),
    _check("nvlink-errors", "NVLinks count no errors", "fabric", "gpus"),
    _check("nvlink-mesh", "All pairs of GPUs have the same NVLinks", "fabric", "gpus"),
    _check("peer-access", "GPUs reach each other's memory", "fabric", "gpus"),
    _check(
        "peer-access-geforce",
        "The driver refuses peer access where it is broken",
        "fabric",
        "gpus",
        module="peer_access",
    ),
    _check("pcie-link", "PCIe links have their full width", "pcie"),
    _check("pcie-speed", "PCIe links have their full speed", "pcie", module="pcie_health"),
    _check("pcie-bandwidth", "The kernel found no narrow PCIe path", "logs", "logs", module="pcie_health"),
    _check("pcie-replays", "PCIe links repeat little", "pcie", "gpus", module="pcie_health"),
    _check("pcie-errors", "PCIe links report no errors", "pcie", module="pcie_health"),
    _check("pcie-payload", "PCIe payload sizes agree along the path", "pcie", module="pcie_settings"),
    _check("pcie-read-request", "NICs may read large blocks", "pcie", "nics", module="pcie_settings"),
    _check("slot-power", "PCIe slots give enough power", "logs", "logs", module="pcie_health"),
    _check("acs", "Peer-to-peer traffic is not sent through the host", "pcie"),
    _check("iommu", "The IOMMU does not translate", "pcie"),
    _check("gpu-nic-affinity", "Every GPU has a training port close by", "pcie", "gpus"),
    _check("gpu-sockets", "The GPUs are spread over the sockets", "pcie", "gpus", module="numa_balance"),
    _check("topology-visible", "The machine shows its PCIe topology", "pcie", "gpus", module="numa_balance"),
    _check("numa", "The NUMA node of each device is known", "pcie"),
    _check("numa-hidden", "Both sockets' NUMA nodes are visible", "pcie", "gpus"),
    _check("nic-state", "The RDMA ports are up", "network", "nics", required=True),
    _check(
        "nic-subnet-manager", "The subnet manager serves every port", "network", "nics", module="nic_fabric"
    ),
    _check("nic-count", "The machine's training ports are all there", "network"),
    _check("nic-rate", "Training ports run at one rate", "network", "nics"),
    _check("nic-speed", "Training ports run at the rate of their card", "network", "nics", module="nic_link"),
    _check("nic-width", "Links have all their lanes", "network", "nics", module="nic_link"),
    _check("nic-bit-errors", "Links have few bit errors", "network", "nics", module="nic_link"),
    _check(
        "nic-advice",
        "The cards' firmware finds no fault with the links",
        "network",
        "nics",
        module="nic_link",
    ),
    _check("nic-firmware", "Cards of one kind have one firmware", "network", "nics", module="nic_identity"),
    _check(
        "nic-naming", "RDMA devices bear the names of their place", "network", "nics", module="nic_identity"
    ),
    _check("nic-virtual", "RDMA devices are whole", "network", "nics", module="nic_identity"),
    _check("nic-link-downed", "No link went down", "network", "nics", module="nic_counters"),
    _check("nic-symbol-errors", "No symbol errors", "network", "nics", module="nic_counters"),
    _check("nic-receive-errors", "No receive errors", "network", "nics", module="nic_counters"),
    _check("nic-discards", "No packets are thrown away", "network", "nics", module="nic_counters"),
    _check("nic-retries", "No retries ran out", "network", "nics", module="nic_counters"),
    _check("roce-congestion", "RoCE traffic is not throttled", "network", "nics", module="nic_counters"),
    _check("link-flapping", "No link goes up and down", "network"),
    _check("cable", "Cables and modules are well", "logs", "logs", module="link_flapping"),
    _check("nic-pkey", "Ports are in one partition", "network", "nics", module="nic_fabric"),
    _check("nic-mtu", "RDMA MTUs are large and alike", "network", "nics", module="nic_link", tier="deep"),
    _check("nic-gid", "RoCE ports have a routable GID", "network", "nics"),
    _check("nic-gid-index", "The forced GID index is right", "network", "nics", module="nic_gid"),
    _check("nic-mixture", "Training ports are of one kind", "network", "nics", module="nic_fabric"),
    _check("nic-netdev", "The training ports' interfaces are up", "network", "nics"),
    _check("roce-address", "RoCE ports have an address", "network", "nics", module="nic_netdev"),
    _check("roce-traffic-class", "RoCE traffic has its class", "network", "nics", module="nic_fabric"),
    _check("verbs-devices", "RDMA device files are here", "network", "nics", module="rdma_software"),
    _check("rdma-modules", "The RDMA kernel modules are loaded", "network", "nics", module="rdma_software"),
    _check("peermem", "NICs reach GPU memory directly", "network", "nics"),
    _check("interface-state", "Bonds have all their members", "network", module="interfaces"),
    _check("interface-speed", "Members of a bond have one speed", "network", module="interfaces"),
    _check("interface-mtu", "Interfaces of one kind have one MTU", "network", module="interfaces"),
    _check("interface-cabling", "Interfaces lead where the others do", "network", module="interfaces"),
    _check("interface-choice", "It is clear which interface to use", "network"),
    _check("interface-subnets", "No two interfaces are in one subnet", "network", module="interface_choice"),
    _check(
        "fabric-links",
        "Every cabled port has its partner",
        "network",
        "fabric-discovery",
        module="fabric_discovery",
    ),
    _check(
        "fabric-speed",
        "No link of the fabric is slow",
        "network",
        "fabric-discovery",
        module="fabric_discovery",
    ),
    _check(
        "fabric-isolation", "The host sees a fabric", "network", "fabric-discovery", module="fabric_discovery"
    ),
    _check(
        "switch-health",
        "The switch's fans and supplies work",
        "network",
        "switches",
        module="fabric_discovery",
    ),
    _check("hostname-address", "The host's name does not lead to itself", "network", module="naming"),
    _check("time-sync", "The clock is kept", "host", module="host_health"),
    _check("memlock", "Enough memory may be locked for RDMA", "host", required=True),
    _check("shm-size", "Shared memory is large enough", "host", required=True),
    _check("nofile", "Enough files may be open", "host"),
    _check("stack-limit", "The stack limit suits NCCL", "host"),
    _check("process-limit", "Enough processes may run", "host", module="host_limits"),
    _check("port-range", "Enough ports for many connections", "host", module="host_limits"),
    _check("somaxconn", "Enough connections may wait", "host", module="host_limits"),
    _check("cpu-affinity", "All CPUs may be used", "host"),
    _check("cpu-governor", "The CPUs run at full clock", "host"),
    _check(
        "numa-balancing", "The kernel does not move memory between nodes", "host", module="kernel_settings"
    ),
    _check("transparent-hugepages", "Large pages are allowed", "host", module="kernel_settings"),
    _check("clocksource", "The clock source is fast", "host", module="kernel_settings"),
    _check("remove-ipc", "Shared memory outlives a logout", "host", module="kernel_settings"),
    _check("swap", "Training does not swap", "host", module="host_memory"),
    _check("memory-available", "Enough host memory is free", "host", module="host_memory"),
    _check("memory-fragmentation", "Large blocks of memory are free", "host", module="host_memory"),
    _check("memory-balance", "NUMA nodes have equal memory", "host", module="host_memory"),
    _check("memory-errors", "Host memory is without errors", "host", module="host_memory"),
    _check("out-of-memory", "The kernel killed nothing for memory", "logs", "logs", module="kernel_events"),
    _check("lockups", "The kernel did not hang", "logs", "logs", module="kernel_events"),
    _check("machine-check", "The processors report no fault", "logs", "logs", module="kernel_events"),
    _check("kernel-limits", "No table of the kernel was full", "logs", "logs", module="kernel_events"),
    _check("nic-driver", "No driver gave its card up", "logs", "logs"),
    _check("crashes", "No training library crashed", "logs", "logs", module="kernel_events"),
    _check(
        "filesystem-errors", "File systems and disks report no errors", "logs", "logs", module="kernel_events"
    ),
    _check("nccl-warnings", "NCCL warns of nothing", "logs", "logs"),
    _check("zombies", "No dead processes pile up", "host", module="host_health", tier="deep"),
    _check("blocked-processes", "No process hangs in the driver", "host", module="host_health", tier="deep"),
    _check("uptime", "The machine has settled since boot", "host", module="host_health"),
    _check("power-supplies", "The power supplies work", "host", module="host_health", tier="deep"),
    _check("power-headroom", "The power supplies carry all GPUs", "host", "gpus", module="host_health"),
    _check("sensors", "No sensor is beyond its limit", "host", module="host_health", tier="deep"),
    _check("disk-space", "There is room for checkpoints", "storage"),
    _check("read-only-filesystems", "File systems are writable", "storage", module="storage_health"),
    _check("services", "The services of a GPU server run", "software", "gpus", tier="deep"),
    _check(
        "container-devices",
        "RDMA device files are passed into the container",
        "software",
        "container",
        module="container_access",
    ),
    _check(
        "container-locking",
        "The container may lock memory",
        "software",
        "container",
        module="container_access",
    ),
    _check(
        "container-numa", "The container may place memory", "software", "container", module="container_access"
    ),
    _check("proxy", "No proxy stands between the ranks", "software", module="environment_network"),
    _check("scheduler-limits", "The batch system passes limits on rightly", "software", module="scheduler"),
    _check(
        "scheduler-binding",
        "The batch system leaves GPUs visible to each other",
        "software",
        module="scheduler",
    ),
    _check("scheduler-gpus", "The batch system knows all GPUs", "software", "gpus", module="scheduler"),
    _check("torch-cuda", "Torch runs on this driver", "software", "gpus"),
    _check("torch-architecture", "Torch has code for these GPUs", "software", "gpus"),
    _check("nccl-version", "NCCL is new enough for these GPUs", "software", "gpus", module="nccl_software"),
    _check("nccl-duplicates", "There is one NCCL", "software", "gpus", module="nccl_software"),
    _check(
        "nccl-plugin",
        "NCCL finds the network plugin of this platform",
        "software",
        "nics",
        module="nccl_software",
    ),
    _check("nccl-debug-settings", "No debugging switch is left on", "software", module="nccl_environment"),
    _check("nccl-values", "NCCL understands the values", "software", module="nccl_environment"),
    _check("nccl-forced", "No algorithm is forced on NCCL", "software", module="nccl_environment"),
    _check("nccl-interfaces", "NCCL_SOCKET_IFNAME names one interface", "software", module="nccl_names"),
    _check("nccl-hcas", "NCCL_IB_HCA names the training ports", "software", module="nccl_names"),
    _check("gloo-interface", "GLOO_SOCKET_IFNAME names an interface", "software", module="nccl_names"),
    _check(
        "nccl-configuration",
        "NCCL's configuration files are readable to NCCL",
        "software",
        module="nccl_environment",
    ),
    _check(
        "cuda-connections",
        "CUDA_DEVICE_MAX_CONNECTIONS suits the GPUs",
        "software",
        "gpus",
        module="cuda_environment",
    ),
    _check(
        "cuda-visible-devices", "Every GPU is visible to CUDA", "software", "gpus", module="cuda_environment"
    ),
    _check(
        "cuda-injection", "No debugger or profiler is injected", "software", "gpus", module="cuda_environment"
    ),
    _check("omp-threads", "The number of CPU threads is sensible", "software", module="cuda_environment"),
    _check("dcgm-diagnosis", "DCGM's own tests pass", "tools", "diagnoses", module="diagnoses"),
    _check(
        "host-bandwidth", "Copies between host and GPU are fast", "tools", "tools", module="tool_bandwidth"
    ),
    _check("peer-bandwidth", "Copies between GPUs are fast", "tools", "tools", module="tool_bandwidth"),
    _check(
        "collective-results", "Collectives gave right results", "tools", "tools", module="tool_collectives"
    ),
    _check(
        "collective-bandwidth",
        "Collectives are as fast as the links",
        "tools",
        "tools",
        module="tool_collectives",
    ),
    _check(
        "network-bandwidth", "RDMA transfers are as fast as the port", "tools", "tools", module="tool_network"
    ),
    _check("tool-complaints", "The tools complain of nothing", "tools", "tools", module="tool_collectives"),
    _check(
        "measured-gemm",
        "Matrix products are as fast as on such GPUs",
        "measured",
        "measurements",
        module="measured_device",
    ),
    _check(
        "measured-attention",
        "Attention is as fast as on such GPUs",
        "measured",
        "measurements",
        module="measured_device",
    ),
    _check(
        "measured-memory",
        "Memory is as fast as on such GPUs",
        "measured",
        "measurements",
        module="measured_device",
    ),
    _check(
        "measured-host-device",
        "Host copies are as fast as the link",
        "measured",
        "measurements",
        module="measured_device",
    ),
    _check(
        "measured-peer-copy",
        "Copies between GPUs are as fast",
        "measured",
        "measurements",
        module="measured_device",
    ),
    _check(
        "measured-sustained",
        "The rate holds under load",
        "measured",
        "measurements",
        module="measured_endurance",
    ),
    _check(
        "measured-results", "All results are right", "measured", "measurements", module="measured_endurance"
    ),
    _check(
        "measured-collectives",
        "Collectives are as fast as usual",
        "measured",
        "measurements",
        module="measured_collectives",
    ),
    _check(
        "measured-isolation",
        "No layer between ranks is slow",
        "measured",
        "measurements",
        module="measured_collectives",
    ),
    _check(
        "measured-pairs",
        "No pair of ranks is slower than others",
        "measured",
        "measurements",
        module="measured_collectives",
    ),
    _check(
        "measured-network",
        "No host or link between hosts is slow",
        "measured",
        "measurements",
        module="measured_network",
    ),
    _check(
        "measured-across-nodes",
        "Collectives use the ports' rate",
        "measured",
        "measurements",
        module="measured_network",
    ),
    _check(
        "equal-devices",
        "No device is slower than its equals",
        "measured",
        "measurements",
        module="measured_equals",
    ),
    _check(
        "equal-ranks",
        "No rank is later than the others",
        "measured",
        "measurements",
        module="measured_equals",
    ),
    _check(
        "measured-storage",
        "Storage keeps up with training",
        "measured",
        "measurements",
        module="measured_feeding",
    ),
    _check(
        "measured-data-loader",
        "Data loaders keep up with training",
        "measured",
        "measurements",
        module="measured_feeding",
    ),
    _check(
        "measured-train-step",
        "The step scales over the ranks",
        "measured",
        "measurements",
        module="measured_training",
    ),
    _check(
        "measured-baseline",
        "Nothing is slower than before",
        "measured",
        "measurements",
        "baselines",
        module="measured_history",
    ),
    _check(
        "measured-conditions",
        "Measured on a quiet machine",
        "measured",
        "measurements",
        module="measured_history",
    ),
    _check(
        "policy-gpus",
        "The GPUs are those that the policy expects",
        "policy",
        "policy",
        module="policy",
        required=True,
    ),
    _check(
        "policy-nics",
        "The NICs are those that the policy expects",
        "policy",
        "policy",
        module="policy",
        required=True,
    ),
    _check(
        "policy-versions",
        "Versions are those that the policy expects",
        "policy",
        "policy",
        module="policy",
        required=True,
    ),
    _check(
        "policy-host", "The host is as the policy expects", "policy", "policy", module="policy", required=True
    ),
    _check("policy-waivers", "No waiver has expired", "policy", "policy", module="policy"),
)
"""What explains other failures stands first; findings of one status keep this order.

Required is what an unprivileged user can read wherever it applies, and without which training fails.
"""

BENCHMARKS: tuple[BenchmarkRow, ...] = (
    BenchmarkRow(
        id="gemm",
        title="Matrix multiplication rate by dtype and shape",
        module="probes.bench.gemm",
        suites=("quick", "full"),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=20.0,
        full_cost_s=60.0,
    ),
    BenchmarkRow(
        id="attention",
        title="Attention rate, forward and backward",
        module="probes.bench.attention",
        suites=("quick", "full"),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=3.0,
        full_cost_s=20.0,
    ),
    BenchmarkRow(
        id="memory-copy",
        title="Memory bandwidth within the device: copy and triad",
        module="probes.bench.memory_copy",
        suites=("quick", "full"),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=5.0,
        full_cost_s=10.0,
    ),
    BenchmarkRow(
        id="launch-latency",
        title="What starting one small operation costs",
        module="probes.bench.launch_latency",
        suites=("quick", "full"),
        occupies="one CPU and one GPU per rank",
        cost_s=1.0,
        full_cost_s=5.0,
    ),
    BenchmarkRow(
        id="host-device",
        title="Copies between host and GPU, by direction, page lock and NUMA node",
        module="probes.bench.host_device",
        suites=("quick", "full"),
        occupies="all GPUs and the host's memory",
        cost_s=6.0,
        full_cost_s=45.0,
        applies="GPUs",
    ),
    BenchmarkRow(
        id="peer-copy",
        title="Copies between each two GPUs, one and both ways, with the data checked",
        module="probes.bench.peer_copy",
        suites=("quick", "full"),
        occupies="all GPUs",
        cost_s=13.0,
        full_cost_s=45.0,
        applies="several GPUs",
    ),
    BenchmarkRow(
        id="sustained",
        title="Matrix products for a while, with clocks, power and temperature over time",
        module="probes.bench.sustained",
        suites=("full",),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=30.0,
        full_cost_s=30.0,
    ),
    BenchmarkRow(
        id="memory-test",
        title="Patterns written to memory and read back",
        module="probes.bench.memory_test",
        suites=("full",),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=20.0,
        full_cost_s=45.0,
    ),
    BenchmarkRow(
        id="collectives",
        title="Collectives over the local ranks by size, with results verified",
        module="probes.bench.collectives",
        suites=("quick", "full"),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=23.0,
        full_cost_s=105.0,
        applies="several ranks",
    ),
    BenchmarkRow(
        id="isolation",
        title="All-reduce over NVLink alone, over NICs alone, and over all: which layer is slow",
        module="probes.bench.isolation",
        suites=("full",),
        occupies="all GPUs and NICs",
        cost_s=60.0,
        full_cost_s=60.0,
        applies="several GPUs",
    ),
    BenchmarkRow(
        id="pairs",
        title="Bandwidth between each two ranks",
        module="probes.bench.pairs",
        suites=("full",),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=20.0,
        full_cost_s=40.0,
        applies="several ranks",
    ),
    BenchmarkRow(
        id="host-memory",
        title="Memory bandwidth by NUMA node",
        module="probes.bench.host_memory",
        suites=("quick", "full"),
        occupies="all CPUs",
        cost_s=5.0,
        full_cost_s=15.0,
    ),
    BenchmarkRow(
        id="cpu-gemm",
        title="Matrix multiplication rate of the CPUs beside the GPUs",
        module="probes.bench.cpu_gemm",
        suites=("full",),
        occupies="all CPUs",
        cost_s=8.0,
        full_cost_s=15.0,
        applies="GPUs",
    ),
    BenchmarkRow(
        id="storage",
        title="Reading where the data lies: in order and at random",
        module="probes.bench.storage",
        suites=("quick", "full"),
        occupies="the file system",
        cost_s=8.0,
        full_cost_s=35.0,
    ),
    BenchmarkRow(
        id="data-loader",
        title="Batches per second by number of DataLoader workers",
        module="probes.bench.data_loader",
        suites=("full",),
        occupies="all CPUs and the file system",
        cost_s=20.0,
        full_cost_s=46.0,
    ),
    BenchmarkRow(
        id="train-step",
        title="One training step of the reference transformer",
        module="probes.bench.train_step",
        suites=("quick", "full"),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=36.0,
        full_cost_s=100.0,
    ),
    BenchmarkRow(
        id="train-cnn",
        title="One training step of a ResNet-50-class network",
        module="probes.bench.train_cnn",
        suites=("full",),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=15.0,
        full_cost_s=60.0,
    ),
    BenchmarkRow(
        id="micro-batch",
        title="The largest micro-batch that fits, and the fastest",
        module="probes.bench.micro_batch",
        suites=("full",),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=30.0,
        full_cost_s=95.0,
    ),
    BenchmarkRow(
        id="overlap",
        title="How much of the communication hides behind the backward pass",
        module="probes.bench.overlap",
        suites=("full",),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=15.0,
        full_cost_s=40.0,
        applies="several ranks",
    ),
    BenchmarkRow(
        id="own-step",
        title="Your own training step",
        module="probes.bench.own_step",
        suites=(),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=50.0,
        full_cost_s=50.0,
        applies="--step",
    ),
    BenchmarkRow(
        id="noise-scale",
        title="Gradient noise scale, for the batch size",
        module="probes.bench.noise_scale",
        suites=(),
        occupies="all GPUs, or all CPUs where there are none",
        cost_s=30.0,
        full_cost_s=60.0,
        applies="--noise-scale",
    ),
    BenchmarkRow(
        id="network",
        title="TCP between hosts",
        module="probes.bench.network",
        suites=(),
        occupies="the network of the hosts",
        cost_s=20.0,
        full_cost_s=60.0,
        applies="--hosts",
    ),
    BenchmarkRow(
        id="across-nodes",
        title="Collectives across hosts, by host and pair of hosts",
        module="probes.bench.across_nodes",
        suites=(),
        occupies="all GPUs and NICs of the hosts",
        cost_s=60.0,
        full_cost_s=180.0,
        applies="--hosts",
    ),
)
