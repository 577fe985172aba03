"""The ordered table of checks. A new one is a file of this folder or a data row, and a line here."""

from __future__ import annotations

import functools
from typing import Any

from probes.base.table_rows import CheckRow, Group, Need, Tier
from probes.catalogue.limit_rows import limit_rows
from probes.catalogue.log_rows import log_rows


def _check(
    check_id: str,
    title: str,
    module: str = "",
    *,
    group: Group,
    needs: tuple[Need, ...] = (),
    required: bool = False,
    tier: Tier = "quick",
) -> CheckRow:
    """Return the row of a check that is a function; with `module`, it shares that module with others."""
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


def _row(
    check_id: str, rows: dict[str, dict[str, Any]], module: str, needs: tuple[Need, ...] = ()
) -> CheckRow:
    """Return the row of a check that is a data row, which one function evaluates with all of its sort."""
    row = rows[check_id]
    return CheckRow(
        id=check_id,
        title=row.get("title", check_id),
        module=f"probes.checks.{module}",
        group=row.get("group", "host"),
        required=row.get("required", False),
        tier=row.get("tier", "quick"),
        needs=tuple(row.get("needs", needs)),
        rules=row,
    )


_limit = functools.partial(_row, rows=limit_rows(), module="limits")
_events = functools.partial(_row, rows=log_rows(), module="log_events", needs=("logs",))
_gpu = functools.partial(_check, group="gpu", needs=("gpus",))
_driver = functools.partial(_check, group="driver", needs=("gpus",))
_fabric = functools.partial(_check, group="fabric", needs=("gpus",))
_log = functools.partial(_check, group="logs", needs=("logs",))
_pcie = functools.partial(_check, group="pcie")
_nic = functools.partial(_check, group="network", needs=("nics",))
_network = functools.partial(_check, group="network")
_discovery = functools.partial(_check, group="network", needs=("fabric-discovery",))
_host = functools.partial(_check, group="host")
_gpu_software = functools.partial(_check, group="software", needs=("gpus",))
_software = functools.partial(_check, group="software")
_container = functools.partial(_check, group="software", needs=("container",))
_tool = functools.partial(_check, group="tools", needs=("tools",))
_measured = functools.partial(_check, group="measured", needs=("measurements",))
_policy = functools.partial(_check, group="policy", needs=("policy",))
_gpu_pcie = functools.partial(_check, group="pcie", needs=("gpus",))
_input = functools.partial(_check, group="input")

CHECKS: tuple[CheckRow, ...] = (
    _input("input-readable", "What was given could be read", "inputs"),
    _input("input-agreement", "The sources agree", "inputs"),
    _check("gpu-driver", "The driver answers for the GPUs", group="driver", required=True),
    _driver("driver-library", "Driver module and library are one version", "driver_software"),
    _limit("gpu-recovery-action"),
    _check("gpu-count", "Every GPU on the PCI bus is available", group="driver"),
    _driver("gpu-lost", "Every GPU answers in full"),
    _driver("device-nodes", "The GPU device files are here", "driver_software"),
    _driver("driver-flavour", "The driver's kernel module suits the GPUs", "driver_software"),
    _driver("driver-cuda", "The driver is new enough for these GPUs", "driver_software"),
    _limit("persistence-mode"),
    _log("xid-hardware", "No Xid points at hardware", "xid"),
    _log("xid-reset", "No Xid asks for a reset", "xid"),
    _log("xid-application", "No program crashed on a GPU", "xid"),
    _log("gsp-timeout", "The GPU's system processor answers", "xid"),
    _log("driver-messages", "The driver complains of nothing else", "xid"),
    _limit("gpu-model"),
    _gpu("gpu-memory-size", "Every GPU shows its full memory", "gpu_identity"),
    _limit("vbios"),
    _limit("gpu-firmware"),
    _limit("inforom"),
    _gpu("ecc-mode", "ECC is on", "gpu_memory"),
    _limit("ecc-uncorrected"),
    _limit("ecc-corrected"),
    _limit("ecc-sram"),
    _limit("row-remap"),
    _limit("row-remap-reserve"),
    _limit("retired-pages"),
    _gpu("gpu-throttle", "Nothing holds the clocks down", required=True),
    _gpu("gpu-violations", "Clocks were not held down for long", "gpu_clocks"),
    _gpu("gpu-temperature", "GPUs are cool enough", "gpu_thermal"),
    _limit("gpu-memory-temperature"),
    _gpu("gpu-temperature-spread", "No GPU is much hotter than the others", "gpu_thermal"),
    _gpu("gpu-fan", "The fans turn", "gpu_thermal"),
    _limit("gpu-power-limit"),
    _limit("application-clocks"),
    _gpu("gpu-busy", "No other program uses the GPUs"),
    _gpu("gpu-memory-leftover", "No memory is in use without a process", "gpu_use"),
    _gpu("gpu-idle", "An idle GPU shows no load", "gpu_use"),
    _gpu("gpu-spinning", "No program waits in a collective for ever", "gpu_use"),
    _limit("mig-mode"),
    _limit("compute-mode"),
    _gpu("confidential-compute", "Confidential computing is off", "gpu_identity"),
    _fabric("fabric-manager", "The Fabric Manager runs"),
    _fabric("fabric-manager-version", "The Fabric Manager has the driver's version", "nvswitch"),
    _limit("nvlink-fabric"),
    _fabric("fabric-health", "The NVLink fabric is healthy", "nvswitch"),
    _fabric("fabric-clique", "The GPUs are in one NVLink clique", "nvswitch"),
    _fabric("nvswitch-count", "All NVSwitches are there", "nvswitch"),
    _check("nvswitch-faults", "The NVSwitches report no fault", "nvswitch", group="fabric", needs=("logs",)),
    _fabric("imex", "The IMEX domain is up", "nvswitch"),
    _fabric("nvlink-active", "All NVLinks are up", required=True),
    _fabric("nvlink-speed", "NVLinks run at full speed"),
    _fabric("nvlink-errors", "NVLinks count no errors"),
    _fabric("nvlink-mesh", "All pairs of GPUs have the same NVLinks"),
    _fabric("peer-access", "GPUs reach each other's memory"),
    _fabric("peer-access-geforce", "The driver refuses peer access where it is broken", "peer_access"),
    _pcie("pcie-link", "PCIe links have their full width"),
    _pcie("pcie-speed", "PCIe links have their full speed", "pcie_health"),
    _events("pcie-bandwidth"),
    _limit("pcie-replays"),
    _pcie("pcie-errors", "PCIe links report no errors", "pcie_health"),
    _pcie("pcie-payload", "PCIe payload sizes agree along the path", "pcie_settings"),
    _check("pcie-read-request", "NICs may read large blocks", "pcie_settings", group="pcie", needs=("nics",)),
    _events("slot-power"),
    _pcie("acs", "Peer-to-peer traffic is not sent through the host"),
    _pcie("iommu", "The IOMMU does not translate"),
    _gpu_pcie("gpu-nic-affinity", "Every GPU has a training port close by"),
    _gpu_pcie("gpu-sockets", "The GPUs are spread over the sockets", "numa_balance"),
    _gpu_pcie("topology-visible", "The machine shows its PCIe topology", "numa_balance"),
    _pcie("numa", "The NUMA node of each device is known"),
    _gpu_pcie("numa-hidden", "Both sockets' NUMA nodes are visible"),
    _nic("nic-state", "The RDMA ports are up", required=True),
    _nic("nic-subnet-manager", "The subnet manager serves every port", "nic_fabric"),
    _network("nic-count", "The machine's training ports are all there"),
    _nic("nic-rate", "Training ports run at one rate"),
    _nic("nic-speed", "Training ports run at the rate of their card", "nic_link"),
    _nic("nic-width", "Links have all their lanes", "nic_link"),
    _limit("nic-bit-errors"),
    _nic("nic-advice", "The cards' firmware finds no fault with the links", "nic_link"),
    _nic("nic-firmware", "Cards of one kind have one firmware", "nic_identity"),
    _nic("nic-naming", "RDMA devices bear the names of their place", "nic_identity"),
    _nic("nic-virtual", "RDMA devices are whole", "nic_identity"),
    _limit("nic-link-downed"),
    _limit("nic-symbol-errors"),
    _limit("nic-receive-errors"),
    _limit("nic-discards"),
    _limit("nic-retries"),
    _limit("roce-congestion"),
    _network("link-flapping", "No link goes up and down"),
    _events("cable"),
    _nic("nic-pkey", "Ports are in one partition", "nic_fabric"),
    _nic("nic-mtu", "RDMA MTUs are large and alike", "nic_link", tier="deep"),
    _nic("nic-gid", "RoCE ports have a routable GID"),
    _nic("nic-gid-index", "The forced GID index is right", "nic_gid"),
    _nic("nic-mixture", "Training ports are of one kind", "nic_fabric"),
    _nic("nic-netdev", "The training ports' interfaces are up"),
    _nic("roce-address", "RoCE ports have an address", "nic_netdev"),
    _nic("roce-traffic-class", "RoCE traffic has its class", "nic_fabric"),
    _nic("verbs-devices", "RDMA device files are here", "rdma_software"),
    _nic("rdma-modules", "The RDMA kernel modules are loaded", "rdma_software"),
    _nic("peermem", "NICs reach GPU memory directly"),
    _network("interface-state", "Bonds have all their members", "interfaces"),
    _network("interface-speed", "Members of a bond have one speed", "interfaces"),
    _network("interface-mtu", "Interfaces of one kind have one MTU", "interfaces"),
    _network("interface-cabling", "Interfaces lead where the others do", "interfaces"),
    _network("interface-choice", "It is clear which interface to use"),
    _network("interface-subnets", "No two interfaces are in one subnet", "interface_choice"),
    _discovery("fabric-links", "Every cabled port has its partner", "fabric_discovery"),
    _discovery("fabric-speed", "No link of the fabric is slow", "fabric_discovery"),
    _discovery("fabric-isolation", "The host sees a fabric", "fabric_discovery"),
    _check(
        "switch-health",
        "The switch's fans and supplies work",
        "fabric_discovery",
        group="network",
        needs=("switches",),
    ),
    _network("hostname-address", "The host's name does not lead to itself", "naming"),
    _host("time-sync", "The clock is kept", "host_health"),
    _limit("memlock"),
    _host("shm-size", "Shared memory is large enough", required=True),
    _limit("nofile"),
    _host("stack-limit", "The stack limit suits NCCL"),
    _limit("process-limit"),
    _limit("port-range"),
    _limit("somaxconn"),
    _limit("cpu-affinity"),
    _limit("cpu-governor"),
    _limit("numa-balancing"),
    _limit("transparent-hugepages"),
    _limit("clocksource"),
    _limit("remove-ipc"),
    _limit("swap"),
    _limit("memory-available"),
    _limit("memory-fragmentation"),
    _host("memory-balance", "NUMA nodes have equal memory", "host_memory"),
    _limit("memory-errors"),
    _events("out-of-memory"),
    _events("lockups"),
    _events("machine-check"),
    _events("kernel-limits"),
    _events("nic-driver"),
    _events("crashes"),
    _events("filesystem-errors"),
    _events("nccl-warnings"),
    _limit("zombies"),
    _limit("blocked-processes"),
    _limit("uptime"),
    _limit("power-supplies"),
    _check(
        "power-headroom", "The power supplies carry all GPUs", "host_health", group="host", needs=("gpus",)
    ),
    _limit("sensors"),
    _limit("disk-space"),
    _check("read-only-filesystems", "File systems are writable", "storage_health", group="storage"),
    _gpu_software("services", "The services of a GPU server run", tier="deep"),
    _container("container-devices", "RDMA device files are passed into the container", "container_access"),
    _container("container-locking", "The container may lock memory", "container_access"),
    _container("container-numa", "The container may place memory", "container_access"),
    _software("proxy", "No proxy stands between the ranks", "environment_network"),
    _software("scheduler-limits", "The batch system passes limits on rightly", "scheduler"),
    _software("scheduler-binding", "The batch system leaves GPUs visible to each other", "scheduler"),
    _gpu_software("scheduler-gpus", "The batch system knows all GPUs", "scheduler"),
    _gpu_software("torch-cuda", "Torch runs on this driver"),
    _gpu_software("torch-architecture", "Torch has code for these GPUs"),
    _gpu_software("nccl-version", "NCCL is new enough for these GPUs", "nccl_software"),
    _gpu_software("nccl-duplicates", "There is one NCCL", "nccl_software"),
    _check(
        "nccl-plugin",
        "NCCL finds the network plugin of this platform",
        "nccl_software",
        group="software",
        needs=("nics",),
    ),
    _software("nccl-debug-settings", "No debugging switch is left on", "nccl_environment"),
    _software("nccl-values", "NCCL understands the values", "nccl_environment"),
    _software("nccl-forced", "No algorithm is forced on NCCL", "nccl_environment"),
    _software("nccl-interfaces", "NCCL_SOCKET_IFNAME names one interface", "nccl_names"),
    _software("nccl-hcas", "NCCL_IB_HCA names the training ports", "nccl_names"),
    _software("gloo-interface", "GLOO_SOCKET_IFNAME names an interface", "nccl_names"),
    _software("nccl-configuration", "NCCL's configuration files are readable to NCCL", "nccl_environment"),
    _gpu_software("cuda-connections", "CUDA_DEVICE_MAX_CONNECTIONS suits the GPUs", "cuda_environment"),
    _gpu_software("cuda-visible-devices", "Every GPU is visible to CUDA", "cuda_environment"),
    _gpu_software("cuda-injection", "No debugger or profiler is injected", "cuda_environment"),
    _software("omp-threads", "The number of CPU threads is sensible", "cuda_environment"),
    _check("dcgm-diagnosis", "DCGM's own tests pass", "diagnoses", group="tools", needs=("diagnoses",)),
    _tool("host-bandwidth", "Copies between host and GPU are fast", "tool_bandwidth"),
    _tool("peer-bandwidth", "Copies between GPUs are fast", "tool_bandwidth"),
    _tool("collective-results", "Collectives gave right results", "tool_collectives"),
    _tool("collective-bandwidth", "Collectives are as fast as the links", "tool_collectives"),
    _tool("network-bandwidth", "RDMA transfers are as fast as the port", "tool_network"),
    _tool("tool-complaints", "The tools complain of nothing", "tool_collectives"),
    _measured("measured-gemm", "Matrix products are as fast as on such GPUs", "measured_device"),
    _measured("measured-attention", "Attention is as fast as on such GPUs", "measured_device"),
    _measured("measured-memory", "Memory is as fast as on such GPUs", "measured_device"),
    _measured("measured-host-device", "Host copies are as fast as the link", "measured_device"),
    _measured("measured-peer-copy", "Copies between GPUs are as fast", "measured_device"),
    _measured("measured-sustained", "The rate holds under load", "measured_endurance"),
    _measured("measured-results", "All results are right", "measured_endurance"),
    _measured("measured-collectives", "Collectives are as fast as usual", "measured_collectives"),
    _measured("measured-isolation", "No layer between ranks is slow", "measured_collectives"),
    _measured("measured-pairs", "No pair of ranks is slower than others", "measured_collectives"),
    _measured("measured-network", "No host or link between hosts is slow", "measured_network"),
    _measured("measured-across-nodes", "Collectives use the ports' rate", "measured_network"),
    _measured("equal-devices", "No device is slower than its equals", "measured_equals"),
    _measured("equal-ranks", "No rank is later than the others", "measured_equals"),
    _measured("measured-storage", "Storage keeps up with training", "measured_feeding"),
    _measured("measured-data-loader", "Data loaders keep up with training", "measured_feeding"),
    _measured("measured-train-step", "The step scales over the ranks", "measured_training"),
    _check(
        "measured-baseline",
        "Nothing is slower than before",
        "measured_history",
        group="measured",
        needs=("measurements", "baselines"),
    ),
    _measured("measured-conditions", "Measured on a quiet machine", "measured_history"),
    _policy("policy-gpus", "The GPUs are those that the policy expects", "policy", required=True),
    _policy("policy-nics", "The NICs are those that the policy expects", "policy", required=True),
    _policy("policy-versions", "Versions are those that the policy expects", "policy", required=True),
    _policy("policy-host", "The host is as the policy expects", "policy", required=True),
    _policy("policy-waivers", "No waiver has expired", "policy"),
)
"""What explains other failures stands first; findings of one status keep this order.

Required is what an unprivileged user can read wherever it applies, and without which training fails.
"""
