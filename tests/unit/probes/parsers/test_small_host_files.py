"""Test small files of a host: routes, addresses, lists of CPUs, and entries of /proc."""

from __future__ import annotations

import pytest

from probes.base.record import Unknown
from probes.parsers.host.cpulist import is_cpu_list, mask_cpus, mask_list, parse_cpu_list
from probes.parsers.host.network_files import (
    Route,
    addresses_by_route,
    default_interface,
    local_addresses,
    parse_ahosts,
    parse_bonding,
    parse_default_ipv6,
    parse_hosts,
    parse_ip_addresses,
    parse_routes,
)
from probes.parsers.host.procfs import (
    parse_cgroup,
    parse_cpuinfo,
    parse_huge_pages,
    parse_limits,
    parse_listening,
    parse_meminfo,
)

HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


def row(interface: str, destination: str, flags: str, metric: int, mask: str) -> str:
    return f"{interface}\t{destination}\t00000000\t{flags}\t0\t0\t{metric}\t{mask}\t0\t0\t0\n"


@pytest.mark.parametrize(
    ("rows", "interface"),
    [
        (row("eth0", "00000000", "0003", 100, "00000000"), "eth0"),
        (
            row("eth0", "00000000", "0003", 100, "00000000") + row("ib0", "00000000", "0003", 99, "00000000"),
            "ib0",
        ),
        (
            row("eth0", "00000000", "0003", 9, "00000000") + row("ib0", "00000000", "0003", 9, "00000000"),
            "eth0",
        ),
        # A route that is down, a route to half of all addresses, and a network that begins with zeros.
        (row("eth0", "00000000", "0002", 100, "00000000"), None),
        (row("eth0", "00000000", "0003", 100, "00000080"), None),
        (row("eth0", "000200C0", "0003", 100, "00000000"), None),
        ("", None),
    ],
)
def test_the_default_route_with_the_lowest_metric(rows: str, interface: str | None) -> None:
    assert default_interface(parse_routes(HEAD + rows)) == interface


def test_a_route_is_read_in_host_order() -> None:
    expected = Route(interface="eth0", destination=0xC0000200, mask=0xFFFFFF00, has_gateway=False, metric=7)
    assert parse_routes(HEAD + row("eth0", "000200C0", "0001", 7, "00FFFFFF")) == (expected,)
    (far,) = parse_routes(HEAD + row("eth0", "000200C0", "0003", 7, "00FFFFFF"))
    assert far.has_gateway
    # The first line is a heading, even if it looks like a route.
    assert parse_routes(row("eth0", "000200C0", "0001", 7, "00FFFFFF")) == ()


def net(interface: str, destination: int, mask: int, *, has_gateway: bool = False) -> Route:
    return Route(interface=interface, destination=destination, mask=mask, has_gateway=has_gateway, metric=0)


@pytest.mark.parametrize(
    ("routes", "expected"),
    [
        ((net("eth0", 0xC0000200, 0xFFFFFF00),), {"eth0": ("192.0.2.2/24",)}),
        (
            (net("eth0", 0xC0000000, 0xFFFF0000), net("eth0", 0xC0000200, 0xFFFFFF00)),
            {"eth0": ("192.0.2.2/24",)},
        ),
        ((net("eth0", 0xC0000200, 0xFFFFFF00), net("ib0", 0xC0000000, 0xFFFF0000)), {}),
        ((net("eth0", 0xC0000300, 0xFFFFFF00),), {}),
        ((net("eth0", 0xC0000200, 0xFFFFFF00, has_gateway=True),), {}),
        ((net("eth0", 0, 0),), {}),
        ((), {}),
    ],
)
def test_an_address_belongs_to_the_interface_of_its_network(
    routes: tuple[Route, ...], expected: dict[str, tuple[str, ...]]
) -> None:
    assert addresses_by_route(("192.0.2.2",), routes) == expected


def test_an_address_with_a_number_above_255_is_left_out() -> None:
    everywhere = (net("eth0", 0xC0000000, 0xFF000000),)
    assert addresses_by_route(("192.0.2.255",), everywhere) == {"eth0": ("192.0.2.255/8",)}
    assert addresses_by_route(("192.0.2.256",), everywhere) == {}


def test_own_addresses_in_their_order() -> None:
    trie = "  |-- 192.0.2.2\n     /32 host LOCAL\n  |-- 192.0.2.0\n     /24 link UNICAST\n"
    assert local_addresses(trie + trie) == ("192.0.2.2",)


ZERO = "0" * 32


def route_v6(destination: str, prefix: str, metric: str, interface: str) -> str:
    return f"{destination} {prefix} {ZERO} 00 {ZERO} {metric} 1 0 00000003 {interface}\n"


@pytest.mark.parametrize(
    ("text", "interface"),
    [
        (route_v6(ZERO, "00", "00000400", "eth0"), "eth0"),
        (route_v6(ZERO, "00", "00000400", "eth0") + route_v6(ZERO, "00", "000003ff", "ib0"), "ib0"),
        (route_v6(ZERO, "00", "000003ff", "eth0") + route_v6(ZERO, "00", "00000400", "ib0"), "eth0"),
        (route_v6(ZERO, "00", "ffffffff", "lo"), None),
        (route_v6(ZERO, "40", "00000400", "eth0"), None),
        (route_v6("fe80" + "0" * 28, "00", "00000400", "eth0"), None),
        (route_v6(ZERO, "00", "zzz", "eth0") + route_v6(ZERO, "00", "00000400", "ib0"), "ib0"),
        (route_v6(ZERO, "00", "00000400", "eth0 extra"), None),
        ("", None),
    ],
)
def test_the_default_route_of_version_6(text: str, interface: str | None) -> None:
    assert parse_default_ipv6(text) == interface


def test_addresses_of_the_ip_command() -> None:
    text = '[{"ifname":"a","addr_info":[{"local":"192.0.2.2","prefixlen":24},{"local":"::1"},{}]},{}]'
    assert parse_ip_addresses(text) == {"a": ("192.0.2.2/24", "::1")}
    assert isinstance(parse_ip_addresses("no"), Unknown)


def test_members_of_a_bond() -> None:
    text = "MII Status: up\nSlave Interface: a\nMII Status: down\nMII Status: up\n"
    text += "Slave Interface: b\nMII Status: up\n"
    assert parse_bonding(text) == {"a": False, "b": True}


def test_addresses_of_a_name() -> None:
    text = "192.0.2.1 Node1 n1 # node2\n#192.0.2.9 node1\nnode1 other\n192.0.2.1 node1\n192.0.2.2 n1\n"
    assert parse_hosts(text, "NODE1") == ("192.0.2.1",)
    assert parse_hosts(text, "n1") == ("192.0.2.1", "192.0.2.2")
    assert parse_hosts(text, "node2") == ()
    assert parse_ahosts("192.0.2.1 STREAM n\n192.0.2.1 DGRAM\n\n::1 RAW\n") == ("192.0.2.1", "::1")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", ()),
        ("0", (0,)),
        ("0-2,5", (0, 1, 2, 5)),
        ("3-3", (3,)),
        ("65000-65001", (65000, 65001)),
        ("3-2", None),
        ("0-65535", tuple(range(65536))),
        ("0-65536", None),
        ("0-40000,0-40000", None),
        ("0,", None),
    ],
)
def test_a_list_of_cpus(text: str, numbers: tuple[int, ...] | None) -> None:
    parsed = parse_cpu_list(f" {text}\n")
    assert (None if isinstance(parsed, Unknown) else parsed) == numbers
    assert is_cpu_list(text) is (bool(text) and text != "0,")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0000ffff", tuple(range(16))),
        ("00000001,00000002", (1, 32)),
        ("0x00000001,,0x00000001", (0, 64)),
        ("0x100000000", (32,)),
        ("0", ()),
        ("", None),
        ("xyz", None),
    ],
)
def test_a_mask_of_cpus(text: str, numbers: tuple[int, ...] | None) -> None:
    parsed = mask_cpus(text)
    assert (None if isinstance(parsed, Unknown) else parsed) == numbers
    if numbers == (1, 32):
        assert mask_list(text) == "1,32"


def test_ports_on_which_a_program_listens() -> None:
    text = (
        "sl local rem st\n0: 0100007F:1F90 00000000:0000 0A\n1: 0100007F:1F91 00000000:0000 01\n2: x:1F92 y\n"
    )
    assert parse_listening(text + "3: 00000000:GGGG 00000000:0000 0A\n") == {8080}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("processor: 0\nflags: lm avx2\n", ("x86_64", 1, None, None, False)),
        ("processor: 0\nflags: avx2 hypervisor\n", ("i686", 1, None, None, True)),
        (
            "processor: 0\nphysical id: 0\ncore id: 0\n\nprocessor: 1\nphysical id: 0\ncore id: 0\n",
            (None, 2, 1, 1, None),
        ),
        (
            "processor: 0\nphysical id: 0\ncore id: 0\n\nprocessor: 1\nphysical id: 1\ncore id: 0\n",
            (None, 2, 2, 2, None),
        ),
        ("processor: 0\ncore id: 0\n", (None, 1, None, None, None)),
        ("processor: 0\nCPU architecture: 8\n", ("aarch64", 1, None, None, None)),
        ("processor: 0\nCPU architecture: 7\n", (None, 1, None, None, None)),
        ("processor: 0\ncpu: POWER9, altivec\n", ("ppc64le", 1, None, None, None)),
        ("processor: x\n", None),
    ],
)
def test_processors_of_cpuinfo(text: str, values: tuple[object, ...] | None) -> None:
    info = parse_cpuinfo(text)
    if isinstance(info, Unknown):
        assert values is None
    else:
        read = (info.architecture, info.logical_cpus, info.sockets, info.physical_cores, info.hypervisor)
        assert tuple(None if isinstance(value, Unknown) else value for value in read) == values


@pytest.mark.parametrize(
    ("maker", "part", "model"),
    [("0x41", "0xd4f", "Arm Neoverse V2"), ("0x42", "0xd4f", None), ("0x41", "0xfff", None)],
)
def test_a_model_by_the_numbers_of_arm(maker: str, part: str, model: str | None) -> None:
    info = parse_cpuinfo(f"processor: 0\nCPU implementer: {maker}\nCPU part: {part}\n")
    assert not isinstance(info, Unknown)
    if model is None:
        assert isinstance(info.model, Unknown)
        assert f"(part {part})" in info.model.detail
    else:
        assert info.model == model


def test_sizes_limits_and_groups() -> None:
    text = "MemTotal: 3 kB\nNode 0 MemFree: 2 kB\nHugePages_Total:   7\n"
    assert parse_meminfo(text) == {"MemTotal": 3072, "MemFree": 2048}
    assert parse_huge_pages(text) == 7
    assert isinstance(parse_huge_pages(""), Unknown)
    assert parse_limits(
        "Max open files            1024  4096 files\nMax stack size  unlimited  unlimited b\n"
    ) == {
        "Max open files": 1024,
        "Max stack size": "unlimited",
    }
    groups = parse_cgroup("0::/a:b\n4:cpu,cpuacct:/job\n5:x\n6:memory:relative\n")
    assert [(group.controllers, group.path) for group in groups] == [
        ((), "/a:b"),
        (("cpu", "cpuacct"), "/job"),
    ]
