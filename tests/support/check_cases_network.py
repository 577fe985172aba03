"""Cases of the checks of the network: healthy machines with one difference."""

from __future__ import annotations

from typing import Any

import msgspec

from probes.base.record import Reason, Unknown
from probes.facts import (
    EnvironmentVariable,
    Gid,
    Interface,
    MachineFacts,
    Nic,
    counts,
)
from tests.support.check_case import BOX, NODE, NOT_RECORDED, TIMEOUT, UNREAD, Case
from tests.support.machines import cpu_box, h100_node, ndr_port, with_nics, with_part

RAILS = "mlx5_0-7"
ALL_PORTS = "mlx5_0-8"
GONE = Unknown(Reason.ERROR, "stat of the device failed: No such file or directory")


def roce_port(index: int, **changes: Any) -> Nic:
    """Return a RoCE rail with an address at the usual index."""
    mapped = f"0000:0000:0000:0000:0000:ffff:0a00:{index:02x}11"
    gids = (
        Gid(index=2, gid=mapped, kind="RoCE v1", address=f"10.0.{index}.17"),
        Gid(index=3, gid=mapped, kind="RoCE v2", address=f"10.0.{index}.17"),
    )
    own = {"link_layer": "Ethernet", "sm_lid": 0, "gids": gids, "traffic_class": 106, "netdev": f"eth{index}"}
    return ndr_port(index, **{**own, **changes})


def roce(index: int = 0, **changes: Any) -> MachineFacts:
    """Return a node of four RoCE rails with `changes` on one of them."""
    return h100_node(
        nics=tuple(roce_port(n, **(changes if n == index else {})) for n in range(4)), links=NOT_RECORDED
    )


def two_ports(state: str) -> MachineFacts:
    """Return a node with a card of two ports: the first is in use, the second has this state."""
    first = ndr_port(0, name="mlx4_0", device_type="MT4103", rate_gbps=40.0, pci_bus_id=NOT_RECORDED)
    return h100_node(nics=(first, msgspec.structs.replace(first, port=2, state=state)), links=NOT_RECORDED)


def counted(**values: int) -> MachineFacts:
    """Return a node whose first port has these counters."""
    return with_nics(NODE, "mlx5_0", counters=counts(values))


def variables(facts: MachineFacts, **values: str) -> MachineFacts:
    rows = tuple(
        EnvironmentVariable(name=name, value=value, origin="environment") for name, value in values.items()
    )
    return msgspec.structs.replace(facts, environment=rows)


A100_PORTS = tuple(
    ndr_port(n, name=name, rate_gbps=200.0, speed="HDR", device_type="MT4123", pci_bus_id=f"0000:{bus}:00.0")
    for n, (name, bus) in enumerate(
        (
            ("mlx5_0", "0c"),
            ("mlx5_1", "12"),
            ("mlx5_2", "4b"),
            ("mlx5_3", "54"),
            ("mlx5_6", "8d"),
            ("mlx5_7", "94"),
            ("mlx5_8", "ba"),
            ("mlx5_9", "cc"),
        )
    )
)
DGX_A100 = h100_node(nics=A100_PORTS, links=NOT_RECORDED)

LINK_CASES = (
    Case("nic-state", "an unused second port", two_ports("DOWN"), ("PASS mlx4_0, mlx4_0:2",)),
    Case(
        "nic-state",
        "a second port without its subnet manager",
        two_ports("INIT"),
        ("WARN mlx4_0:2", "PASS mlx4_0"),
    ),
    Case(
        "nic-state",
        "vanished while it was read",
        with_nics(NODE, "mlx5_8", state=GONE),
        ("FAIL mlx5_8", f"PASS {RAILS}"),
    ),
    Case("nic-subnet-manager", "served", NODE, (f"PASS {RAILS}",)),
    Case(
        "nic-subnet-manager",
        "none",
        with_nics(NODE, "mlx5_1", sm_lid=0),
        ("FAIL mlx5_1", "PASS mlx5_0, mlx5_2-7"),
    ),
    Case(
        "nic-subnet-manager",
        "waiting",
        with_nics(NODE, "mlx5_1", state="INIT"),
        ("FAIL mlx5_1", "PASS mlx5_0, mlx5_2-7"),
    ),
    Case("nic-subnet-manager", "unread", with_nics(NODE, sm_lid=TIMEOUT), (f"UNKNOWN {RAILS}",)),
    Case("nic-subnet-manager", "RoCE", roce(), ("SKIP host",)),
    Case("nic-subnet-manager", "no port", BOX, ("SKIP host",)),
    Case("nic-speed", "full", NODE, (f"PASS {RAILS}",)),
    Case("nic-speed", "split cable", with_nics(NODE, lanes=2, rate_gbps=200.0), (f"PASS {RAILS}",)),
    Case(
        "nic-speed",
        "older speed on all lanes",
        with_nics(NODE, "mlx5_0", lanes=4, speed="HDR", rate_gbps=200.0),
        ("WARN mlx5_0", "PASS mlx5_1-7"),
    ),
    Case("nic-speed", "a card that nobody knows", with_nics(NODE, device_type="MT9999"), (f"SKIP {RAILS}",)),
    Case("nic-speed", "card unread", with_nics(NODE, device_type=TIMEOUT), (f"UNKNOWN {RAILS}",)),
    Case("nic-speed", "none up", with_nics(NODE, state="DOWN"), ("SKIP host",)),
    Case("nic-width", "full", NODE, (f"PASS {RAILS}",)),
    Case(
        "nic-width",
        "one lane",
        with_nics(NODE, "mlx5_2", lanes=1),
        ("WARN mlx5_2", "PASS mlx5_0-1, mlx5_3-7"),
    ),
    Case("nic-width", "split cable", with_nics(NODE, lanes=2), (f"PASS {RAILS}",)),
    Case("nic-width", "unread", with_nics(NODE, lanes=TIMEOUT), (f"UNKNOWN {RAILS}",)),
    Case("nic-width", "RoCE", roce(), ("SKIP host",)),
    Case("nic-bit-errors", "few", NODE, (f"PASS {ALL_PORTS}",)),
    Case(
        "nic-bit-errors",
        "many before correction",
        with_nics(NODE, "mlx5_3", pre_fec_bit_error_rate=3e-6),
        ("WARN mlx5_3", "PASS mlx5_0-2, mlx5_4-8"),
    ),
    Case(
        "nic-bit-errors",
        "after correction",
        with_nics(NODE, "mlx5_0", bit_error_rate=1e-9),
        ("WARN mlx5_0", "PASS mlx5_1-8"),
    ),
    Case(
        "nic-bit-errors",
        "nobody asked",
        with_nics(NODE, bit_error_rate=NOT_RECORDED, pre_fec_bit_error_rate=NOT_RECORDED),
        ("SKIP host",),
    ),
    Case("nic-bit-errors", "unread", UNREAD, ("UNKNOWN host",)),
    Case("nic-advice", "none", NODE, (f"PASS {ALL_PORTS}",)),
    Case(
        "nic-advice",
        "bad cable",
        with_nics(NODE, "mlx5_0", advice="Bad signal integrity"),
        ("WARN mlx5_0", "PASS mlx5_1-8"),
    ),
    Case("nic-advice", "nobody asked", with_nics(NODE, advice=NOT_RECORDED), ("SKIP host",)),
    Case("nic-advice", "unread", UNREAD, ("UNKNOWN host",)),
    Case("nic-mtu", "large", NODE, (f"PASS {RAILS}",)),
    Case("nic-mtu", "small", with_nics(NODE, "mlx5_4", mtu=2048), ("WARN mlx5_4", "PASS mlx5_0-3, mlx5_5-7")),
    Case("nic-mtu", "unread", with_nics(NODE, mtu=NOT_RECORDED), (f"UNKNOWN {RAILS}",)),
    Case(
        "nic-mtu",
        "RoCE by its interfaces",
        msgspec.structs.replace(
            roce(mtu=NOT_RECORDED), interfaces=tuple(Interface(name=f"eth{n}", mtu=1500) for n in range(4))
        ),
        ("WARN mlx5_0", "PASS mlx5_1-3"),
    ),
    Case("nic-mtu", "none up", with_nics(NODE, state="DOWN"), ("SKIP host",)),
)

FABRIC_PORT_CASES = (
    Case("nic-count", "a machine that nobody knows", NODE, ("SKIP host",)),
    Case("nic-count", "ports unread", UNREAD, ("UNKNOWN host",)),
    Case("nic-count", "all in their places", DGX_A100, ("PASS host",)),
    Case("nic-count", "one missing", msgspec.structs.replace(DGX_A100, nics=A100_PORTS[1:]), ("FAIL host",)),
    Case(
        "nic-speed",
        "of a machine that has more",
        with_nics(DGX_A100, "mlx5_0", rate_gbps=100.0),
        ("FAIL mlx5_0", "PASS mlx5_1-3, mlx5_6-9"),
    ),
    Case(
        "nic-naming",
        "a name at another place",
        with_nics(DGX_A100, "mlx5_1", name="mlx5_5"),
        ("WARN mlx5_5", "PASS mlx5_0, mlx5_2-3, mlx5_6-9"),
    ),
    Case("nic-pkey", "one", NODE, (f"PASS {RAILS}",)),
    Case(
        "nic-pkey",
        "another",
        with_nics(NODE, "mlx5_5", pkeys=("0x8001",)),
        ("FAIL mlx5_5", "PASS mlx5_0-4, mlx5_6-7"),
    ),
    Case(
        "nic-pkey",
        "limited member of the same",
        with_nics(NODE, "mlx5_5", pkeys=("0x7fff",)),
        (f"PASS {RAILS}",),
    ),
    Case("nic-pkey", "unread", with_nics(NODE, pkeys=TIMEOUT), (f"UNKNOWN {RAILS}",)),
    Case("nic-pkey", "RoCE", roce(), ("SKIP host",)),
    Case("nic-mixture", "one kind", NODE, ("PASS host",)),
    Case(
        "nic-mixture",
        "RoCE at the rails' rate",
        variables(with_nics(NODE, "mlx5_8", rate_gbps=400.0)),
        ("WARN mlx5_8",),
    ),
    Case(
        "nic-mixture",
        "RoCE at the rails' rate, rails named",
        variables(with_nics(NODE, "mlx5_8", rate_gbps=400.0), NCCL_IB_HCA="=mlx5_0"),
        ("PASS host",),
    ),
    Case("nic-mixture", "two cards", with_nics(NODE, "mlx5_0", device_type="MT4123"), (f"WARN {RAILS}",)),
    Case("nic-mixture", "link layers unread", with_nics(NODE, link_layer=TIMEOUT), ("SKIP host",)),
    Case("nic-mixture", "unread", UNREAD, ("UNKNOWN host",)),
    Case("roce-traffic-class", "one", roce(), ("PASS mlx5_0-3",)),
    Case("roce-traffic-class", "one port without", roce(traffic_class=0), ("WARN mlx5_0", "PASS mlx5_1-3")),
    Case("roce-traffic-class", "unread", with_nics(roce(), traffic_class=TIMEOUT), ("UNKNOWN mlx5_0-3",)),
    Case("roce-traffic-class", "InfiniBand", NODE, ("SKIP host",)),
    Case("nic-firmware", "one", NODE, (f"PASS {ALL_PORTS}",)),
    Case(
        "nic-firmware",
        "one differs",
        with_nics(NODE, "mlx5_2", firmware_version="28.37.1014"),
        ("WARN mlx5_2", "PASS mlx5_0-1, mlx5_3-8"),
    ),
    Case(
        "nic-firmware",
        "two cards, so that neither is the usual one",
        with_nics(h100_node(nics=NODE.nics[:2]), "mlx5_1", firmware_version="28.37.1014"),  # type: ignore[index]
        ("PASS mlx5_0-1",),
    ),
    Case(
        "nic-firmware",
        "two of each",
        with_nics(
            with_nics(h100_node(nics=NODE.nics[:4]), "mlx5_2", firmware_version="28.37.1014"),  # type: ignore[index]
            "mlx5_3",
            firmware_version="28.37.1014",
        ),
        ("WARN mlx5_2", "WARN mlx5_3", "PASS mlx5_0-1"),
    ),
    Case("nic-firmware", "unread", with_nics(NODE, firmware_version=TIMEOUT), (f"UNKNOWN {ALL_PORTS}",)),
    Case("nic-naming", "as in machines of its kind", DGX_A100, ("PASS mlx5_0-3, mlx5_6-9",)),
    Case("nic-naming", "a machine that nobody knows", NODE, ("SKIP host",)),
    Case("nic-naming", "unread", UNREAD, ("UNKNOWN host",)),
    Case("nic-virtual", "whole", NODE, (f"PASS {RAILS}",)),
    Case("nic-virtual", "all virtual", with_nics(NODE, is_virtual_function=True), (f"PASS {RAILS}",)),
    Case(
        "nic-virtual",
        "one",
        with_nics(NODE, "mlx5_0", is_virtual_function=True),
        ("WARN mlx5_0", "PASS mlx5_1-7"),
    ),
    Case("nic-virtual", "unread", with_nics(NODE, is_virtual_function=TIMEOUT), (f"UNKNOWN {RAILS}",)),
    Case("nic-gid", "routable", roce(), ("PASS mlx5_0-3",)),
    Case(
        "nic-gid",
        "first version only",
        roce(gids=(Gid(index=0, gid="fe80::1", kind="RoCE v1"),)),
        ("FAIL mlx5_0", "PASS mlx5_1-3"),
    ),
    Case(
        "nic-gid",
        "link-local only",
        roce(gids=(Gid(index=1, gid="fe80::1", kind="RoCE v2"),)),
        ("WARN mlx5_0", "PASS mlx5_1-3"),
    ),
    Case("nic-gid", "unread", roce(gids=TIMEOUT), ("UNKNOWN mlx5_0", "PASS mlx5_1-3")),
    Case(
        "nic-gid",
        "kinds unread",
        roce(gids=(Gid(index=0, gid="::ffff:10.0.0.1", kind=TIMEOUT),)),
        ("UNKNOWN mlx5_0", "PASS mlx5_1-3"),
    ),
    Case("nic-gid", "InfiniBand", NODE, ("SKIP host",)),
    Case("nic-gid-index", "not forced", roce(), ("PASS mlx5_0-3",)),
    Case("nic-gid-index", "forced rightly", variables(roce(), NCCL_IB_GID_INDEX="3"), ("PASS mlx5_0-3",)),
    Case(
        "nic-gid-index",
        "forced wrongly",
        variables(roce(), NCCL_IB_GID_INDEX="2"),
        tuple(f"FAIL mlx5_{n}" for n in range(4)),
    ),
    Case(
        "nic-gid-index",
        "at an unusual place",
        roce(gids=(Gid(index=5, gid="::ffff:10.0.0.1", kind="RoCE v2"),)),
        ("WARN mlx5_0", "PASS mlx5_1-3"),
    ),
    Case("nic-gid-index", "unread", roce(gids=TIMEOUT), ("UNKNOWN mlx5_0", "PASS mlx5_1-3")),
    Case("nic-netdev", "up", NODE, (f"PASS {RAILS}",)),
    Case("nic-netdev", "no IP over InfiniBand at all", with_nics(NODE, netdev_up=False), (f"PASS {RAILS}",)),
    Case(
        "nic-netdev",
        "IPoIB down",
        with_nics(NODE, "mlx5_2", netdev_up=False),
        ("WARN mlx5_2", "PASS mlx5_0-1, mlx5_3-7"),
    ),
    Case("nic-netdev", "RoCE down", roce(netdev_up=False), ("FAIL mlx5_0", "PASS mlx5_1-3")),
    Case("nic-netdev", "without one", with_nics(NODE, netdev=None, netdev_up=None), (f"PASS {RAILS}",)),
    Case("nic-netdev", "unread", with_nics(NODE, netdev_up=TIMEOUT), (f"UNKNOWN {RAILS}",)),
    Case("roce-address", "mapped", roce(), ("PASS mlx5_0-3",)),
    Case("roce-address", "none", roce(gids=(), netdev="eth9"), ("WARN mlx5_0", "PASS mlx5_1-3")),
    Case("roce-address", "unread", roce(gids=TIMEOUT, netdev=TIMEOUT), ("UNKNOWN mlx5_0", "PASS mlx5_1-3")),
    Case("verbs-devices", "there", NODE, (f"PASS {RAILS}",)),
    Case(
        "verbs-devices",
        "missing",
        with_nics(NODE, "mlx5_0", has_verbs_device=False),
        ("FAIL mlx5_0", "PASS mlx5_1-7"),
    ),
    Case("verbs-devices", "unread", with_nics(NODE, has_verbs_device=TIMEOUT), (f"UNKNOWN {RAILS}",)),
    Case("rdma-modules", "loaded", NODE, ("PASS host",)),
    Case(
        "rdma-modules",
        "missing",
        with_part(with_nics(NODE, state="DOWN"), "software", modules=("ib_core",)),
        ("WARN host",),
    ),
    Case("rdma-modules", "built in", with_part(NODE, "software", modules=()), ("PASS host",)),
    Case("rdma-modules", "unread", with_part(NODE, "software", modules=TIMEOUT), ("UNKNOWN host",)),
    Case(
        "peermem",
        "the old module",
        with_part(NODE, "software", driver_open_module=False, modules=("nv_peer_mem",)),
        ("PASS host",),
    ),
)

COUNTER_CASES = tuple(
    case
    for check_id, counter, many in (
        ("nic-link-downed", "link_downed", 255),
        ("nic-symbol-errors", "symbol_error", 5000),
        ("nic-receive-errors", "port_rcv_errors", 90_000),
        ("nic-discards", "port_xmit_discards", 20_046),
        ("nic-retries", "rnr_nak_retry_err", 1000),
    )
    for case in (
        Case(check_id, "none", NODE, (f"PASS {ALL_PORTS}",)),
        Case(check_id, "history", counted(**{counter: 1}), (f"PASS {ALL_PORTS}",)),
        Case(check_id, "many", counted(**{counter: many}), ("WARN mlx5_0", "PASS mlx5_1-8")),
        Case(check_id, "unread", with_nics(NODE, counters=TIMEOUT), (f"UNKNOWN {ALL_PORTS}",)),
        Case(check_id, "no such counter", counted(), ("SKIP mlx5_0", "PASS mlx5_1-8")),
    )
)
CONGESTION_CASES = (
    Case("roce-congestion", "none", NODE, ("PASS mlx5_8",)),
    Case(
        "roce-congestion",
        "many",
        with_nics(NODE, "mlx5_8", counters=counts({"roce_slow_restart": 90_000})),
        ("WARN mlx5_8",),
    ),
    Case("roce-congestion", "unread", with_nics(NODE, counters=TIMEOUT), ("UNKNOWN mlx5_8",)),
    Case("roce-congestion", "no RoCE", cpu_box(nics=(ndr_port(0),)), ("SKIP host",)),
)

PORT_CASES = (*LINK_CASES, *FABRIC_PORT_CASES, *COUNTER_CASES, *CONGESTION_CASES)
