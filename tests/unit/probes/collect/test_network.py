"""Test RDMA ports and network interfaces."""

from __future__ import annotations

import pytest

from probes.base.record import Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.collect.infiniband import collect as collect_infiniband
from probes.collect.interfaces import collect as collect_interfaces
from probes.facts import Interface, Nic
from probes.sources.base import CommandResult
from tests.support.fake_source import FakeSource

HCA = "/sys/class/infiniband/mlx5_0"
PCI = "/sys/bus/pci/devices/0000:19:00.0"
HCA_FILES = {
    f"{HCA}/hca_type": "MT4129\n",
    f"{HCA}/fw_ver": "28.39.1002\n",
    f"{HCA}/ports/1/state": "4: ACTIVE\n",
    f"{HCA}/ports/1/phys_state": "5: LinkUp\n",
    f"{HCA}/ports/1/rate": "400 Gb/sec (4X NDR)\n",
    f"{HCA}/ports/1/link_layer": "InfiniBand\n",
    f"{PCI}/net/ib0/dev_port": "0\n",
    f"{PCI}/numa_node": "1\n",
    f"{PCI}/current_link_speed": "16.0 GT/s PCIe\n",
    f"{PCI}/max_link_speed": "32.0 GT/s PCIe\n",
    f"{PCI}/current_link_width": "8\n",
    f"{PCI}/max_link_width": "16\n",
}
HCA_LINKS = {f"{HCA}/device": "/sys/devices/pci0000:15/0000:15:01.0/0000:19:00.0"}


def nics(source: FakeSource) -> tuple[Nic, ...] | Unknown:
    records = collect_infiniband(source, CollectOptions())["nics"]
    assert isinstance(records, tuple | Unknown)
    return records


def one_nic(files: dict[str, str]) -> Nic:
    records = nics(FakeSource(files=files, links=HCA_LINKS))
    assert isinstance(records, tuple)
    (nic,) = records
    return nic


def test_a_port() -> None:
    nic = one_nic(HCA_FILES)
    assert (nic.name, nic.port, nic.link_layer, nic.rate_gbps) == ("mlx5_0", 1, "InfiniBand", 400.0)
    assert (nic.state, nic.physical_state, nic.device_type, nic.firmware_version) == (
        "ACTIVE",
        "LinkUp",
        "MT4129",
        "28.39.1002",
    )
    assert (nic.pci_bus_id, nic.numa_node, nic.netdev) == ("0000:19:00.0", 1, "ib0")
    assert (nic.pcie.generation, nic.pcie.generation_max, nic.pcie.width, nic.pcie.width_max) == (4, 5, 8, 16)
    assert [ref.key for ref in nic.evidence] == [HCA, PCI]


@pytest.mark.parametrize(("empty", "is_read"), [(7, True), (8, False)])
def test_eight_empty_slots_end_a_table_of_gids_and_of_partition_keys(empty: int, is_read: bool) -> None:
    zero, gid = "0000:" * 7 + "0000", "fe80:0000:0000:0000:946d:ae03:00a1:b2c3"
    files = dict(HCA_FILES)
    for index in range(empty + 2):
        is_filled = index in (0, empty + 1)
        files[f"{HCA}/ports/1/gids/{index}"] = f"{gid if is_filled else zero}\n"
        files[f"{HCA}/ports/1/pkeys/{index}"] = "0xffff\n" if is_filled else "0x0000\n"
    nic = one_nic(files)
    assert isinstance(nic.gids, tuple)
    assert isinstance(nic.pkeys, tuple)
    assert [entry.index for entry in nic.gids] == ([0, empty + 1] if is_read else [0])
    assert len(nic.pkeys) == (2 if is_read else 1)


def test_a_bond_is_named_by_its_first_gid() -> None:
    assert one_nic(HCA_FILES | {f"{HCA}/ports/1/gid_attrs/ndevs/0": "bond0\n"}).netdev == "bond0"


def test_ports_are_in_numeric_order_with_their_own_interfaces() -> None:
    files = (
        HCA_FILES
        | {f"{HCA}/ports/{i}/state": "1: DOWN\n" for i in (2, 10)}
        | {f"{PCI}/net/ib1/dev_port": "1\n"}
    )
    records = nics(FakeSource(files=files, links=HCA_LINKS))
    assert isinstance(records, tuple)
    assert [(nic.port, nic.netdev) for nic in records] == [(1, "ib0"), (2, "ib1"), (10, None)]


def test_efa_states_neither_type_nor_link_layer() -> None:
    files = {key: text for key, text in HCA_FILES.items() if not key.endswith("hca_type")}
    source = FakeSource(
        files=files | {f"{HCA}/ports/1/link_layer": "Unspecified\n"},
        links=HCA_LINKS | {f"{HCA}/device/driver": "/sys/bus/pci/drivers/efa"},
    )
    records = nics(source)
    assert isinstance(records, tuple)
    assert records[0].device_type == "efa"
    assert isinstance(records[0].link_layer, Unknown)


def test_a_numa_node_that_the_platform_does_not_state() -> None:
    assert one_nic(HCA_FILES | {f"{PCI}/numa_node": "-1\n"}).numa_node is None


def test_no_rdma_devices() -> None:
    assert nics(FakeSource()) == ()


def test_a_copy_of_the_pci_devices_alone() -> None:
    files = {
        f"{PCI}/infiniband/mlx5_0/{key.removeprefix(HCA)}".replace("//", "/"): text
        for key, text in HCA_FILES.items()
        if key.startswith(HCA)
    }
    records = nics(FakeSource(files=files | {f"{PCI}/net/ib0/dev_port": "0"}, missing=Reason.NOT_RECORDED))
    assert isinstance(records, tuple)
    assert [(nic.name, nic.pci_bus_id, nic.state, nic.netdev) for nic in records] == [
        ("mlx5_0", "0000:19:00.0", "ACTIVE", "ib0")
    ]


IBSTAT = b"CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 200\nibpanic: stat failed\n"


def test_ibstat_where_only_that_was_recorded() -> None:
    source = FakeSource(
        commands={"ibstat": CommandResult(exit_code=255, stdout=IBSTAT)}, missing=Reason.NOT_RECORDED
    )
    records = nics(source)
    assert isinstance(records, tuple)
    assert (records[0].state, records[0].rate_gbps, records[0].evidence[0].key) == ("ACTIVE", 200.0, "ibstat")


def test_nothing_recorded() -> None:
    records = nics(FakeSource(missing=Reason.NOT_RECORDED))
    assert isinstance(records, Unknown)
    assert records.reason is Reason.NOT_RECORDED


NET = "/sys/class/net"
NET_FILES = {
    f"{NET}/eth0/operstate": "up\n",
    f"{NET}/eth0/speed": "100000\n",
    f"{NET}/eth0/mtu": "9000\n",
    f"{NET}/lo/operstate": "unknown\n",
    f"{NET}/lo/flags": "0x9\n",
    f"{NET}/lo/speed": Unknown(Reason.NOT_SUPPORTED, "Invalid argument"),
    f"{NET}/lo/mtu": "65536\n",
    f"{NET}/down0/operstate": "down\n",
    f"{NET}/down0/speed": "-1\n",
    f"{NET}/bonding_masters": "bond0\n",
    "/proc/net/route": (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    ),
}
NET_LINKS = {f"{NET}/eth0": "/sys/devices/pci0000:00/net/eth0", f"{NET}/lo": "/sys/devices/virtual/net/lo"}
IP = '[{"ifname":"eth0","addr_info":[{"local":"192.0.2.2","prefixlen":24}]}]'
TRIE = "  |-- 192.0.2.2\n     /32 host LOCAL\n"


def by_name(source: FakeSource) -> dict[str, Interface]:
    records = collect_interfaces(source, CollectOptions())["interfaces"]
    assert isinstance(records, tuple)
    return {interface.name: interface for interface in records}


def test_interfaces() -> None:
    records = by_name(FakeSource(files=NET_FILES, links=NET_LINKS, commands={"ip -j addr": IP}))
    assert list(records) == ["down0", "eth0", "lo"]
    eth0, lo, down0 = records["eth0"], records["lo"], records["down0"]
    assert (eth0.up, eth0.speed_gbps, eth0.mtu, eth0.is_virtual, eth0.is_default_route) == (
        True,
        100.0,
        9000,
        False,
        True,
    )
    assert eth0.addresses == ("192.0.2.2/24",)
    assert (lo.up, lo.is_virtual, lo.is_default_route, lo.addresses) == (True, True, False, ())
    assert isinstance(lo.speed_gbps, Unknown)
    assert down0.up is False
    assert isinstance(down0.speed_gbps, Unknown)


def test_addresses_without_the_ip_command() -> None:
    records = by_name(FakeSource(files={**NET_FILES, "/proc/net/fib_trie": TRIE}, links=NET_LINKS))
    assert records["eth0"].addresses == ("192.0.2.2/24",)
    assert isinstance(records["down0"].addresses, Unknown)


@pytest.mark.parametrize("route", ["header\n", None])
def test_a_default_route_of_version_6_only(route: str | None) -> None:
    files = {key: text for key, text in NET_FILES.items() if key != "/proc/net/route"}
    zero = "0" * 32
    files["/proc/net/ipv6_route"] = f"{zero} 00 {zero} 00 {zero} 00000400 1 0 00000003     eth0\n"
    if route is not None:
        files["/proc/net/route"] = route
    assert by_name(FakeSource(files=files, links=NET_LINKS))["eth0"].is_default_route is True
