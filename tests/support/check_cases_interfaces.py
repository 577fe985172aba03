"""Cases of the checks of interfaces, of the fabric and of the host's name."""

from __future__ import annotations

from typing import Any

import msgspec

from probes.base.record import Reason, Unknown
from probes.facts import FabricPort, FabricSwitch, Interface, LogEvent, MachineFacts, states
from tests.support.check_case import BOX, NOT_RECORDED, TIMEOUT, Case
from tests.support.check_cases_network import GONE, variables
from tests.support.machines import cpu_box, with_part


def interface(name: str, **changes: Any) -> Interface:
    own: dict[str, Any] = {
        "up": True,
        "speed_gbps": 100.0,
        "mtu": 9000,
        "addresses": (),
        "is_virtual": False,
        "is_default_route": False,
        "bond": None,
        "bond_members": None,
        "carrier_changes": 2,
    }
    return Interface(name=name, **{**own, **changes})


BOND = interface(
    "bond0", is_virtual=True, bond_members=("eth0", "eth1"), addresses=("192.0.2.7/24",), speed_gbps=200.0
)


def bonded(second: dict[str, Any] | None = None, bond: Interface = BOND) -> MachineFacts:
    """Return a host whose two ports form a bond."""
    members = (interface("eth0", bond="bond0"), interface("eth1", **{"bond": "bond0", **(second or {})}))
    return cpu_box(interfaces=(*members, bond))


def configured(name: str = "eth0", **changes: Any) -> Interface:
    own = {
        "configured_name": name,
        "bond": "bond0",
        "bond_configured": "bond0",
        "mtu_configured": 9000,
        "neighbour": "leaf1 Et1",
    }
    return interface(name, **{**own, **changes})


def hosts(*interfaces: Interface) -> MachineFacts:
    return cpu_box(interfaces=interfaces)


def cabled(port: int, **changes: Any) -> FabricPort:
    own = {
        "node": "leaf1",
        "node_kind": "switch",
        "port": port,
        "peer": f"node{port} HCA-1",
        "peer_port": 1,
        "width": 4,
        "speed": "NDR",
    }
    return FabricPort(**{**own, **changes})


def fabric(*ports: FabricPort) -> MachineFacts:
    return cpu_box(fabric_ports=ports)


def events(
    kind: str, count: int = 1, message: str = "Port module event: module 0, Cable error"
) -> MachineFacts:
    event = LogEvent(kind=kind, device="mlx5_0", message=message, count=count)  # type: ignore[arg-type]
    return cpu_box(events=(event,))


def lost_and_found(*, down_line: int, up_line: int, settled: bool = False) -> MachineFacts:
    """Return a log in which the port of mlx5_0 went down once and came up once."""
    lines = (("link-down", down_line), ("link-up", up_line))
    return cpu_box(
        events=tuple(
            LogEvent(
                kind=kind,  # type: ignore[arg-type]
                device="mlx5_0",
                message=kind,
                line=line,
                last_line=line,
                settled=settled,
            )
            for kind, line in lines
        )
    )


BOND_LOST = "bond0: now running without any active interface!"
HOST = FabricPort(
    node="node1 HCA-1", node_kind="host", port=1, peer="leaf1", peer_port=1, width=4, speed="NDR"
)
ODD = Unknown(Reason.UNPARSABLE, "no name for the speed (???)")
SWITCH = FabricSwitch(
    name="leaf1", power_supplies=states({"PSU0": "OK"}), fans=states({"all": "OK", "fan1": "6000 rpm"})
)
BOND_OF_ONE = msgspec.structs.replace(BOND, bond_members=("eth0",))
UNREAD_INTERFACES = cpu_box(interfaces=TIMEOUT)
TWO = hosts(*(interface(f"eth{n}", addresses=(f"192.0.2.{n + 1}/24",)) for n in range(2)))
OPPOSITE = hosts(*(interface(f"eth{n}", addresses=(f"192.0.2.{n}/31",)) for n in range(2)))
INTERFACE_CASES = (
    Case("link-flapping", "steady", BOX, ("PASS eno1",)),
    Case("link-flapping", "many changes", hosts(interface("eth0", carrier_changes=98)), ("WARN eth0",)),
    Case("link-flapping", "many losses in the log", events("link-down", 7), ("WARN mlx5_0", "PASS eno1")),
    Case("link-flapping", "one loss in the log", events("link-down"), ("PASS eno1",)),
    Case(
        "link-flapping",
        "only a log",
        msgspec.structs.replace(events("link-down"), interfaces=NOT_RECORDED),
        ("PASS host",),
    ),
    Case("link-flapping", "unread", cpu_box(interfaces=TIMEOUT, events=NOT_RECORDED), ("UNKNOWN host",)),
    Case("link-flapping", "nothing", cpu_box(interfaces=(), events=NOT_RECORDED), ("SKIP host",)),
    Case(
        "link-flapping", "lost for good", lost_and_found(down_line=9, up_line=4), ("WARN mlx5_0", "PASS eno1")
    ),
    Case("link-flapping", "lost and found", lost_and_found(down_line=4, up_line=9), ("PASS eno1",)),
    Case(
        "link-flapping",
        "lost before the boot",
        lost_and_found(down_line=9, up_line=4, settled=True),
        ("PASS eno1",),
    ),
    Case(
        "link-flapping",
        "a bond without members",
        events("link-down", message=BOND_LOST),
        ("WARN mlx5_0", "PASS eno1"),
    ),
    Case(
        "link-flapping",
        "only a log of NCCL",
        cpu_box(interfaces=NOT_RECORDED, logs=("nccl-log",)),
        ("UNKNOWN host",),
    ),
    Case("cable", "only a log of NCCL", cpu_box(logs=("nccl-log",)), ("SKIP host",)),
    Case("cable", "no complaint", BOX, ("PASS host",)),
    Case(
        "cable",
        "a port without one",
        events("cable", message="Port module event: module 1, Cable unplugged"),
        ("PASS host",),
    ),
    Case("cable", "a complaint", events("cable"), ("WARN mlx5_0",)),
    Case("cable", "unread", cpu_box(events=TIMEOUT), ("UNKNOWN host",)),
    Case("interface-state", "whole", bonded(), ("PASS bond0",)),
    Case("interface-state", "a member down", bonded({"up": False}), ("WARN bond0",)),
    Case(
        "interface-state", "a member down for the bond", bonded({"link_seen_by_bond": False}), ("WARN bond0",)
    ),
    Case(
        "interface-state",
        "a member outside",
        hosts(configured("eth0"), configured("eth1", bond=None), BOND_OF_ONE),
        ("WARN bond0",),
    ),
    Case(
        "interface-state",
        "no member",
        hosts(configured("eth0", bond=None), msgspec.structs.replace(BOND, bond_members=())),
        ("FAIL bond0",),
    ),
    Case("interface-state", "gone", hosts(interface("eth1", up=GONE)), ("WARN eth1",)),
    Case("interface-state", "no bond", BOX, ("SKIP host",)),
    Case("interface-state", "unread", UNREAD_INTERFACES, ("UNKNOWN host",)),
    Case("interface-speed", "equal", bonded(), ("PASS eth0-1",)),
    Case("interface-speed", "one slower", bonded({"speed_gbps": 25.0}), ("WARN eth1", "PASS eth0")),
    Case("interface-speed", "one unread", bonded({"speed_gbps": TIMEOUT}), ("UNKNOWN eth1", "PASS eth0")),
    Case("interface-speed", "unread", UNREAD_INTERFACES, ("UNKNOWN host",)),
    Case("interface-mtu", "equal", bonded(), ("PASS eth0-1",)),
    Case("interface-mtu", "one differs", bonded({"mtu": 1500}), ("WARN eth1", "PASS eth0")),
    Case("interface-mtu", "not as configured", hosts(configured(mtu=1500)), ("WARN eth0",)),
    Case("interface-mtu", "one unread", bonded({"mtu": TIMEOUT}), ("UNKNOWN eth1", "PASS eth0")),
    Case("interface-cabling", "as configured", hosts(configured()), ("PASS host",)),
    Case("interface-cabling", "another's address", hosts(configured(configured_name="eth1")), ("FAIL eth0",)),
    Case("interface-cabling", "outside of its bond", hosts(configured(bond=None)), ("WARN eth0",)),
    Case("interface-cabling", "no configuration", BOX, ("SKIP host",)),
    Case("interface-cabling", "unread", UNREAD_INTERFACES, ("UNKNOWN host",)),
    Case("interface-choice", "default route", BOX, ("PASS host",)),
    Case(
        "interface-choice", "only one", hosts(interface("eth0", addresses=("192.0.2.1/24",))), ("PASS host",)
    ),
    Case("interface-choice", "two", TWO, ("WARN host",)),
    Case("interface-choice", "two, one named", variables(TWO, NCCL_SOCKET_IFNAME="eth0"), ("PASS host",)),
    Case(
        "interface-choice", "addresses unread", hosts(interface("eth0", addresses=TIMEOUT)), ("UNKNOWN host",)
    ),
    Case("interface-choice", "none", hosts(), ("SKIP host",)),
    Case("interface-choice", "unread", UNREAD_INTERFACES, ("UNKNOWN host",)),
    Case("interface-subnets", "one each", BOX, ("PASS host",)),
    Case("interface-subnets", "shared", TWO, ("WARN eth0, eth1",)),
    Case("interface-subnets", "two ends of a point-to-point link", OPPOSITE, ("PASS host",)),
    Case("interface-subnets", "unread", UNREAD_INTERFACES, ("UNKNOWN host",)),
    Case("interface-subnets", "none", hosts(), ("SKIP host",)),
    Case("hostname-address", "leads to the network", BOX, ("PASS host",)),
    Case(
        "hostname-address",
        "resolves only to loopback",
        with_part(BOX, "naming", addresses=("127.0.1.1",)),
        ("WARN host",),
    ),
    Case("hostname-address", "nobody knows it", with_part(BOX, "naming", addresses=()), ("WARN host",)),
    Case("hostname-address", "unread", with_part(BOX, "naming", addresses=TIMEOUT), ("UNKNOWN host",)),
)

DISCOVERY_CASES = (
    Case("fabric-links", "all", fabric(HOST, cabled(1)), ("PASS host",)),
    Case(
        "fabric-links",
        "one without a name",
        fabric(HOST, cabled(37, peer=None, speed=ODD)),
        ("WARN leaf1 port 37",),
    ),
    Case("fabric-links", "a free port", fabric(HOST, cabled(38, peer=None, speed="SDR")), ("PASS host",)),
    Case("fabric-links", "unread", cpu_box(fabric_ports=TIMEOUT), ("UNKNOWN host",)),
    Case("fabric-speed", "equal", fabric(*(cabled(n) for n in range(4))), ("PASS host",)),
    Case(
        "fabric-speed",
        "one slower",
        fabric(*(cabled(n) for n in range(4)), cabled(9, speed="HDR")),
        ("WARN leaf1 port 9",),
    ),
    Case(
        "fabric-speed",
        "could be faster",
        fabric(cabled(1, could_be="Could be 106.25 Gbps")),
        ("WARN leaf1 port 1",),
    ),
    Case(
        "fabric-speed",
        "many slower",
        fabric(*(cabled(n, could_be="Could be 4X") for n in range(9))),
        (*(f"WARN leaf1 port {n}" for n in range(8)), "WARN host"),
    ),
    Case("fabric-speed", "unread", fabric(cabled(1, speed=ODD)), ("UNKNOWN host",)),
    Case("fabric-isolation", "a fabric", fabric(HOST), ("PASS host",)),
    Case(
        "fabric-isolation",
        "nobody else",
        fabric(msgspec.structs.replace(HOST, peer=None)),
        ("FAIL node1 HCA-1 port 1",),
    ),
    Case("fabric-isolation", "switches only", fabric(cabled(1)), ("SKIP host",)),
    Case("fabric-isolation", "unread", cpu_box(fabric_ports=TIMEOUT), ("UNKNOWN host",)),
    Case("switch-health", "well", cpu_box(fabric_switches=(SWITCH,)), ("PASS leaf1",)),
    Case(
        "switch-health",
        "a fan",
        cpu_box(fabric_switches=(msgspec.structs.replace(SWITCH, fans=states({"all": "ERROR"})),)),
        ("WARN leaf1",),
    ),
    Case(
        "switch-health", "empty", cpu_box(fabric_switches=(FabricSwitch(name="leaf1"),)), ("UNKNOWN leaf1",)
    ),
    Case("switch-health", "none", BOX, ("SKIP host",)),
)
