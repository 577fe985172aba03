"""Test that each kind of text is recognised by its own signs, and not by half of them.

Every parser decides alone, so that a text is also given to the recognisers of all other kinds.
"""

from __future__ import annotations

import json

import pytest

from probes.catalogue.text_kinds import KINDS

GID = "fe80:0000:0000:0000:0000:0000:0000:0001"


def kinds_of(text: str) -> set[str]:
    return {row.id for row in KINDS if row.recognise(text)}


SAMPLES = [
    ("nvidia-smi-xml", '<?xml version="1.0" ?>\n<nvidia_smi_log>\n'),
    ("nvidia-smi-xml", '<gpu id="00000000:19:00.0">\n'),
    ("nvidia-smi-text", "==============NVSMI LOG==============\n"),
    ("nvidia-smi-text", "GPU 00000000:19:00.0\n    Product Name : H100\n"),
    ("nvidia-smi-text", "    Remapped Rows\n        Correctable Error : 0\n"),
    ("nvidia-smi-table", "| NVIDIA-SMI 570.1   Driver Version: 570.1   CUDA Version: 12.8 |\n"),
    ("nvidia-smi-table", "| GPU  Name        Persistence-M | Bus-Id        Disp.A |\n"),
    ("nvidia-smi-table", "|   0  NVIDIA H100          On  | 00000000:19:00.0 Off |\n"),
    ("nvidia-smi-table", "| MIG devices:                                  |\n"),
    ("nvidia-smi-csv", "index, name, memory.total [MiB]\n0, NVIDIA H100, 81559 MiB\n"),
    ("nvidia-smi-list", "GPU 0: NVIDIA H100 (UUID: GPU-1234)\n"),
    ("nvidia-smi-monitor", "# gpu   pwr  gtemp  mtemp\n# Idx     W      C      C\n"),
    ("nvidia-smi-error", "Unable to determine the device handle for GPU 0000:19:00.0: GPU is lost\n"),
    ("nvidia-smi-error", "WARNING: infoROM is corrupted at gpu 0000:19:00.0\n"),
    ("nvidia-smi-error", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"),
    ("topology", "ERROR: Option -m is missing its value\n"),
    ("topology", "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n"),
    ("rocm-topology", "========= Link Type between two GPUs =========\n"),
    ("rocm-topology", "GPU[0]\t\t: (Topology) Numa Node: 0\n"),
    ("nvlink", "GPU 0: NVIDIA H100 (UUID: GPU-1234)\n\t Link 0: 26.562 GB/s\n"),
    ("nvlink", "\t Link 0, P2P is supported: true\n"),
    ("nvlink-errors", "\t Link 0: Replay Errors: 0\n"),
    ("dcgm-nvlink", "| NvLink Link Status |\n"),
    ("dcgm-nvlink", "gpuId 0:\n    U U U D\n"),
    ("dcgm-nvlink", "| -> CRC FLIT Error | 0 |\n"),
    ("dcgm-diagnostic", "Successfully ran diagnostic for group.\n"),
    ("dcgm-diagnostic", "| Diagnostic       | Result                 |\n"),
    ("dcgm-diagnostic", "memory  Fail  cuMemGetInfo failed\npcie  Pass\n"),
    ("dcgm-health", "| Health Monitor Report |\n| Overall Health | Healthy |\n"),
    ("dcgm-discovery", "1 GPU found.\n| GPU ID | Device Information |\n"),
    ("dcgm-monitor", "#Entity   GPUTL  MCUTL\nGPU 0     1      2\n"),
    ("fabric-manager-log", "[May 01 2024 10:00:00] [INFO] [tid 1] Fabric Manager version 570\n"),
    ("nvbandwidth", "nvbandwidth Version: v0.7\n"),
    ("nvbandwidth", json.dumps({"nvbandwidth": {"testcases": []}})),
    ("nvbandwidth", "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"),
    ("cuda-bandwidth", "[CUDA Bandwidth Test] - Starting...\n"),
    ("cuda-bandwidth", "cpu_to_gpu0_by_dma_under_numa0 26.1\n"),
    ("nccl-tests", "# Collective test starting: all_reduce_perf\n"),
    ("nccl-tests", "# Out of bounds values : 0 OK\n"),
    (
        "perftest",
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n",
    ),
    ("perftest", " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n"),
    ("perftest", "                    RDMA_Write BW Test\n"),
    ("perftest", "allocated GPU buffer address at 00007f\n"),
    ("perftest", "Failed status 12: wr_id 0\n"),
    ("fabtests", "bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec\n"),
    ("gpcnet", "Network Tests v1.3\n"),
    ("gpcnet", "ERROR: this application must be run on at least 2 nodes\n"),
    ("nccl-graph", '<graphs version="1">\n'),
    ("hwloc", '<topology version="2.0">\n'),
    ("lstopo", "Machine (252GB total)\n  Package L#0\n"),
    ("lscpu", "NUMA node(s):          2\n"),
    ("lscpu", '{"lscpu": []}'),
    ("numactl", "node 0 size: 1000 MB\n"),
    ("numactl", "10 21\n21 10\n"),
    ("lspci", "19:00.0 3D controller: NVIDIA Corporation GH100 [H100] (rev a1)\n"),
    ("lspci", "\t\tLnkSta:\tSpeed 32GT/s, Width x16\n"),
    ("lspci", '19:00.0 "3D controller" "NVIDIA Corporation" "GH100" -ra1\n'),
    ("pci-values", "PCI_SLOT_NAME=0000:19:00.0\n"),
    ("pci-values", "current_link_width=16\n"),
    ("dmidecode", "Handle 0x0001, DMI type 9, 24 bytes\n"),
    ("dmidecode", "0000:19:00.0  Slot 1 PCIe x16\n"),
    ("ipmi", "Instantaneous power reading:   400 Watts\n"),
    ("ipmi", "Fan1 | 5000 RPM | ok\nFan2 | 5000 RPM | ok\nFan3 | 5000 RPM | ok\n"),
    ("ibstat", "CA 'mlx5_0'\n\tCA type: MT4129\n"),
    ("ibstatus", "Infiniband device 'mlx5_0' port 1 status:\n"),
    ("ibv-devinfo", "hca_id:\tmlx5_0\n"),
    ("ibdev2netdev", "mlx5_0 port 1 ==> ib0 (Up)\n"),
    ("rdma-link", "link mlx5_0/1 state ACTIVE physical_state LINK_UP\n"),
    ("rdma-link", "1/1: mlx5_0/1: subnet_prefix fe80:0000 lid 3\n"),
    ("show-gids", f"mlx5_0\t1\t0\t{GID}\t\t\tv1\tib0\n"),
    ("mlxlink", "Operational Info\n----------------\nState : Active\n"),
    ("perfquery", "# Port extended counters: Lid 3 port 1 (CapMask: 0x5300)\n"),
    ("port-info", "# Port info: Lid 3 port 1\n"),
    ("ibnetdiscover", 'Switch\t41 "S-b8599f0300a1"\t\t# "leaf1" enhanced port 0\n'),
    ("ibnetdiscover", "CA    5  1 0x1070fd0300a1 4x NDR 'node1 mlx5_0'\n"),
    ("guid-list", "hostname: node1\n1070fd0300a1b2c3\nhostname: node2\n1070fd0300a1b2c4\n"),
    ("fi-info", "fi_info:\n    fi_domain_attr:\n"),
    ("fi-info", "fi_info:\n    fi_fabric_attr:\n"),
    ("interfaces", '[{"ifname": "eth0", "mtu": 1500}]'),
    ("interfaces", "2: eth0: <BROADCAST,UP> mtu 1500 qdisc mq state UP\n"),
    ("kernel-log", "[   12.345678] NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen off the bus.\n"),
    ("nccl-log", "node:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n"),
    ("lsmod", "Module                  Size  Used by\nnvidia              56000000  0\n"),
    ("driver-version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.1\n"),
]


@pytest.mark.parametrize(("kind", "text"), SAMPLES)
def test_a_text_is_of_one_kind(kind: str, text: str) -> None:
    assert kinds_of(text) == {kind}
    # Other lines around it change nothing.
    if kind not in ("numactl", "dmidecode", "guid-list", "kernel-log") and text[0] not in "[{":
        assert kind in kinds_of(f"$ a command\n{text}done\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "hello world\n",
        "fi_info: the tool of libfabric\n",
        "fi_domain_attr:\nfi_fabric_attr:\n",
        "CA 'mlx5_0'\n",
        "the state of 'ib0' port 1\n",
        "a ==> b\n",
        "' port 1 status\n",
        "# Port counters: none\n",
        "ounters: 3\n",
        "Port info: none\n",
        "# Port info: Lid 3\n",
        "hca_id:\n",
        "Operational Info of the port\n",
        "state ACTIVE of link mlx5_0\n",
        "link mlx5_0/1 type x\n",
        "part number 7\n",
        "a | b\n",
        '"S-1" is a switch\n',
        "Switch of rack 7\n",
        "hostname: node1\n",
        "1070fd0300a1b2c3\n",
        '[{"name": "eth0"}]',
        '{"ifname": 7}',
        "mtu 1500\n",
        "2: eth0: UP\n",
        "Health Monitor Report\n",
        "| Overall Health | Healthy |\n",
        "2 GPUs found.\n",
        "GPU ID: 0\n",
        "Entity\n",
        "memory  Fail  cuMemGetInfo failed\n",
        "memcpy of nothing\n",
        "x(row) -> y(column)\n",
        "GPU usec/xfer\n",
        "Tests v1\n",
        "copied_by_hand 3\n",
        "#bytes #iterations\n",
        "A Test\n",
        "Fan1 | 5000 RPM | ok\nFan2 | 5000 RPM | ok\n",
        "10 21\n22 11\n",
        "10 21\n21 10 21\n",
        "10 9\n9 10\n",
        "10 256\n256 10\n",
        "10\n",
        "node 0\n",
        "the current_link_width\n",
        "0000:19:00.0  Slot 1\n",
        "nvidia is loaded\n",
        "snd 1 2\n",
        "The NVRM version: 570\n",
        "Machine\n",
    ],
)
def test_half_of_the_signs_are_not_enough(text: str) -> None:
    assert kinds_of(text) == set()


def test_every_kind_but_the_longest_has_a_sample() -> None:
    others = {"peer-access", "nccl-topology", "iblinkinfo", "ibswinfo"}
    assert {kind for kind, _ in SAMPLES} == {row.id for row in KINDS} - others


def test_the_largest_distance_of_the_firmware_is_255() -> None:
    assert kinds_of("10 255\n255 10\n") == {"numactl"}
