"""The kinds of text that rigtune can read, each recognised by its contents.

A new kind needs a parser module and a row here. The title completes "It reads ..." and names the program that
wrote the text. The module has a parser and `recognise(text: str) -> bool`, which is quick on any text and
never raises.
"""

import importlib

from probes.base.record import Record


class KindRow(Record, kw_only=True):
    """One kind of text.

    Its module has a parser, and a function `(text: str) -> bool` that recognises the text. That function is
    quick on any text and never raises.
    """

    id: str
    title: str
    """Text that completes "It reads ...": the program that wrote the text."""
    parser: str
    """Module below `probes.parsers`, with the name of the recognising function if it is not `recognise`."""

    def recognise(self, text: str) -> bool:
        """Return whether the text is of this kind."""
        module, _, function = self.parser.partition(":")
        recogniser = getattr(importlib.import_module(f"probes.parsers.{module}"), function or "recognise")
        return bool(recogniser(text))


def _kind(kind_id: str, title: str, parser: str) -> KindRow:
    return KindRow(id=kind_id, title=title, parser=parser)


KINDS: tuple[KindRow, ...] = (
    _kind("nvidia-smi-xml", "`nvidia-smi -q -x`", "nvidia_smi.nvsmi_xml"),
    _kind("nvidia-smi-text", "`nvidia-smi -q`, whole or a part (-d)", "nvidia_smi.nvsmi_text"),
    _kind("nvidia-smi-table", "`nvidia-smi`", "nvidia_smi.nvsmi_table"),
    _kind("nvidia-smi-csv", "`nvidia-smi --query-gpu --format=csv`", "nvidia_smi.nvsmi_csv"),
    _kind("nvidia-smi-list", "`nvidia-smi -L`", "nvidia_smi.nvsmi_short:recognise_list"),
    _kind("nvidia-smi-monitor", "`nvidia-smi dmon` or `pmon`", "nvidia_smi.nvsmi_short:recognise_monitor"),
    _kind("nvidia-smi-error", "an error of nvidia-smi", "nvidia_smi.nvsmi_short:recognise_error"),
    _kind("topology", "`nvidia-smi topo -m`", "topology.topo_matrix"),
    _kind("peer-access", "`nvidia-smi topo -p2p`", "topology.gpu_tables:recognise_p2p"),
    _kind("rocm-topology", "`rocm-smi --showtopo`, whole or a part", "topology.gpu_tables:recognise_rocm"),
    _kind("nvlink", "`nvidia-smi nvlink --status`", "nvidia_smi.nvlink_status"),
    _kind("nvlink-errors", "`nvidia-smi nvlink -e`", "nvidia_smi.nvlink_error_counts"),
    _kind("dcgm-nvlink", "`dcgmi nvlink`", "tools.dcgm_nvlink"),
    _kind("dcgm-diagnostic", "`dcgmi diag`, text or JSON", "tools.dcgm_diagnostic"),
    _kind("dcgm-health", "`dcgmi health --check`", "tools.dcgm_health"),
    _kind("dcgm-discovery", "`dcgmi discovery -l`", "tools.dcgm_discovery"),
    _kind("dcgm-monitor", "`dcgmi dmon`", "tools.dcgm_monitor"),
    _kind("fabric-manager-log", "the Fabric Manager's log", "fabric.fabric_manager_log"),
    _kind("nvbandwidth", "`nvbandwidth`, text or JSON", "tools.nvbandwidth"),
    _kind("cuda-bandwidth", "`bandwidthTest` or SuperBench `gpu_copy`", "tools.cuda_bandwidth"),
    _kind("nccl-tests", "nccl-tests", "tools.nccl_tests"),
    _kind("perftest", "perftest (`ib_write_bw`, `ib_write_lat` ...)", "tools.perftest"),
    _kind("fabtests", "fabtests (`fi_rma_bw` ...)", "tools.fabtests"),
    _kind("gpcnet", "GPCNeT", "tools.gpcnet"),
    _kind("nccl-topology", "an NCCL topology XML", "topology.nccl_topology"),
    _kind("nccl-graph", "an NCCL graph XML", "topology.nccl_graph"),
    _kind("hwloc", "an hwloc XML (`lstopo --of xml`)", "topology.hwloc_xml"),
    _kind("lstopo", "`lstopo` on a console", "topology.lstopo_console"),
    _kind("lscpu", "`lscpu`", "host.lscpu"),
    _kind("numactl", "`numactl -H`, or a matrix of NUMA distances", "topology.numactl"),
    _kind("lspci", "`lspci`, short or -vvv", "topology.lspci"),
    _kind("pci-values", "PCI values as key=value (`uevent`, sysfs)", "topology.pci_values"),
    _kind("dmidecode", "`dmidecode`", "topology.dmidecode"),
    _kind("ipmi", "`ipmitool sdr`, `sensor`, `dcmi power reading` or `mc info`", "host.ipmi"),
    _kind("ibstat", "`ibstat`", "fabric.infiniband_files"),
    _kind("ibstatus", "`ibstatus`", "fabric.rdma_lists:recognise_ibstatus"),
    _kind("ibv-devinfo", "`ibv_devinfo`", "fabric.ibv_devinfo"),
    _kind("ibdev2netdev", "`ibdev2netdev`", "fabric.rdma_lists:recognise_ibdev2netdev"),
    _kind("rdma-link", "`rdma link`", "fabric.rdma_lists:recognise_rdma_link"),
    _kind("show-gids", "`show_gids`", "fabric.rdma_lists:recognise_show_gids"),
    _kind("mlxlink", "`mlxlink`", "fabric.mlxlink"),
    _kind("perfquery", "`perfquery -x`", "fabric.rdma_lists:recognise_perfquery"),
    _kind("port-info", "`ibportstate` or `smpquery portinfo`", "fabric.port_info"),
    _kind("iblinkinfo", "`iblinkinfo`", "fabric.fabric_maps:recognise_iblinkinfo"),
    _kind("ibnetdiscover", "`ibnetdiscover`", "fabric.fabric_maps:recognise_ibnetdiscover"),
    _kind("ibswinfo", "`ibswinfo`", "fabric.fabric_maps:recognise_ibswinfo"),
    _kind("guid-list", "a list of host names and node GUIDs", "fabric.fabric_maps:recognise_guid_list"),
    _kind("fi-info", "`fi_info -v`", "fabric.fi_info"),
    _kind("interfaces", "`ip -j addr`, alone or in a collection with LLDP and speeds", "fabric.ip_json"),
    _kind("kernel-log", "the kernel log (`dmesg`, journal, syslog)", "kernel.kernel_log"),
    _kind("nccl-log", "a log with NCCL_DEBUG", "tools.nccl_log"),
    _kind("lsmod", "`lsmod`", "host.package_lists:recognise_lsmod"),
    _kind("driver-version", "/proc/driver/nvidia/version", "host.version_outputs:recognise_driver"),
)
"""A text may be of several kinds, for example a pasted terminal session.

The text is parsed by every kind that recognises it.
"""
