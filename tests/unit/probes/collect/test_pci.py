"""Test PCI devices, NUMA nodes and accelerators from sysfs and from pasted texts."""

from __future__ import annotations

import pytest

from probes.base.record import Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.collect.processors import collect_numa
from probes.collect.topology import collect_pci
from probes.facts import NumaNode, PciDevice
from tests.support.fake_source import FakeSource

DEVICES = "/sys/bus/pci/devices"
ROOT = "/sys/devices/pci0000:15/0000:15:01.0"
GPU, NIC, AUDIO = "0000:16:00.0", "0000:17:00.0", "0000:16:00.1"


def files_of(address: str, class_code: str, vendor: str, device: str) -> dict[str, str]:
    values = {
        "class": class_code,
        "vendor": vendor,
        "device": device,
        "numa_node": "1",
        "current_link_width": "16",
    }
    values |= {
        "max_link_width": "16",
        "current_link_speed": "32.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
    }
    return {f"{DEVICES}/{address}/{name}": f"{value}\n" for name, value in values.items()}


FILES = {
    **files_of("0000:15:01.0", "0x060400", "0x8086", "0x352a"),
    **files_of(GPU, "0x030200", "0x10de", "0x2330"),
    **files_of(AUDIO, "0x040300", "0x10de", "0x2330"),
    **files_of(NIC, "0x020700", "0x15b3", "0x1021"),
    **files_of("0000:00:1f.0", "0x060100", "0x8086", "0x1b81"),
    f"{DEVICES}/{GPU}/aer_dev_correctable": "RxErr 3\nTOTAL_ERR_COR 3\n",
    "/sys/kernel/iommu_groups/7/type": "identity\n",
}
LINKS = {
    f"{DEVICES}/0000:15:01.0": ROOT,
    f"{DEVICES}/{GPU}": f"{ROOT}/{GPU}",
    f"{DEVICES}/{NIC}": f"{ROOT}/{NIC}",
    f"{DEVICES}/{GPU}/driver": "/sys/bus/pci/drivers/nvidia",
    f"{DEVICES}/{GPU}/iommu_group": "/sys/kernel/iommu_groups/7",
}


def devices_of(source: FakeSource) -> dict[str, PciDevice]:
    devices = collect_pci(source, CollectOptions())["pci_devices"]
    assert isinstance(devices, tuple)
    return {device.bus_id: device for device in devices}


def test_devices_of_interest_and_the_bridges_above_them() -> None:
    devices = devices_of(FakeSource(files=FILES, links=LINKS))
    assert {address: device.kind for address, device in devices.items()} == {
        "0000:15:01.0": "bridge",
        GPU: "gpu",
        NIC: "rdma",
    }
    gpu = devices[GPU]
    assert (gpu.device_id, gpu.parent, gpu.driver, gpu.numa_node, gpu.aer_correctable) == (
        "10de:2330",
        "0000:15:01.0",
        "nvidia",
        1,
        3,
    )
    assert (gpu.iommu_group_type, gpu.pcie.generation, gpu.is_virtual_function) == ("identity", 5, False)
    assert (devices[NIC].driver, devices["0000:15:01.0"].parent) == (None, None)


def test_a_kernel_without_pci_has_no_device() -> None:
    assert collect_pci(FakeSource(), CollectOptions()) == {
        "pci_devices": (),
        "accelerators": (),
        "contradictions": (),
        "unread": (),
    }


def test_texts_complete_the_facts_of_sysfs_and_contradictions_are_reported() -> None:
    slots = f"{GPU}  CPU1 Slot10 PCI-E 5.0 X16\n"
    listing = "16:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2331] (rev a1)\n"
    source = FakeSource(files=FILES, links=LINKS, given={"dmidecode": slots, "lspci": listing})
    result = collect_pci(source, CollectOptions())
    assert devices_of(source)[GPU].slot == "CPU1 Slot10 PCI-E 5.0 X16"
    (contradiction,) = result["contradictions"]  # type: ignore[misc]
    assert (contradiction.subject, contradiction.field) == (GPU, "device_id")


LISTING = """00:01.0 PCI bridge [0604]: Intel Corporation Root Port [8086:352a] (rev 01)
\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0
00:02.0 PCI bridge [0604]: Intel Corporation Root Port [8086:352b] (rev 01)
\tBus: primary=00, secondary=02, subordinate=02, sec-latency=0
00:03.0 PCI bridge [0604]: Intel Corporation Root Port [8086:352c] (rev ff) (prog-if ff)
\t!!! Unknown header type 7f
00:1f.0 ISA bridge [0601]: Intel Corporation LPC [8086:1b81]
01:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)
02:00.0 Serial controller [0700]: ASPEED Technology [1a03:1150]
05:00.0 Serial controller [0700]: ASPEED Technology [1a03:1150] (rev ff)
"""
WITHOUT_BUSES = "".join(line for line in LISTING.splitlines(keepends=True) if "Bus:" not in line)


@pytest.mark.parametrize(
    ("listing", "bridges"), [(LISTING, ["00:01.0"]), (WITHOUT_BUSES, ["00:01.0", "00:02.0"])]
)
def test_a_listing_keeps_gpus_the_bridges_above_them_and_lost_devices(
    listing: str, bridges: list[str]
) -> None:
    """Without bus numbers, any bridge may be above the GPU. A slot has no class, so it may hold anything."""
    given = {"lspci": listing, "dmidecode": "0000:09:00.0  CPU1 Slot10 PCI-E 5.0 X16\n"}
    devices = devices_of(FakeSource(given=given, missing=Reason.NOT_RECORDED))
    kept = [*bridges, "00:03.0", "01:00.0", "05:00.0", "09:00.0"]
    assert list(devices) == [f"0000:{address}" for address in kept]


def test_a_tree_of_buses_alone_has_links_without_names() -> None:
    folder = "/sys/class/pci_bus/0000:c3/device/0000:c3:00.0"
    files = {f"{folder}/current_link_speed": "4 GT/s", f"{folder}/current_link_width": "2"}
    (device,) = devices_of(FakeSource(files=files, missing=Reason.NOT_RECORDED)).values()
    assert (device.bus_id, device.kind, device.pcie.width) == ("0000:c3:00.0", "other", 2)


def nodes_of(source: FakeSource) -> dict[int, NumaNode]:
    nodes = collect_numa(source, CollectOptions())["numa_nodes"]
    assert isinstance(nodes, tuple)
    return {node.index: node for node in nodes}


def test_memory_of_gpus_and_cpus_that_are_off() -> None:
    nodes = "/sys/devices/system/node"
    files = {
        f"{nodes}/online": "0,8,255",
        f"{nodes}/node0/cpulist": "0-7",
        f"{nodes}/node0/distance": "10 40 80",
        f"{nodes}/node8/cpulist": "8-15",
        f"{nodes}/node255/cpulist": "",
        "/sys/devices/system/cpu/online": "0-3,8-15",
        "/proc/driver/nvidia/gpus/0004:05:00.0/numa_status": "Node:      255\nStatus:    online\n",
    }
    devices = nodes_of(FakeSource(files=files))
    assert {index: (node.cpus, node.is_gpu_memory) for index, node in devices.items()} == {
        0: ("0-3", False),
        8: ("8-15", False),
        255: ("", True),
    }
    assert devices[0].distances == (10, 40, 80)


def test_texts_that_disagree_on_nodes() -> None:
    given = {"numactl": "node 0 cpus: 0 1\nnode 0 size: 10 MB\n", "lscpu": "NUMA node0 CPU(s): 0-3\n"}
    source = FakeSource(given=given, missing=Reason.NOT_RECORDED)
    assert nodes_of(source)[0].cpus == "0-1"
    (contradiction,) = collect_numa(source, CollectOptions())["contradictions"]  # type: ignore[misc]
    assert (contradiction.subject, contradiction.field) == ("NUMA node 0", "cpus")


MI300X, GAUDI, NPU, FPGA = "0000:0c:00.0", "0000:21:00.0", "0000:00:0b.0", "0000:41:00.0"
OTHER_MAKERS = {
    **files_of(MI300X, "0x120000", "0x1002", "0x74a1"),
    **files_of(GAUDI, "0x120000", "0x1da3", "0x1020"),
    **files_of(NPU, "0x120000", "0x8086", "0x7d1d"),
    **files_of(FPGA, "0x120000", "0x10ee", "0x500c"),
    **files_of("0000:05:00.0", "0x030000", "0x1002", "0x164e"),
}


def accelerators_of(source: FakeSource) -> list[tuple[str, str]]:
    accelerators = collect_pci(source, CollectOptions())["accelerators"]
    assert isinstance(accelerators, tuple)
    return [(accelerator.name, accelerator.bus_id) for accelerator in accelerators]


def test_accelerators_of_other_makers_are_named() -> None:
    """A laptop's NPU, an FPGA and the display of a processor are no accelerators for training."""
    source = FakeSource(files=OTHER_MAKERS)
    assert accelerators_of(source) == [("AMD Instinct MI300X", MI300X), ("Intel Gaudi", GAUDI)]


@pytest.mark.parametrize(
    ("device_file", "family"),
    [
        ("davinci3", "Huawei Ascend"),
        ("neuron0", "AWS Trainium or Inferentia"),
        ("accel0", "Google TPU"),
        ("mtgpu.0", "Moore Threads GPU"),
        ("cambricon_dev0", "Cambricon MLU"),
        ("mxcd", "MetaX GPU"),
        ("mkfd", "Hygon DCU"),
    ],
)
def test_a_device_file_shows_an_accelerator(device_file: str, family: str) -> None:
    source = FakeSource(files={f"/dev/{device_file}": "", "/dev/davinci_manager": "", "/dev/null": ""})
    assert accelerators_of(source) == [(family, "")]


def test_nvidia_devices_are_no_other_accelerators() -> None:
    assert accelerators_of(FakeSource(files=FILES, links=LINKS)) == []


def test_accelerators_are_unknown_if_neither_bus_nor_device_files_were_read() -> None:
    source = FakeSource(missing=Reason.NOT_RECORDED)
    assert isinstance(collect_pci(source, CollectOptions())["accelerators"], Unknown)
