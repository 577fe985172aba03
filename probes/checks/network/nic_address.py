"""Check that the training ports' interfaces are up, and that RoCE ports have addresses that others reach.

InfiniBand works without its interface (IPoIB), but the rendezvous often uses it; RoCE does not work without
one. RoCE packets carry a GID as their address. Only the entries of RoCE v2 with an IP address of the
interface cross a router; their place in the table depends on the order in which addresses were added.
Source: NCCL user guide, troubleshooting (networking) and NCCL_IB_GID_INDEX; facebookresearch/gcm, health
checks (operstate of each ib interface); AMD-AGI/Primus, preflight; NVIDIA/nccl#426, #925, #1510, #1796.
"""

from __future__ import annotations

import re
import shlex

from probes.base.record import Unknown, known
from probes.facts import Gid, MachineFacts, Nic
from probes.facts.variables import value_of
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, Judged, judge_each, on_nics, subject_name

NETDEV = Judge(
    check_id="nic-netdev",
    why="RoCE needs the interface of its port; over InfiniBand the rendezvous and MPI often use it.",
)
ADDRESS = Judge(
    check_id="roce-address",
    why="A RoCE port takes its address from its interface: without one, connections fail.",
)
_NONE_UP = "no RDMA port is up, see nic-state"
GID = Judge(
    check_id="nic-gid",
    why="Without a RoCE v2 address the port reaches no node beyond its own switch, or no node at all.",
)
INDEX = Judge(
    check_id="nic-gid-index",
    why="With the wrong GID, connections fail with error 12 or leave by another network.",
)
_USUAL = (1, 3)
"""Index of RoCE v2 with IPv4 on a fresh host: 3 on NVIDIA and Broadcom cards, 1 on others."""
_NO_ROCE = "no training port is RoCE"


@on_nics(NETDEV)
def nic_netdev(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    rails = training_rails(evidence.facts).active
    if not rails:
        return NETDEV.skipped(HOST, _NONE_UP)
    unused = _is_without_ip(evidence.facts)
    return judge_each(
        NETDEV,
        rails,
        lambda nic: _judge_netdev(nic, unused=unused),
        what="the state of the interface",
        good="the training ports' interfaces are as they should be",
    )


def _is_without_ip(facts: MachineFacts) -> bool:
    """Return whether several InfiniBand ports have interfaces and none is up.

    Then IP over InfiniBand is not in use on this machine.
    """
    ports = [
        nic
        for nic in (facts.nics if known(facts.nics) else ())
        if isinstance(nic.netdev, str) and (nic.link_layer == "InfiniBand" or nic.netdev.startswith("ib"))
    ]
    return len(ports) > 1 and all(nic.netdev_up is False for nic in ports)


def _judge_netdev(nic: Nic, *, unused: bool) -> Judged:
    if nic.netdev is None:
        return "no interface"
    if isinstance(nic.netdev, Unknown):
        return nic.netdev
    if isinstance(nic.netdev_up, Unknown):
        return nic.netdev_up
    if nic.netdev_up:
        return nic.netdev
    if unused and nic.link_layer != "Ethernet":
        return "IP over InfiniBand is not in use"
    # The port itself is up: over InfiniBand only IP is missing.
    return NETDEV.problem(
        subject_name(nic),
        "the network interface of the training port is down",
        fails=nic.link_layer == "Ethernet",
        expected=f"{nic.netdev} up",
        observed=f"{nic.netdev} down, the port itself is {nic.state}",
        remedy=Remedy(
            text="Set it up, and give it its address in the network configuration.",
            command=f"ip link set {shlex.quote(nic.netdev)} up",
            needs_root=True,
        ),
    )


@on_nics(ADDRESS)
def roce_address(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    rails = [
        nic
        for nic in training_rails(evidence.facts).active
        if nic.link_layer == "Ethernet" and nic.device_type != "efa"
    ]
    if not rails:
        return ADDRESS.skipped(HOST, "no training port that is up is RoCE")
    return judge_each(
        ADDRESS,
        rails,
        lambda nic: _judge_address(nic, evidence.facts),
        what="the addresses of the interface",
        good="RoCE ports have an address",
    )


def _judge_address(nic: Nic, facts: MachineFacts) -> Judged:
    mapped = [gid.address for gid in nic.gids if gid.address] if known(nic.gids) else []
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
    return routable[0] if routable else _without(nic, f"{nic.netdev} without one")


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


@on_nics(GID)
def nic_gid(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    ports = _roce_rails(evidence)
    if not ports:
        return GID.skipped(HOST, _NO_ROCE)
    return judge_each(GID, ports, _judge_gid, what="the GID table", good="RoCE ports have a routable GID")


def _roce_rails(evidence: Evidence) -> list[Nic]:
    """Return the RoCE ports for training.

    Ports whose state is unknown are included, because a list of GIDs contains no port states.
    """
    rails = training_rails(evidence.facts)
    ports = rails.active or rails.down
    return [nic for nic in ports if nic.link_layer == "Ethernet" and nic.device_type != "efa"]


def _judge_gid(nic: Nic) -> Judged:
    if isinstance(nic.gids, Unknown):
        return nic.gids
    second = [gid for gid in nic.gids if gid.kind == "RoCE v2"]
    routable = [gid for gid in second if _is_routable(gid)]
    if routable:
        return f"index {routable[0].index}: {routable[0].address or routable[0].gid}"
    unread = next((gid.kind for gid in nic.gids if isinstance(gid.kind, Unknown)), None)
    if unread is not None and not second:
        return unread
    netdev = nic.netdev if isinstance(nic.netdev, str) else "INTERFACE"
    remedy = Remedy(
        text="Give its network interface an IP address.",
        command=f"ip address add ADDRESS/PREFIX dev {shlex.quote(netdev)}",
        needs_root=True,
    )
    if second:
        return GID.warned(
            subject_name(nic),
            "the port has only link-local RoCE v2 addresses",
            expected="a RoCE v2 GID with an address of the network",
            observed=", ".join(gid.gid for gid in second),
            remedy=remedy,
        )
    return GID.failed(
        subject_name(nic),
        "the port has no RoCE v2 address",
        expected="a GID of type RoCE v2",
        observed=f"{len(nic.gids)} GIDs, none of RoCE v2",
        remedy=remedy,
    )


def _is_routable(gid: Gid) -> bool:
    return not gid.gid.lower().startswith("fe80")


@on_nics(INDEX)
def nic_gid_index(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    ports = _roce_rails(evidence)
    if not ports:
        return INDEX.skipped(HOST, _NO_ROCE)
    forced = value_of(evidence.facts, "NCCL_IB_GID_INDEX")
    if forced is not None and re.fullmatch(r"\d{1,4}", forced.strip()) is None:
        forced = None
    index = None if forced is None else int(forced)
    return judge_each(
        INDEX,
        ports,
        lambda nic: _judge_index(nic, index),
        what="the GID table",
        good="the GID index is right",
    )


def _judge_index(nic: Nic, forced: int | None) -> Judged:
    if isinstance(nic.gids, Unknown):
        return nic.gids
    good = [gid.index for gid in nic.gids if gid.kind == "RoCE v2" and _is_routable(gid)]
    if not good:
        return "no routable GID, see nic-gid"
    unset = Remedy(
        text="Unset NCCL_IB_GID_INDEX: NCCL 2.21 and newer finds the entry itself; older ones need this "
        "index."
    )
    if forced is not None:
        if forced in good:
            return f"NCCL_IB_GID_INDEX={forced}"
        entry = next((gid for gid in nic.gids if gid.index == forced), None)
        return INDEX.failed(
            subject_name(nic),
            "NCCL_IB_GID_INDEX does not point to a routable RoCE v2 address",
            expected=f"{good[0]}, or NCCL_IB_GID_INDEX not set",
            observed=f"{forced}: {entry.kind if entry and known(entry.kind) else 'empty'}",
            remedy=unset,
        )
    if any(index in _USUAL for index in good):
        return f"not forced; RoCE v2 at {good[0]}"
    return INDEX.warned(
        subject_name(nic),
        "RoCE v2 is not where scripts expect it in the GID table",
        expected=f"RoCE v2 with an IP address at index {_USUAL[1]}, or at {_USUAL[0]}",
        observed=f"at index {', '.join(map(str, good))}",
        remedy=unset,
    )
