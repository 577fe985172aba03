"""Outputs of fabric tools and of `ip`, and other texts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.facts.named import state_of
from probes.parsers.fabric import fabric_maps, ip_json
from probes.parsers.host import network_files as network

LINKINFO = """CA: node1 HCA-1:
      0x946dae0300aa0b01     12    1[  ] ==( 4X       106.25 Gbps Active/  LinkUp)==>       3   17[  ] \
"leaf1" ( )
Switch: 0x946dae0300cc0001 leaf1:
           3   17[  ] ==( 4X       106.25 Gbps Active/  LinkUp)==>      12    1[  ] "node1 HCA-1" ( )
           3   18[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>      13    1[  ] "node2 HCA-1" ( Could \
be 106.25 Gbps)
           3   19[  ] ==(                Down/ Polling)==>             [  ] "" ( )
"""
DISCOVER = """# Topology file: generated on Mon Jan  1 00:00:00 2024
vendid=0x2c9
Switch	65 "S-946dae0300cc0001"		# "leaf1" enhanced port 0 lid 3 lmc 0
[17]	"H-946dae0300aa0b01"[1](946dae0300aa0b01) 		# "node1 HCA-1" lid 12 4xNDR
caguid=0x946dae0300aa0b01
Ca	1 "H-946dae0300aa0b01"		# "node1 HCA-1"
[1](946dae0300aa0b01) 	"S-946dae0300cc0001"[17]		# lid 12 lmc 0 "leaf1" lid 3 4xNDR
"""
ALONE = 'Ca\t1 "H-946dae0300aa0b01"\t\t# "node1 HCA-1"\n'
LISTED = """CA    12  1 0x946dae0300aa0b01 4x NDR - SW     3 17 0x946dae0300cc0001 ( 'node1 HCA-1' - 'leaf1' )
SW     3 20 0x946dae0300cc0001 4x ???                                    'leaf1'
SW     3 21 0x946dae0300cc0001 4x SDR                                    'leaf1'
"""
SWITCH = """=================================================
Quantum-2 leaf1
=================================================
part number        | MQM9790-NS2F
firmware version   | 31.2012.1068
-------------------------------------------------
PSU0 status        | OK
     DC power      | OK
     fan status    | OK
PSU1 status        | ERROR
-------------------------------------------------
temperature (C)    | 61
-------------------------------------------------
fan status         | OK
fan#1 (rpm)        | 6125
fan#2 (rpm)        |
"""
TEXTS = {
    fabric_maps.recognise_iblinkinfo: LINKINFO,
    fabric_maps.recognise_ibnetdiscover: DISCOVER,
    fabric_maps.recognise_ibswinfo: SWITCH,
}
IP_TEXT = """2: eth0@if5: <BROADCAST,MULTICAST,SLAVE,UP,LOWER_UP> mtu 9000 qdisc mq master bond0 state UP \
group default qlen 1000
3: bond0: <BROADCAST,MULTICAST,MASTER,UP,LOWER_UP> mtu 9000 qdisc noqueue state UP group default
    inet 192.0.2.7/24 brd 192.0.2.255 scope global bond0
"""
COLLECTION = {
    "interfaces": [
        {
            "ifname": "eth0",
            "flags": ["SLAVE", "UP"],
            "mtu": 1500,
            "master": "bond0",
            "operstate": "UP",
            "addr_info": [],
        },
        {
            "ifname": "bond0",
            "flags": ["MASTER"],
            "mtu": 9000,
            "operstate": "UP",
            "addr_info": [{"local": "192.0.2.7", "prefixlen": 24}],
        },
    ],
    "link_speed": {"eth0": "25000", "eth1": ""},
    "phys_macaddr": {"eth0": "02:00:00:00:00:02", "eth1": "02:00:00:00:00:01"},
    "intf_ifcfg": {
        "eth0": {"MTU": "9000", "MASTER": "bond0", "HWADDR": "02:00:00:00:00:01"},
        "eth1": {"HWADDR": "02:00:00:00:00:02"},
    },
    "lldp_status": {
        "lldp": {"interface": {"eth0": {"chassis": {"leaf1": {}}, "port": {"id": {"value": "Ethernet3"}}}}}
    },
}


@pytest.mark.parametrize(("recognise", "text"), TEXTS.items())
def test_each_text_is_recognised_only_by_its_own_parser(recognise: Callable[[str], bool], text: str) -> None:
    assert [other for other in (*TEXTS, ip_json.recognise) if other(text)] == [recognise]


def test_iblinkinfo() -> None:
    host, first, slow = fabric_maps.parse_iblinkinfo(LINKINFO)
    assert (host.node, host.node_kind, host.peer, host.peer_port, host.speed) == (
        "node1 HCA-1",
        "host",
        "leaf1",
        17,
        "NDR",
    )
    assert (first.node_kind, first.port, first.guid, first.could_be) == (
        "switch",
        17,
        "946d:ae03:00cc:0001",
        None,
    )
    assert (slow.speed, slow.could_be) == ("HDR", "Could be 106.25 Gbps")


def test_ibnetdiscover_in_full() -> None:
    switch, host = fabric_maps.parse_ibnetdiscover(DISCOVER)
    assert (switch.node, switch.port, switch.peer, switch.width, switch.speed) == (
        "leaf1",
        17,
        "node1 HCA-1",
        4,
        "NDR",
    )
    assert (host.node_kind, host.peer, host.peer_port) == ("host", "leaf1", 17)


def test_a_host_without_links() -> None:
    (host,) = fabric_maps.parse_ibnetdiscover(ALONE)
    assert (host.node, host.node_kind, host.peer) == ("node1 HCA-1", "host", None)


def test_a_list_of_ports() -> None:
    host, odd, free = fabric_maps.parse_ibnetdiscover(LISTED)
    assert (host.peer, host.peer_port) == ("leaf1", 17)
    assert (odd.node, odd.peer, isinstance(odd.speed, Unknown)) == ("leaf1", None, True)
    assert (free.peer, free.speed) == (None, "SDR")


def test_a_switch() -> None:
    (switch,) = fabric_maps.parse_switches(SWITCH)
    assert (switch.name, switch.part_number, switch.temperature_c) == ("Quantum-2 leaf1", "MQM9790-NS2F", 61)
    assert isinstance(switch.power_supplies, tuple)
    assert isinstance(switch.fans, tuple)
    assert (state_of(switch.power_supplies, "PSU0 fan"), state_of(switch.power_supplies, "PSU1")) == (
        "OK",
        "ERROR",
    )
    assert [(row.name, row.value) for row in switch.fans] == [("all", "OK"), ("fan1", "6125 rpm")]


def test_ip_as_text() -> None:
    assert ip_json.recognise(IP_TEXT)
    interfaces = ip_json.parse_interfaces(IP_TEXT)
    assert isinstance(interfaces, tuple)
    eth0, bond0 = interfaces
    assert (eth0.name, eth0.bond, eth0.mtu, eth0.up) == ("eth0", "bond0", 9000, True)
    assert (bond0.bond_members, bond0.addresses) == (("eth0",), ("192.0.2.7/24",))


def test_a_collection() -> None:
    text = json.dumps(COLLECTION)
    assert ip_json.recognise(text)
    interfaces = ip_json.parse_interfaces(text)
    assert isinstance(interfaces, tuple)
    eth0, bond0, eth1 = interfaces
    assert (eth0.speed_gbps, eth0.mtu, eth0.mtu_configured, eth0.bond_configured) == (
        25.0,
        1500,
        9000,
        "bond0",
    )
    assert (eth0.neighbour, eth0.configured_name) == ("leaf1 Ethernet3", "eth1")
    assert (bond0.bond_members, bond0.addresses) == (("eth0",), ("192.0.2.7/24",))
    assert isinstance(eth1.up, Unknown)
    assert eth1.up.reason is Reason.ERROR


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", "[" * 5000, '[{"ifname": 3}]', '{"a": [{"ifname": "x", "mtu": "9000", "flags": 7}]}', ""],
)
def test_odd_json_is_no_interface_or_one_without_values(text: str) -> None:
    interfaces = ip_json.parse_interfaces(text)
    assert isinstance(interfaces, Unknown) or [
        (interface.name, isinstance(interface.mtu, Unknown)) for interface in interfaces
    ] == [("x", True)]


def test_members_of_a_bond_by_procfs() -> None:
    text = (
        "MII Status: up\n\nSlave Interface: eth0\nMII Status: up\n\nSlave Interface: eth1\nMII Status: down\n"
    )
    assert network.parse_bonding(text) == {"eth0": True, "eth1": False}


def test_addresses_of_a_name() -> None:
    hosts = "127.0.0.1 localhost\n127.0.1.1\tnode1.example node1 # by the installer\n192.0.2.1 node2\n"
    assert network.parse_hosts(hosts, "NODE1") == ("127.0.1.1",)
    assert network.parse_hosts(hosts, "installer") == ()
    assert network.parse_ahosts("192.0.2.1 STREAM node1\n192.0.2.1 DGRAM\n") == ("192.0.2.1",)


@given(st.text())
def test_any_text_is_read_without_an_exception(text: str) -> None:
    for recognise in (*TEXTS, ip_json.recognise):
        assert recognise(text) in (True, False)
    assert isinstance(fabric_maps.parse_iblinkinfo(text), tuple)
    assert isinstance(fabric_maps.parse_ibnetdiscover(text), tuple)
    assert isinstance(fabric_maps.parse_switches(text), tuple)
    assert isinstance(ip_json.parse_interfaces(text), tuple | Unknown)


@given(st.sampled_from((LINKINFO, DISCOVER, LISTED, SWITCH, IP_TEXT)), st.data())
def test_a_cut_text_invents_no_node(text: str, data: st.DataObject) -> None:
    lines = text.splitlines(keepends=True)
    start = data.draw(st.integers(0, len(lines)))
    end = data.draw(st.integers(start, len(lines)))
    cut = "".join(lines[:start] + lines[end:])
    for parse in (fabric_maps.parse_iblinkinfo, fabric_maps.parse_ibnetdiscover):
        assert {(port.node, port.port) for port in parse(cut) if port.peer} <= {
            (n, p) for n in _nodes(text) for p in _ports(text)
        }


def _nodes(text: str) -> set[str]:
    return {
        port.node
        for parse in (fabric_maps.parse_iblinkinfo, fabric_maps.parse_ibnetdiscover)
        for port in parse(text)
    }


def _ports(text: str) -> set[int]:
    return {
        port.port
        for parse in (fabric_maps.parse_iblinkinfo, fabric_maps.parse_ibnetdiscover)
        for port in parse(text)
    }
