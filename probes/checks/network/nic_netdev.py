"""Check that the interfaces of the training ports are up and that RoCE ones have an address.

InfiniBand works without its interface (IPoIB), but the rendezvous often uses it; RoCE does not work without
one. Source: NCCL user guide, troubleshooting: networking; facebookresearch/gcm, health checks (operstate of
each ib interface); NVIDIA/nccl#925, #1796.
"""

from __future__ import annotations

import shlex

from probes.base.record import Unknown, known
from probes.facts import MachineFacts, Nic
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, Judged, judge_each, on_nics, subject_name

JUDGE = Judge(
    check_id="nic-netdev",
    why="RoCE needs the interface of its port; over InfiniBand the rendezvous and MPI often use it.",
)
ADDRESS = Judge(
    check_id="roce-address",
    why="A RoCE port takes its address from its interface: without one, connections fail.",
)
_NONE_UP = "no RDMA port is up, see nic-state"


@on_nics(JUDGE)
def check(nics: tuple[Nic, ...], evidence: Evidence) -> Findings:
    rails = training_rails(evidence.facts).active
    if not rails:
        return JUDGE.skipped(HOST, _NONE_UP)
    unused = _is_without_ip(evidence.facts)
    return judge_each(
        JUDGE,
        rails,
        lambda nic: _judge(nic, unused=unused),
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


def _judge(nic: Nic, *, unused: bool) -> Judged:
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
    return JUDGE.problem(
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
