"""Compare all values that are read from texts of tools. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew.

Other tests of the parsers compare the fields that they are about; here no other field may change unnoticed,
such as a field that must stay unknown.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import tests
from probes.base.record import EvidenceRef, Unknown
from probes.catalogue.text_kinds import KINDS, KindRow

FOLDER = Path(tests.__path__[0]) / "golden" / "parsed"
TEXTS = {
    "test_rdma_tools": (
        *("IBSTAT", "IBSTATUS", "DEVINFO", "NETDEV", "RDMA", "GIDS", "MLXLINK", "PERFQUERY", "FI_INFO"),
    ),
    "test_fabric_texts": ("LINKINFO", "DISCOVER", "ALONE", "LISTED", "SWITCH", "IP_TEXT"),
    "test_link_texts": ("P2P", "ROCM", "ERRORS", "NEW_ERRORS", "DCGM_STATES", "DCGM_ERRORS", "MANAGER"),
    "test_nvsmi_texts": ("REPORT", "TABLE", "CSV", "LIST", "DMON", "PMON"),
    "test_nvsmi_excerpts": ("ROW", "MIG", "ECC", "DATED", "REMAPPED"),
    "test_tool_texts": (
        *("NVBANDWIDTH", "NVBANDWIDTH_JSON", "BANDWIDTH_TEST", "SHMOO", "GPU_COPY", "NCCL", "OLD_ROW"),
        *("PERFTEST", "PERFTEST_LATENCY", "FABTESTS", "GPCNET", "DCGM", "DCGM_3", "DCGM_4", "RETYPED"),
    ),
    "test_tool_excerpts": ("DEVIATIONS", "COUNTS", "FAILED", "MATRIX"),
    "test_dcgm_texts": ("OLD_HEALTH", "NEW_HEALTH", "DISCOVERY", "VERSION_4", "CUT_JSON"),
    "host.test_ipmi": ("ELIST", "SDR", "READING"),
    "host.test_lscpu": ("TEXT", "JSON"),
    "host.test_package_lists": ("LSMOD",),
    "nvidia_smi.test_nvlink_status": ("FULL",),
    "nvidia_smi.test_nvsmi_xml": ("FULL",),
    "tools.test_dcgm_monitor": ("TABLE",),
    "tools.test_nccl_log": ("HEALTHY",),
    "topology.test_dmidecode": ("TEXT", "TABLE"),
    "topology.test_hwloc_xml": ("NODE",),
    "topology.test_lspci": ("VERBOSE", "TREE", "MACHINE"),
    "topology.test_lstopo_console": ("VERBOSE", "SHORT"),
    "topology.test_nccl_topology": ("DUMP", "TEMPLATE", "XGMI", "GRAPH"),
    "topology.test_numactl": ("TEXT",),
    "topology.test_topo_matrix": ("FULL",),
}
"""Names of texts in the other tests of the parsers."""
MORE = {
    "mlxlink-infiniband": """\
Operational Info
----------------
State : Active
Physical state : LinkUp
Speed : IB-NDR
Width : 4x
FEC : Standard_RS-FEC - (528,514)

Troubleshooting Info
Recommendation : No issue was observed

Tool Information
Firmware Version : 28.40.1000

Physical Counters and BER Info
Effective Physical BER : 15E-255
Raw Physical BER : 2E-9
Symbol Errors : N/A
Link Error Recovery Counter : 7

Operational Info
State : Disable
Speed : 100GbE
Width : 0x
Raw Physical BER : 2
Recommendation : N/A
""",
    "mlxlink-titles": """\
=== mt4129_pciconf0 ===
Operational Info
State : Active
Speed : IB-XYZ
Width : 2x
=== mlx5_1 port 1 ===
Operational Info
State : Init
Speed : IB-HDR
-E- No : such option
""",
    "port-info": """\
CA PortInfo:
# Port info: Lid 3 port 1
LinkState:.......Active
PhysLinkState:...LinkUp
Lid:....3
SMLid:...........1
LinkWidthActive:.4X
LinkSpeedActive:.14.0625 Gbps
LinkSpeedExtActive:.25.78125 Gbps
Peer PortInfo:
# Port info: Lid 9 port 7
LinkState:.......Down
CA PortInfo:
# Port info: DR path slid 1; Lid 4 port 2
LinkState:.......Down
LinkWidthActive:.1X
LinkSpeedExt2Active:.NDR
""",
    "ibv-devinfo-infiniband": """\
hca_id:\tmlx5_0
\tfw_ver:\t\t
\tnode_guid:\t1070:fd03:00a1:b2c3
\tvendor_id:\t0x02c9
\tvendor_part_id:\t4129
\tphys_port_cnt:\t2
\t\tport:\t1
\t\t\tstate:\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t4096 (5)
\t\t\tactive_mtu:\t4096 (5)
\t\t\tsm_lid:\t1
\t\t\tport_lid:\t3
\t\t\tlink_layer:\tInfiniBand
\t\t\tactive_width:\t4X (2)
\t\t\tactive_speed:\t100.0 Gbps (128)
\t\t\tGID[  0]:\tfe80:0000:0000:0000:1070:fd03:00a1:b2c3
\t\t\tGID[  1]:\t::
\t\tport:\t2
\t\t\tlink_layer:\tInfiniBand
\t\t\tGID[  1]:\tfe80::1
hca_id:\tmlx5_9
\tvendor_id:\t0x1234
\tvendor_part_id:\t7
""",
    "fi-info-links": """\
fi_info:
    fi_fabric_attr:
        prov_name: verbs
    nic:
        fi_device_attr:
            name: mlx5_0
            driver: (null)
            firmware: 28.40.1000
        fi_link_attr:
            mtu: 0
            speed: 0
            state: FI_LINK_UP
            network_type: InfiniBand
fi_info:
    fi_fabric_attr:
    nic:
        fi_device_attr:
            name: (null)
fi_info:
    fi_fabric_attr:
        fi_device_attr:
            name: eth9
""",
    "kernel-log": """\
[    0.000000] Linux version 5.15.0-91-generic (buildd@host)
[   12.345678] NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen off the bus.
[   13.000000] mlx5_core 0000:1a:00.0 ens1: Link down
[   14.000000] Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:1kB
[   15.000000] nvme nvme0: I/O 7 QID 3 timeout, aborting
""",
    "pci-values": """\
PCI_SLOT_NAME=0000:19:00.0
PCI_ID=10DE:2330
PCI_CLASS=30200
/sys/bus/pci/devices/0000:1a:00.0/current_link_width:8
/sys/bus/pci/devices/0000:1a:00.0/max_link_width:16
vendor=0xffff device=0xffff class=0xffffff
""",
}


def plain(value: object) -> object:
    """Return a value for JSON, without the fields of records that have their default."""
    match value:
        case Unknown():
            return f"unknown: {value.words}"
        case EvidenceRef():
            return f"{value.source} {value.key} {value.detail}".strip()
        case msgspec.Struct():
            defaults = {field.name: field.default for field in msgspec.structs.fields(value)}
            return {
                name: plain(part)
                for name in value.__struct_fields__
                if (part := getattr(value, name)) != defaults[name]
            }
        case tuple() | list():
            return [plain(part) for part in value]
        case dict():
            return {str(name): plain(part) for name, part in value.items()}
    return value


def functions_of(row: KindRow) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Yield the functions of a kind's parser that read a whole text."""
    module = importlib.import_module(f"probes.parsers.{row.parser.partition(':')[0]}")
    for name, function in inspect.getmembers(module, inspect.isfunction):
        is_own = function.__module__ == module.__name__ and name.startswith(("parse", "unread"))
        if is_own and list(inspect.signature(function).parameters) == ["text"]:
            yield name, function


def lines_of(text: str) -> Iterator[str]:
    for row in KINDS:
        if row.recognise(text):
            yield f"# {row.id}"
            for name, function in functions_of(row):
                result = function(text)
                values = result if isinstance(result, tuple) else (result,)
                yield from (f"{name}: {json.dumps(plain(value), ensure_ascii=False)}" for value in values)


def all_texts() -> Iterator[tuple[str, str]]:
    for module, names in TEXTS.items():
        content = vars(importlib.import_module(f"tests.unit.probes.parsers.{module}"))
        stem = module.rpartition("test_")[2]
        yield from ((f"{stem}-{name.lower()}", content[name]) for name in names)
    yield from MORE.items()


@pytest.mark.parametrize(("name", "text"), [pytest.param(*row, id=row[0]) for row in all_texts()])
def test_no_value_of_a_text_changes_unnoticed(name: str, text: str) -> None:
    lines = "".join(f"{line}\n" for line in lines_of(text))
    assert lines, "no parser recognises this text"
    file = FOLDER / f"{name}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(lines, "utf-8")
    assert file.read_text("utf-8") == lines


def test_every_file_belongs_to_a_text() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == {name for name, _ in all_texts()}
