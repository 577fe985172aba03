"""List the checks in order.

To add a check, add a file in a folder of `probes/checks` or a data row, and a line here.
"""

import functools
from typing import Any

from probes.base.table_rows import CheckRow, Group, Need, Tier
from probes.catalogue.check_rows import limit_rows, log_rows


def _check(
    check_id: str,
    title: str,
    module: str,
    *,
    group: Group,
    needs: tuple[Need, ...] = (),
    required: bool = False,
    tier: Tier = "quick",
    is_state: bool = False,
) -> CheckRow:
    """Return the row of a check; its function in `module` (`gpu.gpu_use`) is named like the check."""
    return CheckRow(
        id=check_id,
        title=title,
        module=f"probes.checks.{module}",
        function=check_id.replace("-", "_"),
        group=group,
        required=required,
        tier=tier,
        needs=needs,
        is_state=is_state,
    )


def _row(
    check_id: str, rows: dict[str, dict[str, Any]], module: str, needs: tuple[Need, ...] = ()
) -> CheckRow:
    """Return the row of a check that is a data row, which `check` of `module` evaluates."""
    row = rows[check_id]
    return CheckRow(
        id=check_id,
        title=row.get("title", check_id),
        module=f"probes.checks.{module}",
        group=row.get("group", "host"),
        required=row.get("required", False),
        tier=row.get("tier", "quick"),
        is_state=row.get("state", False),
        needs=tuple(row.get("needs", needs)),
        rules=row,
    )


_limit = functools.partial(_row, rows=limit_rows(), module="limit_checks")
_events = functools.partial(_row, rows=log_rows(), module="log_checks", needs=("logs",))
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
_policy = functools.partial(_check, group="policy", needs=("policy",), required=True)
_gpu_pcie = functools.partial(_check, group="pcie", needs=("gpus",))
_input = functools.partial(_check, group="input")

CHECKS: tuple[CheckRow, ...] = (
    _input("input-readable", "All inputs could be read", "inputs"),
    _input("input-agreement", "The sources agree", "inputs"),
    _check(
        "gpu-driver",
        "The driver responds to queries about the GPUs",
        "gpu.gpu_presence",
        group="driver",
        required=True,
    ),
    _driver("driver-library", "Driver module and library have the same version", "gpu.driver_software"),
    _limit("gpu-recovery-action"),
    _check(
        "accelerators",
        "rigtune can judge every accelerator",
        "gpu.gpu_presence",
        group="driver",
        required=True,
    ),
    _check("gpu-count", "Every GPU on the PCI bus is available", "gpu.gpu_presence", group="driver"),
    _driver("gpu-lost", "Every GPU answers all queries", "gpu.gpu_presence"),
    _driver("device-nodes", "The GPU device files exist", "gpu.driver_software"),
    _driver("driver-flavour", "The driver's kernel module suits the GPUs", "gpu.driver_software"),
    _driver("driver-cuda", "The driver is new enough for these GPUs", "gpu.driver_software"),
    _limit("persistence-mode"),
    _log("xid-hardware", "No Xid points at hardware", "gpu.xid"),
    _log("xid-reset", "No Xid asks for a reset", "gpu.xid"),
    _log("xid-application", "No program crashed on a GPU", "gpu.xid"),
    _log("gsp-timeout", "The GPUs' system processors (GSP) answer", "gpu.xid"),
    _log("driver-messages", "The driver reports no other problem", "gpu.xid"),
    _limit("gpu-model"),
    _gpu("gpu-memory-size", "Every GPU reports its full memory", "gpu.gpu_memory"),
    _limit("vbios"),
    _limit("gpu-firmware"),
    _limit("inforom"),
    _gpu("ecc-mode", "ECC is on", "gpu.gpu_memory"),
    _limit("ecc-uncorrected"),
    _limit("ecc-corrected"),
    _limit("ecc-sram"),
    _limit("row-remap"),
    _limit("row-remap-reserve"),
    _limit("retired-pages"),
    _gpu("gpu-throttle", "Nothing holds the clocks down", "gpu.gpu_slowdown", required=True),
    _gpu("gpu-violations", "Clocks were not held down for long", "gpu.gpu_slowdown"),
    _gpu("gpu-temperature", "GPUs are cool enough", "gpu.gpu_slowdown"),
    _limit("gpu-memory-temperature"),
    _gpu("gpu-temperature-spread", "No GPU is much hotter than the others", "gpu.gpu_slowdown"),
    _gpu("gpu-fan", "The fans turn", "gpu.gpu_slowdown"),
    _limit("gpu-power-limit"),
    _limit("application-clocks"),
    _gpu("gpu-busy", "No other program uses the GPUs", "gpu.gpu_use", is_state=True),
    _gpu("gpu-memory-leftover", "No memory is in use without a process", "gpu.gpu_use", is_state=True),
    _gpu("gpu-idle", "An idle GPU reports no load", "gpu.gpu_use"),
    _gpu("gpu-spinning", "No program waits forever in a collective", "gpu.gpu_use"),
    _limit("mig-mode"),
    _limit("compute-mode"),
    _gpu("confidential-compute", "Confidential computing is off", "gpu.gpu_memory"),
    _fabric("fabric-manager", "The Fabric Manager runs", "fabric.nvswitch"),
    _fabric("fabric-manager-version", "The Fabric Manager has the driver's version", "fabric.nvswitch"),
    _limit("nvlink-fabric"),
    _fabric("fabric-health", "The NVLink fabric is healthy", "fabric.nvswitch"),
    _fabric("fabric-clique", "The GPUs are in one NVLink clique", "fabric.nvswitch"),
    _fabric("nvswitch-count", "All NVSwitches are present", "fabric.nvswitch"),
    _check(
        "nvswitch-faults",
        "The NVSwitches report no fault",
        "fabric.nvswitch",
        group="fabric",
        needs=("logs",),
    ),
    _fabric("imex", "The IMEX domain is up", "fabric.nvswitch"),
    _fabric("nvlink-active", "All NVLinks are up", "fabric.nvlinks", required=True),
    _fabric("nvlink-speed", "NVLinks run at full speed", "fabric.nvlinks"),
    _fabric("nvlink-errors", "NVLinks count no errors", "fabric.nvlinks"),
    _fabric("nvlink-mesh", "All pairs of GPUs have the same NVLinks", "fabric.gpu_pairs"),
    _fabric("peer-access", "GPUs reach each other's memory", "fabric.gpu_pairs"),
    _fabric("peer-access-geforce", "The driver refuses peer access that does not work", "fabric.gpu_pairs"),
    _pcie("pcie-link", "PCIe links have their full width", "pcie.pcie_links"),
    _pcie("pcie-speed", "PCIe links have their full speed", "pcie.pcie_links"),
    _events("pcie-bandwidth"),
    _limit("pcie-replays"),
    _pcie("pcie-errors", "PCIe links report no errors", "pcie.pcie_links"),
    _pcie("pcie-payload", "PCIe payload sizes agree along the path", "pcie.pcie_settings"),
    _check(
        "pcie-read-request",
        "NICs are allowed to read large blocks",
        "pcie.pcie_settings",
        group="pcie",
        needs=("nics",),
    ),
    _events("slot-power"),
    _pcie("acs", "Peer-to-peer traffic is not sent through the host", "pcie.pcie_settings"),
    _pcie("iommu", "The IOMMU does not translate", "pcie.pcie_settings"),
    _gpu_pcie("gpu-nic-affinity", "Every GPU has a training port close by", "pcie.gpu_nic_affinity"),
    _gpu_pcie("gpu-sockets", "The GPUs are spread over the sockets", "host.numa_spread"),
    _gpu_pcie("topology-visible", "The machine shows its PCIe topology", "host.numa_spread", is_state=True),
    _pcie("numa", "The NUMA node of each device is known", "host.numa_spread"),
    _gpu_pcie("numa-hidden", "Both sockets' NUMA nodes are visible", "host.numa_spread"),
    _nic("nic-state", "The RDMA ports are up", "network.nic_link", required=True),
    _nic("nic-subnet-manager", "The subnet manager serves every port", "network.nic_fabric"),
    _network("nic-count", "The machine's training ports are all present", "network.nic_identity"),
    _nic("nic-rate", "Training ports run at the same rate", "network.nic_link"),
    _nic("nic-speed", "Training ports run at the rate of their card", "network.nic_link"),
    _nic("nic-width", "Links have all their lanes", "network.nic_link"),
    _limit("nic-bit-errors"),
    _nic("nic-advice", "The cards' firmware reports no issue with the links", "network.nic_link"),
    _nic("nic-firmware", "Cards of one kind have the same firmware", "network.nic_identity"),
    _nic("nic-naming", "The names of RDMA devices match their PCI addresses", "network.nic_identity"),
    _nic("nic-virtual", "No virtual function is among physical RDMA devices", "network.nic_identity"),
    _limit("nic-link-downed"),
    _limit("nic-symbol-errors"),
    _limit("nic-receive-errors"),
    _limit("nic-discards"),
    _limit("nic-retries"),
    _limit("roce-congestion"),
    _network("link-flapping", "No link goes up and down", "network.link_flapping"),
    _events("cable"),
    _nic("nic-pkey", "Ports are in one partition", "network.nic_fabric"),
    _nic("nic-mtu", "RDMA MTUs are large and equal", "network.nic_link", tier="deep"),
    _nic("nic-gid", "RoCE ports have a routable GID", "network.nic_address"),
    _nic("nic-gid-index", "The forced GID index is correct", "network.nic_address"),
    _nic("nic-mixture", "Training ports are of one kind", "network.nic_fabric"),
    _nic("nic-netdev", "The training ports' interfaces are up", "network.nic_address"),
    _nic("roce-address", "RoCE ports have an address", "network.nic_address"),
    _nic("roce-traffic-class", "Training ports use one RoCE traffic class", "network.nic_fabric"),
    _nic("verbs-devices", "RDMA device files exist", "network.rdma_software"),
    _nic("rdma-modules", "The RDMA kernel modules are loaded", "network.rdma_software"),
    _nic("peermem", "NICs reach GPU memory directly", "network.rdma_software"),
    _network("interface-state", "Bonds have all their members", "network.interface_consistency"),
    _network("interface-speed", "Members of a bond have the same speed", "network.interface_consistency"),
    _network(
        "interface-mtu",
        "Interfaces have the MTU of their bond and configuration",
        "network.interface_consistency",
    ),
    _network("interface-cabling", "Interfaces are cabled as configured", "network.interface_consistency"),
    _network("interface-choice", "The interface for training is unambiguous", "network.interface_choice"),
    _network("interface-subnets", "No two interfaces are in one subnet", "network.interface_choice"),
    _discovery("fabric-links", "Every cabled port has its partner", "network.fabric_discovery"),
    _discovery("fabric-speed", "No link of the fabric is slow", "network.fabric_discovery"),
    _discovery("fabric-isolation", "The host sees other nodes of the fabric", "network.fabric_discovery"),
    _check(
        "switch-health",
        "The switch's fans and power supplies work",
        "network.fabric_discovery",
        group="network",
        needs=("switches",),
    ),
    _network("hostname-address", "The host name resolves to a network address", "network.interface_choice"),
    _host("time-sync", "The clock is synchronised", "host.host_health"),
    _limit("memlock"),
    _host("shm-size", "Shared memory is large enough", "host.host_health", required=True),
    _limit("nofile"),
    _host("stack-limit", "The stack limit suits NCCL", "host.host_health"),
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
    _host("memory-balance", "NUMA nodes have equal memory", "host.numa_spread"),
    _limit("memory-errors"),
    _events("out-of-memory"),
    _events("lockups"),
    _events("machine-check"),
    _events("kernel-limits"),
    _events("nic-driver"),
    _events("device-errors"),
    _events("refused-transfers"),
    _events("clock"),
    _events("crashes"),
    _events("filesystem-errors"),
    _events("nccl-warnings"),
    _limit("zombies"),
    _limit("blocked-processes"),
    _limit("uptime"),
    _limit("power-supplies"),
    _check(
        "power-headroom",
        "The power supplies are sufficient for all GPUs",
        "host.host_health",
        group="host",
        needs=("gpus",),
    ),
    _limit("sensors"),
    _limit("disk-space"),
    _check("read-only-filesystems", "File systems are writable", "host.host_health", group="storage"),
    _gpu_software("services", "The services of a GPU server run", "host.host_health", tier="deep"),
    _container(
        "container-devices", "RDMA device files are passed into the container", "software.job_surroundings"
    ),
    _container("container-locking", "The container is allowed to lock memory", "software.job_surroundings"),
    _container("container-numa", "The container is allowed to place memory", "software.job_surroundings"),
    _software("proxy", "No proxy is between the ranks", "software.job_surroundings"),
    _software(
        "scheduler-limits", "The batch system passes resource limits on to jobs", "software.job_surroundings"
    ),
    _software("scheduler-binding", "Tasks of a job see each other's GPUs", "software.job_surroundings"),
    _gpu_software(
        "scheduler-gpus", "The batch system's configuration contains all GPUs", "software.job_surroundings"
    ),
    _gpu_software("torch-cuda", "Torch runs on this driver", "software.training_software"),
    _gpu_software("torch-architecture", "Torch has code for these GPUs", "software.training_software"),
    _gpu_software("nccl-version", "NCCL is new enough for these GPUs", "software.training_software"),
    _gpu_software(
        "nccl-duplicates", "All NCCL libraries have the same version", "software.training_software"
    ),
    _check(
        "nccl-plugin",
        "NCCL finds the network plugin of this platform",
        "software.training_software",
        group="software",
        needs=("nics",),
    ),
    _software("nccl-debug-settings", "No debugging switch is left on", "software.nccl_environment"),
    _software("nccl-values", "NCCL accepts the values of its variables", "software.nccl_environment"),
    _software("nccl-forced", "No algorithm is forced on NCCL", "software.nccl_environment"),
    _software("nccl-interfaces", "NCCL_SOCKET_IFNAME names one interface", "software.nccl_names"),
    _software("nccl-hcas", "NCCL_IB_HCA names the training ports", "software.nccl_names"),
    _software("gloo-interface", "GLOO_SOCKET_IFNAME names an interface", "software.nccl_names"),
    _software("nccl-configuration", "NCCL's configuration files are correct", "software.nccl_environment"),
    _gpu_software(
        "cuda-connections", "CUDA_DEVICE_MAX_CONNECTIONS suits the GPUs", "software.cuda_environment"
    ),
    _gpu_software("cuda-visible-devices", "Every GPU is visible to CUDA", "software.cuda_environment"),
    _gpu_software("cuda-injection", "No debugger or profiler is injected", "software.cuda_environment"),
    _software("omp-threads", "The number of CPU threads is sensible", "software.cuda_environment"),
    _check(
        "dcgm-diagnosis",
        "DCGM's own tests pass",
        "measured.tool_results",
        group="tools",
        needs=("diagnoses",),
    ),
    _tool("host-bandwidth", "Copies between host and GPU are fast", "measured.tool_transfers"),
    _tool("peer-bandwidth", "Copies between GPUs are fast", "measured.tool_transfers"),
    _tool("collective-results", "Collectives gave right results", "measured.tool_results"),
    _tool("collective-bandwidth", "Collectives are as fast as the links", "measured.tool_results"),
    _tool("network-bandwidth", "RDMA transfers are as fast as the port", "measured.tool_transfers"),
    _tool("tool-complaints", "The tools report no problem", "measured.tool_results"),
    _measured("measured-gemm", "Matrix products are as fast as on equal GPUs", "measured.measured_device"),
    _measured("measured-attention", "Attention is as fast as on equal GPUs", "measured.measured_device"),
    _measured("measured-memory", "Memory is as fast as on equal GPUs", "measured.measured_device"),
    _measured("measured-host-device", "Host copies are as fast as the link", "measured.measured_device"),
    _measured(
        "measured-peer-copy", "Copies between GPUs are as fast as their links", "measured.measured_device"
    ),
    _measured("measured-sustained", "The rate stays constant under load", "measured.measured_device"),
    _measured("measured-results", "All results are right", "measured.measured_device"),
    _measured("measured-collectives", "Collectives are as fast as usual", "measured.measured_collectives"),
    _measured("measured-isolation", "No layer between ranks is slow", "measured.measured_collectives"),
    _measured("measured-pairs", "No pair of ranks is slower than others", "measured.measured_collectives"),
    _measured("measured-network", "No host or link between hosts is slow", "measured.measured_network"),
    _measured(
        "measured-across-nodes", "Collectives reach the rate of the ports", "measured.measured_network"
    ),
    _measured("equal-devices", "No device is slower than equal devices", "measured.measured_equals"),
    _measured("equal-ranks", "No rank is later than the others", "measured.measured_equals"),
    _measured("measured-storage", "Storage keeps up with training", "measured.measured_training"),
    _measured("measured-data-loader", "Data loaders keep up with training", "measured.measured_training"),
    _measured("measured-train-step", "The step scales over the ranks", "measured.measured_training"),
    _check(
        "measured-baseline",
        "Nothing is slower than before",
        "measured.measured_history",
        group="measured",
        needs=("measurements", "baselines"),
    ),
    _measured(
        "measured-conditions", "The machine was quiet while it was measured", "measured.measured_history"
    ),
    _policy("policy-gpus", "The GPUs match the policy", "policy.expected_devices"),
    _policy("policy-nics", "The NICs match the policy", "policy.expected_devices"),
    _policy("policy-versions", "Versions match the policy", "policy.expected_host"),
    _policy("policy-host", "The host is as the policy expects", "policy.expected_host"),
    _policy("site-checks", "The site's own commands give the expected results", "policy.site_checks"),
    _policy("policy-sections", "The policy's sections for this host are known", "policy.policy_file"),
    _policy("policy-waivers", "No waiver has expired", "policy.policy_file", required=False),
)
"""The checks; a check for a cause comes before checks that fail because of this cause.

Findings of one status are listed in this order.

A check of the machine is required if training fails or is much slower when the check fails, and if an
unprivileged user can read its facts on every machine. The checks of a policy are required because the
operator asked for them.
"""
