"""hwloc's XML of formats 1 to 3."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import NOT_RECORDED
from probes.parsers.topology.hwloc_xml import (
    parse_cpu,
    parse_devices,
    parse_dmi,
    parse_gpus,
    parse_links,
    parse_nics,
    parse_numa_nodes,
    parse_unread,
    recognise,
)
from probes.parsers.topology.pci_addresses import normal_address
from tests.support.damage import damaged

NODE = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="3.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" allowed_cpuset="0x00000003" nodeset="0x00000007">
    <info name="DMIProductName" value="Box 9"/>
    <object type="Package" os_index="0" cpuset="0x00000003" nodeset="0x00000001" gp_index="3">
      <info name="CPUModel" value="Some CPU"/>
      <object type="NUMANode" os_index="0" cpuset="0x00000003" nodeset="0x00000001" local_memory="1024"/>
      <object type="Core" os_index="0"><object type="PU" os_index="0"/><object type="PU" \
os_index="1"/></object>
      <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[15-20]">
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:15:01.0" pci_type="0604 [8086:352a] \
[0000:0000] 00 00">
          <object type="PCIDev" gp_index="7" pci_busid="0000:16:00.0" pci_type="0302 [10de:1db8] \
[10de:131d] a1 00">
            <object type="OSDev" gp_index="8" name="nvml1" subtype="NVML" osdev_type="12">
              <info name="GPUModel" value="Tesla V100-SXM3-32GB"/>
              <info name="NVIDIAUUID" value="GPU-1"/>
            </object>
          </object>
          <object type="PCIDev" gp_index="9" pci_busid="0000:17:00.0" pci_type="0207 [15b3:1021] \
[0000:0000] 00 00">
            <object type="OSDev" gp_index="10" name="mlx5_0" osdev_type="48">
              <info name="NodeGUID" value="0000:0000:0000:0001"/>
              <info name="Port1State" value="4"/>
              <info name="Port2State" value="1"/>
            </object>
          </object>
        </object>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0x0000000c" nodeset="0x00000006">
      <object type="NUMANode" os_index="8" cpuset="0x0000000c" nodeset="0x00000002" local_memory="2048"/>
      <object type="NUMANode" subtype="GPUMemory" os_index="255" nodeset="0x00000004" local_memory="4096"/>
      <object type="Core" os_index="1"><object type="PU" os_index="2"/><object type="PU" \
os_index="3"/></object>
      <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[90-92]">
        <object type="PCIDev" gp_index="11" pci_busid="0000:91:00.0" pci_type="0302 [10de:1db8] [10de:131d] \
a1 00">
          <object type="OSDev" gp_index="12" name="nvml0" osdev_type="12">
            <info name="GPUModel" value="Tesla V100-SXM3-32GB"/>
          </object>
        </object>
      </object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="4">0 8 </indexes>
    <u64values length="12">10 40 40 10 </u64values>
  </distances2>
  <distances2 type="OSDev" nbobjs="2" kind="25" name="NVLinkBandwidth" indexing="gp">
    <indexes length="4">8 12 </indexes>
    <u64values length="12">0 50000 50000 0 </u64values>
  </distances2>
  <info name="Architecture" value="x86_64"/>
</topology>
"""


def test_processors_and_nodes() -> None:
    cpu = parse_cpu(NODE)
    assert (cpu.sockets, cpu.physical_cores, cpu.logical_cpus, cpu.allowed_cpus) == (2, 2, 4, 2)
    assert (cpu.model, cpu.architecture, parse_dmi(NODE).product_name) == ("Some CPU", "x86_64", "Box 9")
    nodes = parse_numa_nodes(NODE)
    assert [
        (node.index, node.cpus, node.memory_bytes, node.distances, node.is_gpu_memory) for node in nodes
    ] == [
        (0, "0-1", 1024, (10, 40), False),
        (8, "2-3", 2048, (40, 10), False),
        (255, "", 4096, NOT_RECORDED, True),
    ]


def test_devices_and_their_links() -> None:
    gpus = parse_gpus(NODE)
    assert [(gpu.index, gpu.pci_bus_id, gpu.name, gpu.numa_node) for gpu in gpus] == [
        (0, "0000:91:00.0", "Tesla V100-SXM3-32GB", None),
        (1, "0000:16:00.0", "Tesla V100-SXM3-32GB", 0),
    ]
    assert gpus[1].uuid == "GPU-1"
    assert [(nic.name, nic.port, nic.state, nic.pci_bus_id) for nic in parse_nics(NODE)] == [
        ("mlx5_0", 1, "ACTIVE", "0000:17:00.0"),
        ("mlx5_0", 2, "DOWN", "0000:17:00.0"),
    ]
    assert {
        (link.a, link.b): (link.kind, link.nvlink_count)
        for link in parse_links(NODE)
        if "GPU1" in (link.a, link.b)
    } == {
        ("GPU0", "GPU1"): ("NVLINK", 2),
        ("GPU1", "mlx5_0"): ("PIX", None),
    }
    assert [device.parent for device in parse_devices(NODE) if device.kind == "rdma"] == ["0000:15:01.0"]


def test_old_names_of_format_1() -> None:
    old = NODE.replace('type="Package"', 'type="Socket"').replace('<topology version="3.0">', "<topology>")
    assert recognise(old)
    assert parse_cpu(old).sockets == 2


def test_counts_of_a_cut_file_are_unknown() -> None:
    cut = NODE[: NODE.index('<object type="Package" os_index="1"')]
    assert parse_unread(cut)
    assert parse_cpu(cut).sockets == NOT_RECORDED
    assert [gpu.pci_bus_id for gpu in parse_gpus(cut)] == ["0000:16:00.0"]


@pytest.mark.parametrize("text", ["", '<system version="1">', "<nvidia_smi_log>"])
def test_other_texts_are_not_recognised_and_have_no_gpus(text: str) -> None:
    assert not recognise(text)
    assert parse_gpus(text) == ()


@given(st.one_of(st.text(max_size=300), damaged(NODE)))
def test_damage_raises_nothing_and_invents_nothing(text: str) -> None:
    recognise(text)
    addresses = {normal_address(printed) for printed in re.findall(r'pci_busid="([^"]*)"', text)}
    assert {gpu.pci_bus_id for gpu in parse_gpus(text)} <= addresses
    assert all(nic.name in text for nic in parse_nics(text))
    (
        parse_links(text),
        parse_numa_nodes(text),
        parse_cpu(text),
        parse_dmi(text),
        parse_unread(text),
        parse_devices(text),
    )
