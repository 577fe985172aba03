"""Test small parts of texts about networks: states, numbers, GIDs, and lists of hosts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from probes.base.record import Reason, Unknown
from probes.parsers.fabric.fabric_maps import hosts_by_guid
from probes.parsers.fabric.infiniband_files import parse_ibstat, unread_ibstat
from probes.parsers.fabric.ip_json import parse_interfaces
from probes.parsers.fabric.mlxlink import parse_nics as parse_mlxlink
from probes.parsers.fabric.rdma_lists import parse_show_gids
from probes.parsers.host.lscpu import parse_cpu, parse_numa_nodes


def interface(**fields: Any) -> Any:
    rows = parse_interfaces(json.dumps([{"ifname": "eth0", **fields}]))
    assert isinstance(rows, tuple)
    return rows[0]


@pytest.mark.parametrize(
    ("fields", "up"),
    [
        ({"operstate": "UP"}, True),
        ({"operstate": "up"}, True),
        ({"operstate": "DOWN", "flags": ["UP"]}, False),
        ({"operstate": "UNKNOWN", "flags": ["UP"]}, True),
        ({"operstate": "UNKNOWN", "flags": ["LOOPBACK"]}, False),
        ({"flags": ["UP"]}, True),
        ({"operstate": "UNKNOWN"}, None),
        ({}, None),
    ],
)
def test_whether_an_interface_is_up(fields: dict[str, Any], up: bool | None) -> None:
    state = interface(**fields).up
    assert state is up or (up is None and isinstance(state, Unknown))


@pytest.mark.parametrize(
    ("mtu", "expected"),
    [
        (1, 1),
        (9000, 9000),
        (2**31 - 1, 2**31 - 1),
        (2**31, None),
        (0, None),
        (-1, None),
        (True, None),
        ("1", None),
    ],
)
def test_the_mtu_of_an_interface(mtu: object, expected: int | None) -> None:
    read = interface(mtu=mtu).mtu
    assert read == expected or (expected is None and isinstance(read, Unknown))
    assert expected is None or type(read) is int


@pytest.mark.parametrize(
    ("fields", "bond"),
    [
        ({"master": "bond0", "flags": ["SLAVE"]}, "bond0"),
        ({"main": "bond0", "flags": ["SLAVE"]}, "bond0"),
        ({"master": "bond0"}, "bond0"),
        ({"master": "br0", "linkinfo": {"info_kind": "bridge"}}, None),
        ({"master": "br0", "linkinfo": {"info_kind": "bridge"}, "flags": ["SLAVE"]}, "br0"),
        ({"master": 7}, None),
        ({}, None),
    ],
)
def test_the_bond_of_an_interface(fields: dict[str, Any], bond: str | None) -> None:
    assert interface(**fields).bond == bond


@pytest.mark.parametrize(
    ("fields", "is_virtual", "is_bond"),
    [
        ({"flags": ["MASTER"]}, True, True),
        ({"linkinfo": {"info_kind": "bond"}}, True, True),
        ({"linkinfo": {"info_kind": "vlan"}}, True, False),
        ({"link_type": "loopback"}, True, False),
        ({"linkinfo": {"info_kind": "mlx5"}}, None, False),
        ({}, None, False),
    ],
)
def test_which_interfaces_are_virtual(fields: dict[str, Any], is_virtual: bool | None, is_bond: bool) -> None:
    row = interface(**fields)
    assert row.is_virtual is is_virtual or (is_virtual is None and isinstance(row.is_virtual, Unknown))
    assert (row.bond_members == ()) is is_bond


IBSTAT = "CA 'mlx5_0'\n\tCA type: MT4129\n\t: 7\n\tno colon\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n"


def test_lines_of_ibstat_without_a_name_or_value_are_left_out() -> None:
    (port,) = parse_ibstat(IBSTAT)
    assert (port.name, port.port, port.device_type, port.state, port.rate_gbps) == (
        "mlx5_0", 1, "MT4129", "ACTIVE", 400.0,
    )  # fmt: skip


def test_a_line_with_which_ibstat_gave_up_is_cut_after_200_characters() -> None:
    panic = "ibpanic: [1] main: stat of IB device 'mlx5_1' failed: No such device " + "x" * 200
    (line,) = unread_ibstat(f"{IBSTAT}{panic}\n")
    assert (line.line, line.text) == (8, panic[:200])


@pytest.mark.parametrize(
    ("written", "gid", "address"),
    [
        ("192.0.2.7 ", "0000:0000:0000:0000:0000:ffff:c000:0202", "192.0.2.7"),
        ("", "0000:0000:0000:0000:0000:ffff:c000:0202", "192.0.2.2"),
    ],
)
def test_the_address_of_a_gid_may_be_written_beside_it(written: str, gid: str, address: str) -> None:
    (port,) = parse_show_gids(f"mlx5_0\t1\t3\t{gid}\t{written}v2\teth0\n")
    (entry,) = port.gids  # type: ignore[misc]
    assert (entry.index, entry.kind, entry.address, entry.netdev) == (3, "RoCE v2", address, "eth0")
    assert (port.name, port.port) == ("mlx5_0", 1)


def test_a_guid_before_the_first_name_has_no_host() -> None:
    text = "1070fd0300a1b2c2\nhostname: node1\n1070fd0300a1b2c3\nx\nhostname: node2\n1070fd0300a1b2c3\n"
    assert hosts_by_guid(text) == {"1070:fd03:00a1:b2c3": "node1"}


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("Active", "ACTIVE"),
        ("Polling", "DOWN"),
        ("Disable", "DOWN"),
        ("Down", "DOWN"),
        ("strange", Reason.UNPARSABLE),
    ],
)
def test_the_state_of_a_port_of_mlxlink(word: str, state: object) -> None:
    text = (
        "Operational Info\n----------------\nState                           : "
        f"{word}\nPhysical state                  : LinkUp\nSpeed                           : IB-NDR\n"
        "Width                           : 4x\n"
    )
    (port,) = parse_mlxlink(text)
    assert (port.state.reason if isinstance(port.state, Unknown) else port.state) == state


@pytest.mark.parametrize(("threads", "expected"), [("999999", 999999), ("1000000", None), ("x", None)])
def test_numbers_of_lscpu_have_at_most_six_digits(threads: str, expected: int | None) -> None:
    text = f"Architecture: x86_64\nCPU(s): 8\nThread(s) per core: {threads}\nSocket(s): 1\n"
    read = parse_cpu(text).threads_per_core
    assert read == expected or (expected is None and isinstance(read, Unknown))


def test_nodes_of_lscpu_in_the_order_of_their_numbers() -> None:
    text = "NUMA node10 CPU(s): 4-7\nNUMA node2 CPU(s): 0-3\nNUMA node3 CPU(s):\nNUMA node4 CPU(s): x\n"
    assert [(node.index, node.cpus) for node in parse_numa_nodes(text)] == [(2, "0-3"), (3, ""), (10, "4-7")]
