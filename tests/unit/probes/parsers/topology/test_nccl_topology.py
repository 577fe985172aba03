"""NCCL's topology and graph files."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.parsers.topology import nccl_graph
from probes.parsers.topology.nccl_topology import (
    parse_devices,
    parse_gpus,
    parse_interfaces,
    parse_links,
    parse_nics,
    parse_numa_nodes,
    parse_unread,
    recognise,
)
from probes.parsers.topology.pci_addresses import normal_address
from tests.support.damage import damaged

DUMP = """\
<system version="1">
  <cpu numaid="0" affinity="00000000,0000000f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:15:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe" \
link_width="16">
      <pci busid="0000:19:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s \
PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:f0:00.0" count="9" tclass="0x068000"/>
          <nvlink target="0000:f1:00.0" count="9" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s \
PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x12" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="0000000f,00000000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:99:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="16.0 GT/s PCIe" \
link_width="8">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:f0:00.0" count="9" tclass="0x068000"/>
        <nvlink target="0000:f1:00.0" count="8" tclass="0x068000"/>
      </gpu>
    </pci>
    <nic>
      <net name="eth0" dev="1" speed="10000" port="0" guid="0x0" maxconn="65536" gdr="0"/>
    </nic>
  </cpu>
</system>
"""

TEMPLATE = """\
<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0002:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="" link_width="0"/>
    </pci>
  </cpu>
</system>
"""

XGMI = """\
<system version="2"><cpu numaid="0"><pci busid="0000:0c:00.0" class="0x120000" link_speed="32 GT/s" \
link_width="16">
<gpu dev="0" sm="304" gcn="gfx942" rank="0"><xgmi target="0000:15:00.0" count="1" \
tclass="0x120000"/></gpu></pci>
<pci busid="0000:15:00.0" class="0x120000" link_speed="32 GT/s" link_width="16">
<gpu dev="1" sm="304" gcn="gfx942" rank="1"><xgmi target="0000:0c:00.0" count="1" \
tclass="0x120000"/></gpu></pci></cpu></system>
"""


def test_a_dump_names_gpus_ports_and_paths() -> None:
    first, second = parse_gpus(DUMP)
    assert (first.index, first.pci_bus_id, first.name, first.compute_capability) == (
        0,
        "0000:19:00.0",
        "NVIDIA H100 80GB HBM3",
        "9.0",
    )
    assert (second.numa_node, second.pcie.generation_max, second.pcie.width_max) == (1, 4, 8)
    assert second.pcie.generation == NOT_RECORDED
    assert not isinstance(second.nvlinks, Unknown)
    assert Counter(link.remote for link in second.nvlinks) == {"switch": 17}
    (nic,) = parse_nics(DUMP)
    assert (nic.name, nic.state, nic.rate_gbps, nic.device_type, nic.numa_node) == (
        "mlx5_0",
        "ACTIVE",
        400.0,
        "MT4129",
        0,
    )
    assert {(link.a, link.b): (link.kind, link.nvlink_count) for link in parse_links(DUMP)} == {
        ("GPU0", "GPU1"): ("NVLINK", 17),
        ("GPU0", "mlx5_0"): ("PIX", None),
        ("GPU1", "mlx5_0"): ("SYS", None),
    }
    assert [(node.index, node.cpus) for node in parse_numa_nodes(DUMP)] == [(0, "0-3"), (1, "32-35")]
    assert [(each.name, each.speed_gbps) for each in parse_interfaces(DUMP)] == [("eth0", 10.0)]
    assert parse_unread(DUMP) == ()


def test_a_template_has_places_without_names_and_numbers() -> None:
    assert {(gpu.index, gpu.pci_bus_id) for gpu in parse_gpus(TEMPLATE)} == {
        (-1, "0001:00:00.0"),
        (-1, "0002:00:00.0"),
    }
    (nic,) = parse_nics(TEMPLATE)
    assert (nic.name, nic.link_layer, nic.state) == ("", "InfiniBand", NOT_RECORDED)
    assert isinstance(nic.pcie.width_max, Unknown)
    assert nic.pcie.width_max.reason is Reason.NOT_SUPPORTED
    assert ("GPU0", "0101:00:00.0", "PIX") in [(link.a, link.b, link.kind) for link in parse_links(TEMPLATE)]


def test_xgmi_counts_as_links_between_gpus() -> None:
    assert [gpu.name for gpu in parse_gpus(XGMI)] == ["AMD gfx942", "AMD gfx942"]
    assert [(link.kind, link.nvlink_count) for link in parse_links(XGMI)] == [("NVLINK", 1)]


def test_the_complete_parts_of_a_cut_file_are_read() -> None:
    cut = DUMP[: DUMP.index('<cpu numaid="1"') + 30]
    assert [gpu.index for gpu in parse_gpus(cut)] == [0]
    assert parse_unread(cut)[0].line == 17
    middle = DUMP[DUMP.index('<pci busid="0000:99') :]
    assert recognise(middle)
    assert [gpu.index for gpu in parse_gpus(middle)] == [1]


def test_entities_are_never_defined() -> None:
    bomb = '<!DOCTYPE s [<!ENTITY a "aaaaaaaa">]>\n' + DUMP.replace('name="mlx5_0"', 'name="&a;"')
    assert {nic.name for nic in parse_nics(bomb)} == {""}
    assert parse_unread(bomb)


def test_depth_has_a_limit() -> None:
    deep = '<system version="1"><cpu numaid="0">' + '<pci busid="0000:01:00.0" class="0x060400">' * 100_000
    assert parse_unread(deep)[0].why == "elements nested too deep"
    assert len(parse_devices(deep)) < 300


GRAPH = (
    '<graphs version="1"><graph id="0" pattern="4"><channel><gpu dev="1"/><gpu '
    'dev="0"/></channel></graph></graphs>'
)


def test_a_graph_contains_the_gpus() -> None:
    assert nccl_graph.recognise(GRAPH)
    assert not recognise(GRAPH)
    assert not nccl_graph.recognise(DUMP)
    assert [gpu.index for gpu in nccl_graph.parse_gpus(GRAPH)] == [0, 1]
    assert nccl_graph.parse_unread(GRAPH[:-20])


@pytest.mark.parametrize(
    "text", ["", '<topology version="2.0">', "<nvidia_smi_log>", "NCCL INFO === System : maxBw 24"]
)
def test_other_texts_are_not_recognised_and_have_no_gpus(text: str) -> None:
    assert not recognise(text)
    assert parse_gpus(text) == ()


def test_devices_of_a_file_without_its_beginning_are_read_with_unknown_distances() -> None:
    part = (
        '      <pci busid="0000:b8:00.0" class="0x030200">\n        <gpu dev="5" sm="90" rank="5"/>\n'
        "      </pci>\n"
        '    </pci>\n    <pci busid="0000:d7:00.0" class="0x060400" link_width="16">\n'
        '      <pci busid="0000:da:00.0" class="0x020700" link_width="16">\n'
        '        <nic><net name="mlx5_5" dev="5" speed="400000" port="1"/></nic>\n      </pci>\n    </pci>\n'
        "  </cpu>\n</system>\n"
    )
    assert [gpu.pci_bus_id for gpu in parse_gpus(part)] == ["0000:b8:00.0"]
    assert [nic.name for nic in parse_nics(part)] == ["mlx5_5"]
    (link,) = parse_links(part)
    assert isinstance(link.kind, Unknown)
    assert parse_unread(part) == ()


@given(st.one_of(st.text(max_size=300), damaged(DUMP), damaged(TEMPLATE), damaged(GRAPH)))
def test_damage_raises_nothing_and_invents_nothing(text: str) -> None:
    recognise(text)
    written = {normal_address(address) for address in re.findall(r'busid="([^"]*)"', text)}
    assert {gpu.pci_bus_id for gpu in parse_gpus(text)} <= written
    assert all(nic.name in text for nic in parse_nics(text))
    parse_links(text), parse_numa_nodes(text), parse_interfaces(text), parse_unread(text)
    nccl_graph.recognise(text)
    assert all(
        f'dev="{gpu.index}"' in text or f'dev="0{gpu.index}' in text
        for gpu in nccl_graph.parse_gpus(text)
        if gpu.index < 10
    )
