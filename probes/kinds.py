"""The kinds of text that a person can give, each told by what it holds. A new kind is a parser module and a row here."""

from __future__ import annotations

import importlib
from types import ModuleType

from probes.record import Record


class KindRow(Record, kw_only=True):
    """One kind. Its module has `recognise(text: str) -> bool`, quick on any text and never raising, and its parser."""

    id: str
    title: str
    """Completes "It reads ...": what wrote the text."""
    module: str

    def load(self) -> ModuleType:
        return importlib.import_module(self.module)


def _kind(kind_id: str, title: str, module: str) -> KindRow:
    return KindRow(id=kind_id, title=title, module=f"probes.parsers.{module}")


KINDS: tuple[KindRow, ...] = (
    _kind("nvidia-smi-xml", "`nvidia-smi -q -x`", "nvsmi_xml"),
    _kind("nvidia-smi-text", "`nvidia-smi -q`, whole or a part (-d)", "nvsmi_text"),
    _kind("nvidia-smi-table", "`nvidia-smi`", "nvsmi_table"),
    _kind("nvidia-smi-csv", "`nvidia-smi --query-gpu --format=csv`", "nvsmi_csv"),
    _kind("nvidia-smi-list", "`nvidia-smi -L`", "nvsmi_list"),
    _kind("nvidia-smi-monitor", "`nvidia-smi dmon` or `pmon`", "nvsmi_monitor"),
    _kind("nvidia-smi-error", "an error of nvidia-smi", "nvsmi_error"),
    _kind("topology", "`nvidia-smi topo -m`", "topo_matrix"),
    _kind("peer-access", "`nvidia-smi topo -p2p`", "topo_p2p"),
    _kind("rocm-topology", "`rocm-smi --showtopo`, whole or a part", "rocm_topology"),
    _kind("nvlink", "`nvidia-smi nvlink --status`", "nvlink_status"),
    _kind("nvlink-errors", "`nvidia-smi nvlink -e`", "nvlink_errors"),
    _kind("dcgm-nvlink", "`dcgmi nvlink`", "dcgm_nvlink"),
    _kind("dcgm-diagnostic", "`dcgmi diag`, text or JSON", "dcgm_diagnostic"),
    _kind("dcgm-health", "`dcgmi health --check`", "dcgm_health"),
    _kind("dcgm-discovery", "`dcgmi discovery -l`", "dcgm_discovery"),
    _kind("fabric-manager-log", "the Fabric Manager's log", "fabric_manager_log"),
    _kind("nvbandwidth", "`nvbandwidth`, text or JSON", "nvbandwidth"),
    _kind("cuda-bandwidth", "`bandwidthTest` or SuperBench `gpu_copy`", "cuda_bandwidth"),
    _kind("nccl-tests", "nccl-tests", "nccl_tests"),
    _kind("perftest", "perftest (`ib_write_bw`, `ib_write_lat` ...)", "perftest"),
    _kind("fabtests", "fabtests (`fi_rma_bw` ...)", "fabtests"),
    _kind("gpcnet", "GPCNeT", "gpcnet"),
    _kind("nccl-topology", "an NCCL topology XML", "nccl_topology"),
    _kind("nccl-graph", "an NCCL graph XML", "nccl_graph"),
    _kind("hwloc", "an hwloc XML (`lstopo --of xml`)", "hwloc_xml"),
    _kind("lstopo", "`lstopo` on a console", "lstopo_console"),
    _kind("lscpu", "`lscpu`", "lscpu"),
    _kind("numactl", "`numactl -H`", "numactl"),
    _kind("lspci", "`lspci`, short or -vvv", "lspci"),
    _kind("dmidecode", "`dmidecode`", "dmidecode"),
    _kind("ipmi", "`ipmitool sdr`, `sensor` or `dcmi power reading`", "ipmi"),
    _kind("ibstat", "`ibstat`", "infiniband"),
    _kind("ibstatus", "`ibstatus`", "ibstatus"),
    _kind("ibv-devinfo", "`ibv_devinfo`", "ibv_devinfo"),
    _kind("ibdev2netdev", "`ibdev2netdev`", "ibdev2netdev"),
    _kind("rdma-link", "`rdma link`", "rdma_link"),
    _kind("show-gids", "`show_gids`", "show_gids"),
    _kind("mlxlink", "`mlxlink`", "mlxlink"),
    _kind("perfquery", "`perfquery -x`", "perfquery"),
    _kind("iblinkinfo", "`iblinkinfo`", "iblinkinfo"),
    _kind("ibnetdiscover", "`ibnetdiscover`", "ibnetdiscover"),
    _kind("ibswinfo", "`ibswinfo`", "ibswinfo"),
    _kind("guid-list", "a list of host names and node GUIDs", "guid_list"),
    _kind("fi-info", "`fi_info -v`", "fi_info"),
    _kind("interfaces", "`ip -j addr`, alone or in a collection with LLDP and speeds", "ip_json"),
    _kind("kernel-log", "the kernel log (`dmesg`, journal, syslog)", "kernel_log"),
    _kind("nccl-log", "a log with NCCL_DEBUG", "nccl_log"),
    _kind("lsmod", "`lsmod`", "lsmod"),
    _kind("driver-version", "/proc/driver/nvidia/version", "driver_version"),
    _kind("mock-machine", "a machine description of nvml-mock", "mock_machine"),
    _kind("mock-gpu", "a GPU description of go-nvml", "mock_gpu"),
    _kind("machine-profile", "an expected hardware profile (JSON)", "machine_profile"),
    _kind("cluster-model", "a cluster model of topograph", "cluster_model"),
)
"""Every kind whose recogniser agrees takes the text: a pasted terminal session may hold several."""
