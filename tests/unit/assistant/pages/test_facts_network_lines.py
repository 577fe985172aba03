"""Test the overview lines on NICs, interfaces and the fabric; each row changes one property."""

from __future__ import annotations

from typing import Any

import pytest

from assistant.pages.machine import facts_network
from probes.base.record import NOT_RECORDED
from probes.facts import (
    FabricPort,
    FabricSwitch,
    Interface,
    counts,
    states,
)
from tests.support.fact_lines import lines_of, texts_of
from tests.support.machines import h100, h100_node, ndr_port, with_gpus, with_nics


def test_a_long_list_of_cpus_is_short_unless_asked_for():
    every_second = ",".join(map(str, range(1, 64, 2)))
    odd_steps = ",".join(map(str, range(0, 96, 3)))
    for cpus, shown in (
        (every_second, "1-63 (odd ones)"),
        (every_second.replace("1,", "0,2,", 1), f"{every_second.replace('1,', '0,2,', 1)[:47]}…"),
        (",".join(map(str, range(0, 64, 2))), "0-62 (even ones)"),
        (odd_steps, f"{odd_steps[:47]}…"),
        ("0-55,112-167", "0-55,112-167"),
        ("1" * 48, "1" * 48),
    ):
        facts = with_gpus(h100_node(), cpu_affinity=cpus)
        first = texts_of(facts_network, "Affinity", facts)[0]
        assert first.startswith(f"NUMA node 0, CPUs {shown}: GPU0")
        whole = texts_of(facts_network, "Affinity", facts, verbose=True)[0]
        assert whole.startswith(f"NUMA node 0, CPUs {cpus}: GPU0")


NIC = "mlx5_0: rail, InfiniBand, 400 Gb/s, ACTIVE, ConnectX-7, firmware 28.39.1002"


@pytest.mark.parametrize(
    ("changes", "line", "tone"),
    [
        ({}, NIC, ""),
        ({"state": "DOWN", "physical_state": "Disabled"}, NIC.replace("ACTIVE", "DOWN"), "bad"),
        ({"state": "DOWN"}, NIC.replace("ACTIVE", "DOWN, LinkUp"), "bad"),
        ({"physical_state": "Polling"}, NIC.replace("ACTIVE", "ACTIVE, Polling"), ""),
        ({"netdev_up": False}, NIC.replace("ACTIVE", "ACTIVE, interface down"), ""),
        ({"is_virtual_function": True}, f"{NIC}, virtual function", ""),
        ({"advice": "a" * 60}, f"{NIC}, {'a' * 60}", ""),
        ({"advice": "a" * 61}, f"{NIC}, {'a' * 59}…", ""),
        ({"state": NOT_RECORDED}, NIC.replace(" ACTIVE,", ""), ""),
        ({"device_type": "odd", "board_id": NOT_RECORDED}, NIC.replace("ConnectX-7", "odd"), ""),
    ],
)
def test_a_port_is_described_with_what_is_unusual(changes, line, tone):
    facts = h100_node(gpus=(h100(0),), nics=(ndr_port(0, **changes),))
    assert lines_of(facts_network, "NICs", facts) == [(line, tone)]


def test_counters_are_shown_above_their_limit_and_with_verbose_above_zero():
    nics = tuple(
        ndr_port(n, counters=counts({"link_downed": value, "unknown_counter": 99}), bit_error_rate=0.0)
        for n, value in enumerate((0, 1, 100000))
    )
    facts = h100_node(nics=nics)
    assert [text for text in texts_of(facts_network, "NICs", facts) if "link_downed" in text] == [
        "mlx5_2: link_downed 100000"
    ]
    assert [text for text in texts_of(facts_network, "NICs", facts, verbose=True) if "rate 0" in text] == [
        "mlx5_0: bit error rate 0",
        "mlx5_1: link_downed 1, bit error rate 0",
        "mlx5_2: link_downed 100000, bit error rate 0",
    ]


@pytest.mark.parametrize(("number", "extra"), [(4, "m3: "), (5, "and 2 more")])
def test_counters_of_three_ports_are_shown(number, extra):
    names = "abcdefg"[:number]
    nics = tuple(
        ndr_port(n, name=f"{name}{n}", counters=counts({"link_downed": 100000 + n}))
        for n, name in enumerate(names)
    )
    lines = texts_of(facts_network, "NICs", h100_node(nics=nics))
    assert len([line for line in lines if "link_downed" in line or " more" in line]) == 4
    assert (extra in lines) is (number == 5)


@pytest.mark.parametrize(("number", "end"), [(7, "g"), (8, "and 2 more")])
def test_of_many_unlike_names_of_ports_six_are_shown(number, end):
    nics = tuple(ndr_port(0, name=name) for name in "abcdefgh"[:number])
    line = next(
        text for text in texts_of(facts_network, "NICs", h100_node(nics=nics)) if "InfiniBand" in text
    )
    assert line.partition(":")[0].endswith(end)
    whole = texts_of(facts_network, "NICs", h100_node(nics=nics), verbose=True)[0]
    assert whole.partition(":")[0].endswith("abcdefgh"[number - 1])


def port(node: str, kind: str = "host", **fields: Any) -> FabricPort:
    return FabricPort(**{"node": node, "node_kind": kind, "port": 1, "width": 4, "speed": "NDR", **fields})


def test_the_fabric_is_counted_by_nodes_and_speeds():
    ports = (
        port("s", "switch", guid="g1"),
        port("s", "switch", guid="g2"),
        port("h"),
        port("h"),
        port("i", speed="HDR", could_be="4X NDR"),
        port("j", width=NOT_RECORDED),
    )
    assert texts_of(facts_network, "IB fabric", h100_node(fabric_ports=ports)) == [
        "2 switches, 3 adapters, 6 cabled ports, 4 at 4X NDR, 1 at 4X HDR; 1 below what both ends support"
    ]
    assert texts_of(facts_network, "IB fabric", h100_node(fabric_ports=ports[:1])) == [
        "1 switch, 0 adapters, 1 cabled port, 1 at 4X NDR"
    ]


def test_a_switch_names_its_bad_parts():
    switch = FabricSwitch(
        name="leaf1",
        part_number="QM9700",
        temperature_c=40,
        power_supplies=states({"PSU1": "OK", "PSU2": "ok", "PSU3": "failed"}),
        fans=states({"FAN1": "6000 rpm", "FAN2": "stopped"}),
    )
    assert texts_of(facts_network, "IB fabric", h100_node(fabric_switches=(switch,))) == [
        "switch leaf1, QM9700, 40 °C, PSU3 failed, FAN2 stopped"
    ]


def interface(name: str, **fields: Any) -> Interface:
    base = {
        "up": True, "is_virtual": False, "is_default_route": False, "mtu": 1500, "addresses": (),
        "speed_gbps": 25.0, "bond_members": None,
    }  # fmt: skip
    return Interface(name=name, **{**base, **fields})


@pytest.mark.parametrize(
    ("interfaces", "lines"),
    [
        ([], ["none"]),
        ([interface("e0")], ["e0, 25 Gb/s"]),
        ([interface("e0"), interface("e1")], ["e0-1, 25 Gb/s"]),
        ([interface("e0", mtu=9000, is_default_route=True)], ["e0, 25 Gb/s, default route, MTU 9000"]),
        ([interface("e0", up=NOT_RECORDED)], ["e0, 25 Gb/s, state not reported"]),
        ([interface("e0", up=False)], ["down: e0"]),
        ([interface(f"e{n}", up=False) for n in range(7)], ["down: e0, e1, e2, e3, e4, e5, e6"]),
        (
            [interface(f"e{n}", up=False) for n in range(8)],
            ["down: e0, e1, e2, e3, e4, e5, and 2 more"],
        ),
        ([interface("e0", up=False, is_virtual=True)], ["1 virtual or part of a bond"]),
        ([interface("e0", is_virtual=True)], ["1 virtual or part of a bond"]),
        ([interface("e0", is_virtual=NOT_RECORDED)], ["e0, 25 Gb/s"]),
        (
            [interface("b", up=False, bond_members=("e0", "e1")), interface("e0"), interface("e1", up=False)],
            ["b, 25 Gb/s, bond of e0 e1", "down: e1; 1 virtual or part of a bond"],
        ),
        ([interface("e0", addresses=tuple("abcd"))], ["e0, 25 Gb/s, a b c d"]),
        ([interface("e0", addresses=tuple("abcde"))], ["e0, 25 Gb/s, a b c and 2 more"]),
    ],
)
def test_interfaces_that_carry_traffic_are_listed_and_the_others_are_counted(interfaces, lines):
    assert texts_of(facts_network, "Network", h100_node(interfaces=tuple(interfaces))) == lines


@pytest.mark.parametrize(("number", "more"), [(8, []), (9, ["and 1 more"])])
def test_eight_interfaces_are_shown(number, more):
    interfaces = tuple(interface(f"e{n}", mtu=9000 + n) for n in range(number))
    facts = h100_node(interfaces=interfaces)
    assert texts_of(facts_network, "Network", facts)[8:] == more
    assert len(texts_of(facts_network, "Network", facts, verbose=True)) == number


def test_neighbours_are_shown_with_verbose():
    facts = h100_node(interfaces=(interface("e0", neighbour="leaf1"), interface("e1", neighbour=None)))
    assert texts_of(facts_network, "Network", facts) == ["e0-1, 25 Gb/s"]
    assert texts_of(facts_network, "Network", facts, verbose=True) == ["e0, 25 Gb/s, to leaf1", "e1, 25 Gb/s"]


def test_a_port_that_is_down_is_bad_and_an_unknown_state_is_not():
    assert lines_of(facts_network, "NICs", with_nics(h100_node(), "mlx5_3", state="DOWN"))[1][1] == "bad"
