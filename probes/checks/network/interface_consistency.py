"""Check that bonds are complete, and that interfaces agree with their bond and their configuration.

Source: facebookresearch/gcm, health checks (state, speed, MTU and neighbours of bond members); Linux kernel
documentation, networking/bonding; NVIDIA DGX user guides (ports of known machines, `probes/data/nics.toml`).
"""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator

from probes.base.grouping import largest
from probes.base.record import Reason, Unknown, first_unknown, known, only_known, value_or
from probes.base.units import gbit_per_s
from probes.catalogue.nic_models import expected_ref, load_nic_models
from probes.facts import Interface
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.reporting import HOST, Check, Judged, judge_each, on_fact

STATE = Judge(
    check_id="interface-state",
    why="A bond that lost a member runs at part of its rate, and the next loss cuts the node off.",
)
SPEED = Judge(
    check_id="interface-speed",
    why="A slower member gets the same share of the connections and slows down these connections.",
)
MTU = Judge(
    check_id="interface-mtu", why="If MTUs differ, large packets are lost or cut, although ping and ssh work."
)
CABLING = Judge(
    check_id="interface-cabling",
    why="A port that is mistaken for another has the wrong addresses, bond or network.",
)
_NO_BOND = "this machine has no bond"
_CABLE = Remedy(text="Check the cable and the switch port of the member.", command="cat /proc/net/bonding/*")


def _on_interfaces(judge: Judge) -> Callable[[Callable[[tuple[Interface, ...], Evidence], Findings]], Check]:
    """Decorate a check so that it receives the network interfaces."""
    return on_fact(judge, "the network interfaces", lambda facts: facts.interfaces)


def _bonds(interfaces: tuple[Interface, ...]) -> list[Interface]:
    """Return the bonds that have, or should have, members; an unused bond does no harm."""
    wanted = {
        interface.bond_configured for interface in interfaces if isinstance(interface.bond_configured, str)
    }
    return [
        interface
        for interface in interfaces
        if isinstance(interface.bond_members, tuple) and (interface.bond_members or interface.name in wanted)
    ]


@_on_interfaces(STATE)
def interface_state(interfaces: tuple[Interface, ...], evidence: Evidence) -> Iterator[Finding]:
    vanished = [
        interface
        for interface in interfaces
        if isinstance(interface.up, Unknown) and interface.up.reason is Reason.ERROR
    ]
    for interface in vanished:
        yield STATE.warned(
            interface.name,
            "the interface is configured but does not exist",
            expected="an interface of this name",
            observed="none",
            remedy=Remedy(
                text="Look for the card on the PCI bus and for its driver in the kernel log.",
                command="lspci -nn",
            ),
            evidence=interface.evidence,
        )
    bonds = _bonds(interfaces)
    if bonds:
        by_name = {interface.name: interface for interface in interfaces}
        yield from judge_each(
            STATE,
            bonds,
            lambda bond: _judge_bond(bond, by_name),
            what="the state of the bond",
            good="bonds have all their members",
        )
    elif not vanished:
        yield STATE.skipped(HOST, _NO_BOND)


def _judge_bond(bond: Interface, by_name: dict[str, Interface]) -> Judged:
    members = bond.bond_members if isinstance(bond.bond_members, tuple) else ()
    outside = [
        interface.name
        for interface in by_name.values()
        if interface.bond_configured == bond.name and interface.name not in members
    ]
    states = {name: _member_up(by_name.get(name)) for name in members}
    lost = [f"{name} is down" for name, up in states.items() if up is False]
    lost += [f"{name} is not a member" for name in outside]
    if not any(up is True or isinstance(up, Unknown) for up in states.values()) or bond.up is False:
        return STATE.failed(
            bond.name,
            "the bond has no link",
            expected="at least one member that is up",
            observed=", ".join(lost) or "no member",
            remedy=Remedy(
                text="Compare the hardware addresses in the network configuration with the addresses of the "
                "cards; the names may be swapped.",
                command="cat /proc/net/bonding/*",
            ),
        )
    if lost:
        return STATE.warned(
            bond.name,
            "the bond lost a member",
            expected="all members up",
            observed=", ".join(lost),
            remedy=_CABLE,
        )
    return first_unknown(*states.values()) or ", ".join(states)


def _member_up(member: Interface | None) -> bool | Unknown:
    if member is None:
        return Unknown(Reason.NOT_RECORDED, "the state of the member is unknown")
    return member.link_seen_by_bond if isinstance(member.link_seen_by_bond, bool) else member.up


@_on_interfaces(SPEED)
def interface_speed(interfaces: tuple[Interface, ...], evidence: Evidence) -> Findings:
    member_names = {name for bond in _bonds(interfaces) for name in (value_or(bond.bond_members, None) or ())}
    members = [interface for interface in interfaces if interface.name in member_names]
    if not members:
        return SPEED.skipped(HOST, _NO_BOND)
    machine = load_nic_models().front_end(evidence.facts)
    fastest = largest((member.bond, member.speed_gbps) for member in members if known(member.speed_gbps))

    def judge(member: Interface) -> Judged:
        if member.up is False:
            return "down, see interface-state"
        if isinstance(member.speed_gbps, Unknown):
            return member.speed_gbps
        own_speed = (
            machine.interface_rate_gbps if machine is not None and member.name in machine.interfaces else None
        )
        wanted = max(fastest[member.bond], own_speed or 0.0)
        if member.speed_gbps >= wanted:
            return gbit_per_s(member.speed_gbps)
        by_machine = machine is not None and own_speed == wanted
        return SPEED.warned(
            member.name,
            "the interface is slower than this machine's port can be"
            if by_machine
            else "the member is slower than the others",
            expected=gbit_per_s(wanted),
            observed=gbit_per_s(member.speed_gbps),
            remedy=Remedy(
                text="Check cable, transceiver and the switch port's setting.",
                command=f"ethtool {shlex.quote(member.name)}",
            ),
            evidence=(expected_ref(machine, machine.id),) if machine is not None and by_machine else (),
        )

    return judge_each(
        SPEED, members, judge, what="the speed of the interface", good="members of a bond have the same speed"
    )


@_on_interfaces(MTU)
def interface_mtu(interfaces: tuple[Interface, ...], evidence: Evidence) -> Findings:
    by_name = {interface.name: interface for interface in interfaces}
    up = [
        interface
        for interface in interfaces
        if interface.up is True
        and (isinstance(interface.bond, str) or isinstance(interface.mtu_configured, int))
    ]
    if not up:
        return MTU.skipped(HOST, "no interface that is up is in a bond or has a configured MTU")
    usual = Counter(only_known(interface.mtu for interface in up)).most_common(1)

    def judge(interface: Interface) -> Judged:
        if isinstance(interface.mtu, Unknown):
            return interface.mtu
        bond = by_name.get(interface.bond) if isinstance(interface.bond, str) else None
        candidates = (interface.mtu_configured, bond.mtu if bond is not None else None)
        wanted = next((mtu for mtu in candidates if isinstance(mtu, int)), usual[0][0])
        if interface.mtu == wanted:
            return f"{interface.mtu} bytes"
        return MTU.warned(
            interface.name,
            "the MTU of the interface differs from its configuration, its bond or the other interfaces",
            expected=f"{wanted} bytes",
            observed=f"{interface.mtu} bytes",
            remedy=Remedy(
                text="Set the MTU in the network configuration, on all members and on the switch.",
                command=f"ip link set {shlex.quote(interface.name)} mtu {wanted}",
                needs_root=True,
            ),
        )

    return judge_each(
        MTU, up, judge, what="the MTU", good="interfaces have the MTU of their bond and configuration"
    )


@_on_interfaces(CABLING)
def interface_cabling(interfaces: tuple[Interface, ...], evidence: Evidence) -> Iterator[Finding]:
    named = [interface for interface in interfaces if known(interface.configured_name)]
    for interface in named:
        if interface.configured_name != interface.name:
            yield CABLING.failed(
                interface.name,
                "the interface has the hardware address that the configuration assigns to another interface",
                expected=f"the address of {interface.configured_name} on {interface.configured_name}",
                observed=f"on {interface.name}",
                remedy=Remedy(
                    text="Swap the cards or cables back, or correct the addresses in the network "
                    "configuration."
                ),
                evidence=interface.evidence,
            )
    astray = [
        interface
        for interface in interfaces
        if isinstance(interface.bond_configured, str)
        and interface.bond is None
        and interface.up is True
        and isinstance(interface.neighbour, str)
    ]
    for interface in astray:
        yield CABLING.warned(
            interface.name,
            "the interface has a link and a neighbour, but is not in the bond that the configuration names",
            expected=f"a member of {interface.bond_configured}",
            observed=f"no member; at the other end {interface.neighbour}",
            remedy=Remedy(
                text="Compare hardware addresses and neighbours with the plan: two ports may be swapped.",
                command="lldpctl",
            ),
            evidence=interface.evidence,
        )
    if not interfaces:
        return
    if not named and not astray:
        yield CABLING.skipped(HOST, "no network configuration is known to compare with")
    elif not astray and all(interface.configured_name == interface.name for interface in named):
        yield CABLING.passed(
            HOST,
            "interfaces have the hardware addresses of their configuration",
            observed=", ".join(
                f"{interface.name} to {interface.neighbour}"
                if isinstance(interface.neighbour, str)
                else interface.name
                for interface in named
            ),
        )
