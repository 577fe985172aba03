"""Test less common facts of RDMA ports and interfaces: virtual functions, GIDs, counters, bonds, speeds."""

from __future__ import annotations

from typing import Any

import pytest

from probes.base.record import DEEP_ONLY, Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.collect.infiniband import collect as collect_ports
from probes.collect.interfaces import collect as collect_interfaces
from probes.facts import Interface, Nic
from tests.support.fake_source import FakeSource

HCA = "/sys/class/infiniband/mlx5_0"
PORT = f"{HCA}/ports/1"
PCI = "/sys/bus/pci/devices/0000:19:00.0"
FILES = {f"{PORT}/state": "4: ACTIVE\n", f"{PORT}/link_layer": "Ethernet\n"}
LINKS = {f"{HCA}/device": "/sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0"}
GID = "fe80:0000:0000:0000:946d:ae03:00a1:b2c3"
MAPPED = "0000:0000:0000:0000:0000:ffff:c000:0202"


def port_of(files: dict[str, str], links: dict[str, str] | None = None) -> Nic:
    source = FakeSource(files={**FILES, **files}, links={**LINKS, **(links or {})})
    (nic,) = collect_ports(source, CollectOptions())["nics"]  # type: ignore[misc]
    assert isinstance(nic, Nic)
    return nic


@pytest.mark.parametrize(
    ("deep", "has_port", "asked"), [(False, True, False), (True, True, True), (True, False, False)]
)
def test_only_a_deep_check_of_a_machine_with_ports_starts_a_command(
    deep: bool, has_port: bool, asked: bool
) -> None:
    source = FakeSource(files=FILES if has_port else {}, links=LINKS if has_port else {})
    source.is_live = True
    nics: Any = collect_ports(source, CollectOptions(deep=deep))["nics"]
    assert source.asked == (["ibv_devinfo -v"] if asked else [])
    assert len(nics) == has_port
    assert [nic.mtu for nic in nics if nic.mtu == DEEP_ONLY] == ([DEEP_ONLY] if has_port and not deep else [])


@pytest.mark.parametrize(
    ("links", "expected"), [({}, False), ({f"{PCI}/physfn": "/sys/devices/pci0000:15/0000:18:00.0"}, True)]
)
def test_a_virtual_function_has_a_link_to_its_physical_function(
    links: dict[str, str], expected: bool
) -> None:
    assert port_of({}, links).is_virtual_function is expected


@pytest.mark.parametrize(
    ("gids", "guid"),
    [
        ({0: GID}, "946d:ae03:00a1:b2c3"),
        ({0: GID, 1: MAPPED}, "946d:ae03:00a1:b2c3"),
        ({1: GID}, None),
        ({}, None),
    ],
)
def test_the_guid_of_a_port_is_the_end_of_its_first_gid(gids: dict[int, str], guid: str | None) -> None:
    files = {f"{PORT}/gids/{index}": f"{gid}\n" for index, gid in gids.items()}
    own = port_of(files).port_guid
    assert (None if isinstance(own, Unknown) else own) == guid


@pytest.mark.parametrize(
    ("netdev", "state", "up"), [("eth3", "up", True), ("eth3", "down", False), (None, "up", None)]
)
def test_whether_the_interface_of_a_port_is_up(netdev: str | None, state: str, up: bool | None) -> None:
    files = {f"{PCI}/net/eth3/dev_port": "0\n", "/sys/class/net/eth3/operstate": f"{state}\n"}
    nic = port_of(files if netdev else {})
    assert (nic.netdev, nic.netdev_up) == (netdev, up)


@pytest.mark.parametrize(
    ("own", "shown", "expected"),
    [
        (["uverbs0"], ["uverbs0", "rdma_cm"], True),
        (["uverbs1"], ["uverbs0"], False),
        (["uverbs0"], [], False),
    ],
)
def test_whether_a_program_can_open_the_device(own: list[str], shown: list[str], expected: bool) -> None:
    files = {f"{HCA}/device/infiniband_verbs/{name}/dev": "231:192\n" for name in own}
    files |= {f"/dev/infiniband/{name}": "" for name in shown}
    assert port_of(files).has_verbs_device is expected


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        ({"0": GID, "99999": GID, "100000": GID}, [0, 99999]),
        ({"0": GID, "types": GID}, [0]),
        # Eight empty slots end the table, and a filled slot starts the count again.
        ({str(index): GID if index in (0, 8, 16) else "" for index in range(17)}, [0, 8, 16]),
        ({str(index): GID if index in (0, 9) else "" for index in range(10)}, [0]),
        ({"0": GID.removesuffix(":b2c3"), "1": GID.replace("f", "g"), "2": GID.upper()}, [2]),
        ({str(index): GID if index == 7 else "" for index in range(8)}, [7]),
        ({"0": "0123:4567:89ab:cdef:0123:4567:89ab:cdef"}, [0]),
    ],
)
def test_slots_of_the_table_of_gids(slots: dict[str, str], expected: list[int]) -> None:
    gids = port_of({f"{PORT}/gids/{name}": f"{text}\n" for name, text in slots.items()}).gids
    assert isinstance(gids, tuple)
    assert [int(gid.index) for gid in gids] == expected


@pytest.mark.parametrize(
    ("layer", "gid", "kind", "address", "netdev"),
    [
        ("Ethernet", MAPPED, "RoCE v2", "192.0.2.2", "eth3"),
        ("Ethernet", GID, "RoCE v2", None, "eth3"),
        ("InfiniBand", GID, "IB", None, None),
    ],
)
def test_the_type_and_the_address_of_a_gid(
    layer: str, gid: str, kind: str, address: str | None, netdev: str | None
) -> None:
    nic = port_of(
        {
            f"{PORT}/link_layer": f"{layer}\n",
            f"{PORT}/gids/0": f"{gid}\n",
            f"{PORT}/gid_attrs/types/0": "RoCE v2\n",
            f"{PORT}/gid_attrs/ndevs/0": "eth3\n",
        }
    )
    (entry,) = nic.gids  # type: ignore[misc]
    assert (entry.kind, entry.netdev) == (kind, netdev)
    assert entry.address == address or (address is None and isinstance(entry.address, Unknown))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"symbol_error": "0\n", "link_downed": "3\n", "port_rcv_errors": "x\n"}, [0, 3]),
        ({"symbol_error": "N/A (no PMA)\n"}, Reason.NOT_SUPPORTED),
        ({"symbol_error": "x\n"}, Reason.UNPARSABLE),
        ({}, Reason.TOOL_MISSING),
    ],
)
def test_the_counters_of_a_port(texts: dict[str, str], expected: object) -> None:
    counters = port_of({f"{PORT}/counters/{name}": text for name, text in texts.items()}).counters
    assert (
        counters.reason if isinstance(counters, Unknown) else [count.value for count in counters]
    ) == expected


@pytest.mark.parametrize(
    ("layer", "text", "expected"),
    [
        ("Ethernet", "Global tclass=106\n", 106),
        ("Ethernet", "\n", 0),
        ("InfiniBand", "Global tclass=106\n", Reason.NOT_SUPPORTED),
    ],
)
def test_the_traffic_class_that_the_driver_forces(layer: str, text: str, expected: object) -> None:
    files = {f"{PORT}/link_layer": f"{layer}\n", f"{HCA}/tc/1/traffic_class": text}
    forced = port_of(files).traffic_class
    assert (forced.reason if isinstance(forced, Unknown) else forced) == expected


NET = "/sys/class/net"


def interfaces(source: FakeSource) -> dict[str, Interface]:
    records = collect_interfaces(source, CollectOptions())["interfaces"]
    assert isinstance(records, tuple)
    return {interface.name: interface for interface in records}


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        ("1", 0.001),
        ("400000", 400.0),
        (str(2**31 - 1), (2**31 - 1) / 1000),
        (str(2**31), None),
        (str(2**32 - 1), None),
        ("0", None),
        ("-1", None),
    ],
)
def test_the_unit_of_a_speed_is_mb_per_second_and_all_bits_mean_unknown(
    speed: str, expected: float | None
) -> None:
    eth0 = interfaces(FakeSource(files={f"{NET}/eth0/speed": f"{speed}\n"}))["eth0"]
    assert eth0.speed_gbps == expected or (expected is None and isinstance(eth0.speed_gbps, Unknown))


BOND = {
    f"{NET}/bond0/bonding/slaves": "eth0 eth1\n",
    f"{NET}/bond0/slave_eth0/operstate": "up\n",
    f"{NET}/bond0/slave_eth1/operstate": "up\n",
    f"{NET}/eth0/operstate": "down\n",
    "/proc/net/bonding/bond0": "Slave Interface: eth0\nMII Status: down\nSlave Interface: eth1\n"
    "MII Status: up\n",
}


def test_a_member_in_another_container_is_read_in_the_folder_of_its_bond() -> None:
    members = interfaces(FakeSource(files=BOND))
    assert {name: (row.up, row.bond, row.evidence[0].key) for name, row in members.items()} == {
        "bond0": (members["bond0"].up, None, f"{NET}/bond0"),
        "eth0": (False, "bond0", f"{NET}/eth0"),
        "eth1": (True, "bond0", f"{NET}/bond0/slave_eth1"),
    }


@pytest.mark.parametrize(("status", "expected"), [(None, False), ("up", True), ("down", False)])
def test_the_link_of_a_member_as_the_bond_sees_it(status: str | None, expected: bool) -> None:
    own = {f"{NET}/eth0/bonding_slave/mii_status": f"{status}\n"} if status else {}
    members = interfaces(FakeSource(files=BOND | own))
    assert members["eth0"].link_seen_by_bond is expected
    assert members["eth1"].link_seen_by_bond is True
    assert members["bond0"].link_seen_by_bond is None


def test_a_member_whose_folder_cannot_be_listed_is_read_where_the_bond_shows_it() -> None:
    files = {key: text for key, text in BOND.items() if not key.startswith(f"{NET}/eth0/")}
    rows = interfaces(FakeSource(files=files, links={f"{NET}/eth0": "/sys/devices/virtual/net/eth0"}))
    assert rows["eth0"].evidence[0].key == f"{NET}/bond0/slave_eth0"


@pytest.mark.parametrize(
    ("files", "links", "expected"),
    [
        ({f"{PCI}/net/eth0/operstate": "up\n"}, {}, "0000:19:00.0"),
        ({}, {}, None),
        ({}, {f"{NET}/eth0/device": "/sys/devices/pci0000:15/0000:19:00.0"}, "0000:19:00.0"),
        ({}, {f"{NET}/eth0/device": "/sys/devices/pci0000:00/0000:00:03.0/virtio0"}, "0000:00:03.0"),
    ],
)
def test_the_pci_device_of_an_interface(
    files: dict[str, str], links: dict[str, str], expected: str | None
) -> None:
    own = files or {f"{NET}/eth0/operstate": "up\n"}
    missing = Reason.NOT_RECORDED if files else Reason.TOOL_MISSING
    (eth0,) = interfaces(FakeSource(files=own, links=links, missing=missing)).values()
    assert (eth0.name, eth0.up, eth0.pci_bus_id) == ("eth0", True, expected)


def test_a_text_of_interfaces_alone_adds_to_the_kernels() -> None:
    """A text of one kind is enough; the other kind may be missing."""
    text = '[{"ifname":"ib7","mtu":2044,"operstate":"UP","addr_info":[]}]'
    source = FakeSource(files={f"{NET}/eth0/mtu": "9000\n"}, given={"interfaces": text})
    assert {name: row.mtu for name, row in interfaces(source).items()} == {"eth0": 9000, "ib7": 2044}
