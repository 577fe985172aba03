"""List the kinds of text that report each sort of record, in one table per sort.

The order is that of trust: the first text that knows a field decides. Descriptions of machines come last. The
collectors merge the records behind those of NVML and sysfs.
"""

from __future__ import annotations

from probes.facts import (
    Cpu,
    Diagnosis,
    FabricPort,
    FabricSwitch,
    Gpu,
    Link,
    Nic,
    NumaNode,
    PciDevice,
    PeerAccess,
    ToolResult,
)
from probes.reading.nvidia import SMI_NVLINK, SMI_QUERY, SMI_TIMEOUT_S, SMI_TOPOLOGY
from probes.reading.readers.text_reader import TextReader


def _driver(
    kind: str, parse: str, *commands: tuple[str, ...], is_live: bool = False, **functions: str
) -> TextReader[Gpu]:
    """Return the reader of a text with which the driver itself reports GPUs."""
    return TextReader(
        kind=kind,
        parse=parse if ":" in parse else f"{parse}:parse_gpus",
        commands=commands,
        timeout_s=SMI_TIMEOUT_S,
        is_driver=True,
        is_live=is_live,
        **functions,  # type: ignore[arg-type] # names of functions
    )


def _nic(
    kind: str,
    parse: str,
    *command: str,
    unread: str = "",
    is_live: bool = False,
) -> TextReader[Nic]:
    return TextReader(
        kind=kind,
        parse=parse,
        commands=(command,) if command else (),
        even_failed=True,
        unread=unread,
        is_live=is_live,
    )


GPUS: tuple[TextReader[Gpu], ...] = (
    _driver(
        "nvidia-smi-xml",
        "nvidia_smi.nvsmi_xml",
        SMI_QUERY,
        is_live=True,
        attached="attached_gpus",
        unread="unread",
    ),
    _driver("nvidia-smi-text", "nvidia_smi.nvsmi_text", attached="attached_gpus", unread="unread"),
    _driver("nvidia-smi-csv", "nvidia_smi.nvsmi_csv", unread="unread"),
    _driver("nvidia-smi-table", "nvidia_smi.nvsmi_table", unread="unread"),
    _driver("nvidia-smi-list", "nvidia_smi.nvsmi_short:parse_list", unread="unread_list"),
    _driver("nvidia-smi-monitor", "nvidia_smi.nvsmi_short:parse_monitor"),
    _driver("nvidia-smi-error", "nvidia_smi.nvsmi_short:parse_error", failure="failure"),
    _driver("nvlink", "nvidia_smi.nvlink_status", SMI_NVLINK, is_live=True),
    _driver("nvlink-errors", "nvidia_smi.nvlink_error_counts", unread="unread"),
    _driver("dcgm-nvlink", "tools.dcgm_nvlink", unread="unread"),
    _driver("dcgm-discovery", "tools.dcgm_discovery", attached="attached_gpus"),
    _driver("topology", "topology.topo_matrix", SMI_TOPOLOGY),
    _driver("peer-access", "topology.gpu_tables:parse_p2p_gpus"),
    _driver("rocm-topology", "topology.gpu_tables:parse_rocm_gpus"),
    TextReader(kind="nccl-topology", parse="topology.nccl_topology:parse_gpus"),
    TextReader(kind="hwloc", parse="topology.hwloc_xml:parse_gpus"),
    TextReader(kind="lspci", parse="topology.lspci:parse_gpus"),
    TextReader(kind="lstopo", parse="topology.lstopo_console:parse_gpus"),
    TextReader(kind="nccl-graph", parse="topology.nccl_graph:parse_gpus", unread="parse_unread"),
    TextReader(kind="fabric-manager-log", parse="fabric.fabric_manager_log:parse_gpus"),
    TextReader(kind="dcgm-diagnostic", parse="tools.dcgm_diagnostic:parse_gpus"),
    TextReader(kind="nvbandwidth", parse="tools.nvbandwidth:parse_gpus"),
    TextReader(kind="cuda-bandwidth", parse="tools.cuda_bandwidth:parse_gpus"),
    TextReader(kind="nccl-tests", parse="tools.nccl_tests:parse_gpus"),
)
"""Texts that report GPUs.

A text without NVML's indices (lspci, an NCCL topology) gives `index=UNNUMBERED`. If nothing else reports such
a GPU, it is numbered by its PCI address, as NVML does. If the driver's own texts are there, the others only
add to the GPUs that the driver shows. On a live machine NVML is asked first, and the live rows if it does not
answer.
"""

NICS: tuple[TextReader[Nic], ...] = (
    _nic("ibv-devinfo", "fabric.ibv_devinfo:parse_nics", "ibv_devinfo", "-v", is_live=True),
    _nic("ibstatus", "fabric.rdma_lists:parse_ibstatus", "ibstatus"),
    _nic("ibstat", "fabric.infiniband_files:parse_ibstat", "ibstat", unread="unread_ibstat"),
    _nic("mlxlink", "fabric.mlxlink:parse_nics"),
    _nic("show-gids", "fabric.rdma_lists:parse_show_gids"),
    _nic("ibdev2netdev", "fabric.rdma_lists:parse_ibdev2netdev", "ibdev2netdev"),
    _nic("rdma-link", "fabric.rdma_lists:parse_rdma_link", "rdma", "link"),
    _nic("fi-info", "fabric.fi_info:parse_nics"),
    _nic("perfquery", "fabric.rdma_lists:parse_perfquery"),
    _nic("nccl-topology", "topology.nccl_topology:parse_nics"),
    _nic("hwloc", "topology.hwloc_xml:parse_nics"),
    _nic("lspci", "topology.lspci:parse_nics"),
)
"""Texts that report NICs.

A text that knows the PCI device but not the RDMA device's name (lspci) gives `name=""` and `pci_bus_id`. Such
a record adds to all ports of that device. If nothing else reports the device, it gets a record named by its
address. On a live machine sysfs is asked; a deep check also asks the live row, which reports the RDMA MTU.
"""

LINKS: tuple[TextReader[Link], ...] = (
    TextReader(
        kind="topology",
        parse="topology.topo_matrix:parse_links",
        commands=(SMI_TOPOLOGY,),
        timeout_s=SMI_TIMEOUT_S,
        is_live=True,
        unread="unread",
    ),
    TextReader(kind="rocm-topology", parse="topology.gpu_tables:parse_rocm_links", unread="unread_rocm"),
    TextReader(kind="nccl-topology", parse="topology.nccl_topology:parse_links"),
    TextReader(kind="hwloc", parse="topology.hwloc_xml:parse_links"),
    TextReader(kind="lspci", parse="topology.lspci:parse_links"),
)
"""Texts that report pairs of devices.

Devices have the names of the other facts: `GPU0` by NVML's index, NICs by their RDMA device (`mlx5_0`), and
NICs without one by the name in the text (`NIC3`).
"""

PEER_ACCESS: tuple[TextReader[PeerAccess], ...] = (
    TextReader(kind="peer-access", parse="topology.gpu_tables:parse_peer_access", unread="unread_p2p"),
)

PCI_DEVICES: tuple[TextReader[PciDevice], ...] = (
    TextReader(kind="lspci", parse="topology.lspci:parse_devices", unread="parse_unread"),
    TextReader(kind="hwloc", parse="topology.hwloc_xml:parse_devices", unread="parse_unread"),
    TextReader(kind="nccl-topology", parse="topology.nccl_topology:parse_devices", unread="parse_unread"),
    TextReader(kind="lstopo", parse="topology.lstopo_console:parse_devices"),
    TextReader(kind="fabric-manager-log", parse="fabric.fabric_manager_log:parse_devices"),
    TextReader(kind="dmidecode", parse="topology.dmidecode:parse_slots"),
)

CPUS: tuple[TextReader[Cpu], ...] = (
    TextReader(kind="lscpu", parse="host.lscpu:parse_cpu"),
    TextReader(kind="hwloc", parse="topology.hwloc_xml:parse_cpu"),
    TextReader(kind="lstopo", parse="topology.lstopo_console:parse_cpu"),
)

NUMA_NODES: tuple[TextReader[NumaNode], ...] = (
    TextReader(kind="numactl", parse="topology.numactl:parse_numa_nodes"),
    TextReader(kind="lscpu", parse="host.lscpu:parse_numa_nodes"),
    TextReader(kind="hwloc", parse="topology.hwloc_xml:parse_numa_nodes"),
    TextReader(kind="lstopo", parse="topology.lstopo_console:parse_numa_nodes"),
    TextReader(kind="nccl-topology", parse="topology.nccl_topology:parse_numa_nodes"),
)

FABRIC_PORTS: tuple[TextReader[FabricPort], ...] = (
    TextReader(kind="iblinkinfo", parse="fabric.fabric_maps:parse_iblinkinfo", commands=(("iblinkinfo",),)),
    TextReader(
        kind="ibnetdiscover", parse="fabric.fabric_maps:parse_ibnetdiscover", commands=(("ibnetdiscover",),)
    ),
)

FABRIC_SWITCHES: tuple[TextReader[FabricSwitch], ...] = (
    TextReader(kind="ibswinfo", parse="fabric.fabric_maps:parse_switches", commands=(("ibswinfo",),)),
)

MEASUREMENTS: tuple[TextReader[ToolResult], ...] = (
    TextReader(kind="nvbandwidth", parse="tools.nvbandwidth:parse_results", unread="parse_unread"),
    TextReader(kind="cuda-bandwidth", parse="tools.cuda_bandwidth:parse_results"),
    TextReader(kind="nccl-tests", parse="tools.nccl_tests:parse_results"),
    TextReader(kind="perftest", parse="tools.perftest:parse_results"),
    TextReader(kind="fabtests", parse="tools.fabtests:parse_results"),
    TextReader(kind="gpcnet", parse="tools.gpcnet:parse_results"),
)

DIAGNOSES: tuple[TextReader[Diagnosis], ...] = (
    TextReader(kind="dcgm-diagnostic", parse="tools.dcgm_diagnostic:parse_diagnoses", unread="parse_unread"),
    TextReader(kind="dcgm-health", parse="tools.dcgm_health:parse_diagnoses"),
)
