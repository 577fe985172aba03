"""The kinds of text that a person can give, each recognised by its contents.

A new kind is a parser module and a row here. The title completes "It reads ..." and names the origin of the
text. The module has a parser and `recognise(text: str) -> bool`, which is quick on any text and never raises.
"""

from __future__ import annotations

from probes.base.table_rows import Row


def _kind(kind_id: str, title: str, module: str) -> Row:
    return Row(id=kind_id, title=title, module=f"probes.parsers.{module}")


KINDS: tuple[Row, ...] = (
    _kind("nvidia-smi-xml", "`nvidia-smi -q -x`", "nvidia_smi.nvsmi_xml"),
    _kind("nvidia-smi-text", "`nvidia-smi -q`, whole or a part (-d)", "nvidia_smi.nvsmi_text"),
    _kind("nvidia-smi-table", "`nvidia-smi`", "nvidia_smi.nvsmi_table"),
    _kind("nvidia-smi-csv", "`nvidia-smi --query-gpu --format=csv`", "nvidia_smi.nvsmi_csv"),
    _kind("nvidia-smi-list", "`nvidia-smi -L`", "nvidia_smi.nvsmi_list"),
    _kind("nvidia-smi-monitor", "`nvidia-smi dmon` or `pmon`", "nvidia_smi.nvsmi_monitor"),
    _kind("nvidia-smi-error", "an error of nvidia-smi", "nvidia_smi.nvsmi_error"),
    _kind("topology", "`nvidia-smi topo -m`", "topology.topo_matrix"),
    _kind("peer-access", "`nvidia-smi topo -p2p`", "topology.topo_p2p"),
    _kind("rocm-topology", "`rocm-smi --showtopo`, whole or a part", "topology.rocm_topology"),
    _kind("nvlink", "`nvidia-smi nvlink --status`", "nvidia_smi.nvlink_status"),
    _kind("nvlink-errors", "`nvidia-smi nvlink -e`", "nvidia_smi.nvlink_error_counts"),
    _kind("dcgm-nvlink", "`dcgmi nvlink`", "tools.dcgm_nvlink"),
    _kind("dcgm-diagnostic", "`dcgmi diag`, text or JSON", "tools.dcgm_diagnostic"),
    _kind("dcgm-health", "`dcgmi health --check`", "tools.dcgm_health"),
    _kind("dcgm-discovery", "`dcgmi discovery -l`", "tools.dcgm_discovery"),
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
    _kind("numactl", "`numactl -H`", "topology.numactl"),
    _kind("lspci", "`lspci`, short or -vvv", "topology.lspci"),
    _kind("dmidecode", "`dmidecode`", "topology.dmidecode"),
    _kind("ipmi", "`ipmitool sdr`, `sensor` or `dcmi power reading`", "host.ipmi"),
    _kind("ibstat", "`ibstat`", "fabric.infiniband_files"),
    _kind("ibstatus", "`ibstatus`", "fabric.ibstatus"),
    _kind("ibv-devinfo", "`ibv_devinfo`", "fabric.ibv_devinfo"),
    _kind("ibdev2netdev", "`ibdev2netdev`", "fabric.ibdev2netdev"),
    _kind("rdma-link", "`rdma link`", "fabric.rdma_link"),
    _kind("show-gids", "`show_gids`", "fabric.show_gids"),
    _kind("mlxlink", "`mlxlink`", "fabric.mlxlink"),
    _kind("perfquery", "`perfquery -x`", "fabric.perfquery"),
    _kind("iblinkinfo", "`iblinkinfo`", "fabric.iblinkinfo"),
    _kind("ibnetdiscover", "`ibnetdiscover`", "fabric.ibnetdiscover"),
    _kind("ibswinfo", "`ibswinfo`", "fabric.ibswinfo"),
    _kind("guid-list", "a list of host names and node GUIDs", "fabric.guid_list"),
    _kind("fi-info", "`fi_info -v`", "fabric.fi_info"),
    _kind("interfaces", "`ip -j addr`, alone or in a collection with LLDP and speeds", "fabric.ip_json"),
    _kind("kernel-log", "the kernel log (`dmesg`, journal, syslog)", "kernel.kernel_log"),
    _kind("nccl-log", "a log with NCCL_DEBUG", "tools.nccl_log"),
    _kind("lsmod", "`lsmod`", "host.lsmod"),
    _kind("driver-version", "/proc/driver/nvidia/version", "host.driver_version"),
)
"""A text may be of several kinds, for example a pasted terminal session: each kind that recognises the text
is read.
"""
