"""Test that parsers cite the lines from which they read values, so that people find them again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec
import pytest

from probes.parsers.fabric import (
    fabric_manager_log,
    fabric_maps,
    fi_info,
    ibv_devinfo,
    infiniband_files,
    mlxlink,
    port_info,
    rdma_lists,
)
from probes.parsers.host import ipmi
from probes.parsers.nvidia_smi import (
    nvlink_error_counts,
    nvlink_status,
    nvsmi_csv,
    nvsmi_short,
    nvsmi_table,
    nvsmi_text,
)
from probes.parsers.tools import (
    cuda_bandwidth,
    dcgm_diagnostic,
    dcgm_discovery,
    dcgm_health,
    dcgm_monitor,
    dcgm_nvlink,
    fabtests,
    gpcnet,
    nccl_tests,
    nvbandwidth,
    perftest,
)
from probes.parsers.topology import gpu_tables, lspci, pci_values
from tests.unit.probes.parsers import test_dcgm_texts as dcgm
from tests.unit.probes.parsers import test_fabric_texts as maps
from tests.unit.probes.parsers import test_link_texts as links
from tests.unit.probes.parsers import test_nvsmi_texts as smi
from tests.unit.probes.parsers import test_rdma_tools as rdma
from tests.unit.probes.parsers import test_tool_texts as tools

ONE_LINE = re.compile(r"line (\d+)")
PORT_INFO = "CA PortInfo:\n# Port info: Lid 3 port 1\nLinkState:.......Active\n"
SENSORS = "Fan1 | 5000 RPM | ok\nPS1 | 0x01 | ok\nFan2 | 5000 RPM | ok\n"
MONITOR = "#Entity   GPUTL  TMPTR\nGPU 0     1      35\n"
LSPCI = (
    "19:00.0 3D controller: NVIDIA Corporation GH100 [H100] (rev a1)\n\tLnkSta:\tSpeed 32GT/s, Width x16\n"
)
UEVENT = "PCI_SLOT_NAME=0000:19:00.0\nPCI_ID=10DE:2330\nPCI_CLASS=30200\n"


def cited(value: object) -> Iterator[int]:
    """Yield the numbers of the lines that a value cites."""
    match value:
        case msgspec.Struct():
            for field in value.__struct_fields__:
                part = getattr(value, field)
                if field == "line" and isinstance(part, int):
                    yield part
                elif field == "detail" and (match := ONE_LINE.fullmatch(str(part))):
                    yield int(match[1])
                else:
                    yield from cited(part)
        case tuple() | list():
            for part in value:
                yield from cited(part)
        case dict():
            yield from cited(tuple(value.values()))


@pytest.mark.parametrize(
    ("parse", "text", "lines"),
    [
        (rdma_lists.parse_ibdev2netdev, rdma.NETDEV, [1, 2]),
        (rdma_lists.parse_ibstatus, rdma.IBSTATUS, [1]),
        (rdma_lists.parse_perfquery, rdma.PERFQUERY, [1]),
        (rdma_lists.parse_rdma_link, rdma.RDMA, [1, 2, 3]),
        (rdma_lists.parse_show_gids, rdma.GIDS, [3]),
        (infiniband_files.parse_ibstat, rdma.IBSTAT, [6, 14]),
        (infiniband_files.unread_ibstat, rdma.IBSTAT, [14]),
        (ibv_devinfo.parse_nics, rdma.DEVINFO, [11, 27]),
        (mlxlink.parse_nics, rdma.MLXLINK, [1]),
        (fi_info.parse_nics, rdma.FI_INFO, [3]),
        (port_info.parse_nics, PORT_INFO, [2]),
        (fabric_maps.parse_iblinkinfo, maps.LINKINFO, [2, 4, 5]),
        (fabric_maps.parse_ibnetdiscover, maps.DISCOVER, [4, 7]),
        (fabric_maps.parse_ibnetdiscover, maps.ALONE, [1]),
        (fabric_maps.parse_ibnetdiscover, maps.LISTED, [1, 2, 3]),
        (fabric_maps.parse_switches, maps.SWITCH, [4]),
        (fabric_manager_log.parse_devices, links.MANAGER, [6]),
        (fabric_manager_log.parse_gpus, links.MANAGER, [7]),
        (cuda_bandwidth.parse_gpus, tools.BANDWIDTH_TEST, [4]),
        (cuda_bandwidth.parse_results, tools.BANDWIDTH_TEST, [10, 15]),
        (cuda_bandwidth.parse_results, tools.SHMOO, [2]),
        (cuda_bandwidth.parse_results, tools.GPU_COPY, [1, 2, 3]),
        (dcgm_diagnostic.parse_diagnoses, tools.DCGM, [7, 8, 9, 12]),
        (dcgm_diagnostic.parse_diagnoses, tools.RETYPED, [1, 2]),
        (dcgm_health.parse_diagnoses, dcgm.OLD_HEALTH, [6]),
        (dcgm_health.parse_diagnoses, dcgm.NEW_HEALTH, [5, 8, 10, 13]),
        (dcgm_discovery.parse_gpus, dcgm.DISCOVERY, [5, 9]),
        (dcgm_nvlink.parse_gpus, links.DCGM_STATES, [5, 7]),
        (dcgm_nvlink.parse_gpus, links.DCGM_ERRORS, [2]),
        (dcgm_monitor.parse_gpus, MONITOR, [2]),
        (fabtests.parse_results, tools.FABTESTS, [3]),
        (gpcnet.parse_results, tools.GPCNET, [5, 6]),
        (nccl_tests.parse_gpus, tools.NCCL, [5]),
        (nccl_tests.parse_results, tools.NCCL, [9, 9, 10, 11, 12]),
        (nvbandwidth.parse_results, tools.NVBANDWIDTH, [10, 10, 17, 18, 24, 24]),
        (nvbandwidth.parse_results, tools.NVBANDWIDTH_JSON, [2, 2, 2, 1]),
        (perftest.parse_results, tools.PERFTEST, [5]),
        (perftest.parse_results, tools.PERFTEST_LATENCY, [4]),
        (nvsmi_csv.parse_gpus, smi.CSV, [2, 3]),
        (nvsmi_csv.unread, smi.CSV, [4]),
        (nvsmi_short.parse_list, smi.LIST, [1, 3]),
        (nvsmi_short.parse_monitor, smi.DMON, [3]),
        (nvsmi_short.parse_monitor, smi.PMON, [3, 5]),
        (nvsmi_table.parse_gpus, smi.TABLE, [5, 9]),
        (nvsmi_text.parse_gpus, smi.REPORT, [9, 66]),
        (nvsmi_text.unread, smi.REPORT, [74, 74]),
        (nvlink_status.parse_gpus, links.ERRORS, [2]),
        (nvlink_error_counts.parse_gpus, links.ERRORS, [2]),
        (nvlink_error_counts.parse_gpus, links.NEW_ERRORS, [1]),
        (gpu_tables.parse_peer_access, links.P2P, [3, 3, 4, 4, 5, 5]),
        (gpu_tables.parse_rocm_links, links.ROCM, [3, 3, 4]),
        (ipmi.parse_sensors, SENSORS, [1, 2, 3]),
        (lspci.parse_devices, LSPCI, [1]),
        (pci_values.parse_devices, UEVENT, [1]),
    ],
)
def test_a_value_cites_its_line(parse: Callable[[str], object], text: str, lines: list[int]) -> None:
    assert list(cited(parse(text))) == lines
    # Lines above the text move all of them.
    assert list(cited(parse(f"$ a command\n\n{text}"))) == [line + 2 for line in lines]
