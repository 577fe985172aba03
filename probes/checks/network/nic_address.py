"""Check that the interfaces of training ports are up, and that other nodes can reach RoCE ports.

InfiniBand works without its interface (IPoIB), but the rendezvous often uses it; RoCE does not work without
its interface. RoCE packets contain a GID as their address. Only packets with a RoCE v2 GID made from an IP
address of the interface cross a router. The index of this GID in the table depends on the order in which
addresses were added.
Source: NCCL user guide, troubleshooting (networking) and NCCL_IB_GID_INDEX; facebookresearch/gcm, health
checks (operstate of each ib interface); AMD-AGI/Primus, preflight; NVIDIA/nccl#426, #925, #1510, #1796.
"""

import re
import shlex

from probes.base.record import Unknown, first_unknown, items_of, known
from probes.base.units import plural
from probes.facts import Gid, MachineFacts, Nic, value_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import Judged, each_port, subject_name, unknown_among

NETDEV = Judge(
    check_id="nic-netdev",
    why="RoCE needs the network interface of its port; on InfiniBand, the rendezvous and MPI often use it.",
)
ADDRESS = Judge(
    check_id="roce-address",
    why="A RoCE port takes its address from its interface: without one, connections fail.",
)
GID = Judge(
    check_id="nic-gid",
    why="Without a RoCE v2 address the port reaches no node beyond its own switch, or no node at all.",
)
INDEX = Judge(
    check_id="nic-gid-index",
    why="With the wrong GID, connections fail with error 12 or leave by another network.",
)
_USUAL = (1, 3)
"""Index of the RoCE v2 GID with IPv4 after installation: 3 on NVIDIA and Broadcom cards, 1 on others."""
_NO_ROCE = "no training port is RoCE"
_UNSET = Remedy(
    text="Unset NCCL_IB_GID_INDEX: NCCL 2.21 and newer finds the entry itself; older versions need this "
    "index."
)


def _active_rails(evidence: Evidence) -> tuple[Nic, ...]:
    return training_rails(evidence.facts).active


@each_port(
    NETDEV,
    _active_rails,
    absent="no RDMA port is up; see nic-state",
    what="the state of the interface",
    good="the interfaces that training needs are up",
)
def nic_netdev(nic: Nic, evidence: Evidence) -> Judged:
    if nic.netdev is None:
        return "no interface"
    if isinstance(nic.netdev, Unknown) or isinstance(nic.netdev_up, Unknown):
        return unknown_among(nic.netdev, nic.netdev_up)
    if nic.netdev_up:
        return nic.netdev
    if nic.link_layer != "Ethernet" and _is_without_ip(evidence.facts):
        return "IP over InfiniBand is not in use"
    # The port itself is up, so on InfiniBand only IP is missing.
    return NETDEV.problem(
        subject_name(nic),
        "the network interface of the training port is down",
        fails=nic.link_layer == "Ethernet",
        expected=f"{nic.netdev} up",
        observed=f"{nic.netdev} down, the port itself is {nic.state}",
        remedy=Remedy(
            text="Set the interface up, and configure its address in the network configuration.",
            command=f"ip link set {shlex.quote(nic.netdev)} up",
            needs_root=True,
        ),
    )


def _is_without_ip(facts: MachineFacts) -> bool:
    """Return whether several InfiniBand ports have interfaces, but none of these is up.

    Then IP over InfiniBand is not in use on this machine.
    """
    ports = [
        nic
        for nic in items_of(facts.nics)
        if isinstance(nic.netdev, str) and (nic.link_layer == "InfiniBand" or nic.netdev.startswith("ib"))
    ]
    return len(ports) > 1 and all(nic.netdev_up is False for nic in ports)


def _is_roce(nic: Nic) -> bool:
    return nic.link_layer == "Ethernet" and nic.device_type != "efa"


@each_port(
    ADDRESS,
    lambda evidence: list(filter(_is_roce, _active_rails(evidence))),
    absent="no training port that is up is RoCE",
    what="the addresses of the interface",
    good="RoCE ports have an address",
)
def roce_address(nic: Nic, evidence: Evidence) -> Judged:
    facts = evidence.facts
    mapped = [gid.address for gid in items_of(nic.gids) if gid.address]
    if mapped:
        return mapped[0]
    if not isinstance(nic.netdev, str):
        return nic.netdev if isinstance(nic.netdev, Unknown) else _without(nic, "no interface")
    if isinstance(facts.interfaces, Unknown):
        return facts.interfaces
    addresses = next(
        (interface.addresses for interface in facts.interfaces if interface.name == nic.netdev), ()
    )
    if isinstance(addresses, Unknown):
        return addresses
    routable = [address for address in addresses if not address.lower().startswith("fe80")]
    return routable[0] if routable else _without(nic, f"{nic.netdev} without an address")


def _without(nic: Nic, observed: str) -> Finding:
    return ADDRESS.warned(
        subject_name(nic),
        "the RoCE port has no address",
        expected="an IP address on its interface",
        observed=observed,
        remedy=Remedy(
            text="Give the interface an address in the network of the other training ports of this rail."
        ),
    )


def _roce_rails(evidence: Evidence) -> list[Nic]:
    """Return the RoCE ports for training.

    Ports whose state is unknown are included, because a list of GIDs contains no port states.
    """
    rails = training_rails(evidence.facts)
    return list(filter(_is_roce, rails.active or rails.down))


@each_port(GID, _roce_rails, absent=_NO_ROCE, what="the GID table", good="RoCE ports have a routable GID")
def nic_gid(nic: Nic, evidence: Evidence) -> Judged:
    if isinstance(nic.gids, Unknown):
        return nic.gids
    second = [gid for gid in nic.gids if gid.kind == "RoCE v2"]
    routable = [gid for gid in second if _is_routable(gid)]
    if routable:
        return f"index {routable[0].index}: {routable[0].address or routable[0].gid}"
    unread = first_unknown(*(gid.kind for gid in nic.gids))
    if unread is not None and not second:
        return unread
    netdev = nic.netdev if isinstance(nic.netdev, str) else "INTERFACE"
    return GID.problem(
        subject_name(nic),
        "the port has only link-local RoCE v2 addresses" if second else "the port has no RoCE v2 address",
        fails=not second,
        expected="a RoCE v2 GID with an address of the network" if second else "a GID of type RoCE v2",
        observed=", ".join(gid.gid for gid in second) or f"{plural(len(nic.gids), 'GID')}, none of RoCE v2",
        remedy=Remedy(
            text="Give its network interface an IP address.",
            command=f"ip address add ADDRESS/PREFIX dev {shlex.quote(netdev)}",
            needs_root=True,
        ),
    )


def _is_routable(gid: Gid) -> bool:
    return not gid.gid.lower().startswith("fe80")


@each_port(
    INDEX, _roce_rails, absent=_NO_ROCE, what="the GID table", good="no GID index is known to be wrong"
)
def nic_gid_index(nic: Nic, evidence: Evidence) -> Judged:
    if isinstance(nic.gids, Unknown):
        return nic.gids
    good = [gid.index for gid in nic.gids if gid.kind == "RoCE v2" and _is_routable(gid)]
    if not good:
        return "no routable GID, see nic-gid"
    words = (value_of(evidence.facts, "NCCL_IB_GID_INDEX") or "").strip()
    if re.fullmatch(r"\d{1,4}", words):
        forced = int(words)
        if forced in good:
            return f"NCCL_IB_GID_INDEX={forced}"
        entry = next((gid for gid in nic.gids if gid.index == forced), None)
        return INDEX.failed(
            subject_name(nic),
            "NCCL_IB_GID_INDEX does not point to a routable RoCE v2 address",
            expected=f"{good[0]}, or NCCL_IB_GID_INDEX not set",
            observed=f"{forced}: {entry.kind if entry and known(entry.kind) else 'empty'}",
            remedy=_UNSET,
        )
    if any(index in _USUAL for index in good):
        return f"not forced; RoCE v2 at {good[0]}"
    return INDEX.warned(
        subject_name(nic),
        "RoCE v2 is not at the index of the GID table that scripts expect",
        expected=f"RoCE v2 with an IP address at index {_USUAL[1]}, or at {_USUAL[0]}",
        observed=f"at index {', '.join(map(str, good))}",
        remedy=_UNSET,
    )
