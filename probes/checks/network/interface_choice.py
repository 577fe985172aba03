"""Check that the ranks' interface is unambiguous and that the host name resolves to a usable address.

Unless NCCL_SOCKET_IFNAME is set, NCCL takes the first suitable interface that is up. If two interfaces are in
the same subnet, either may answer for the other. Launchers put the name of the first node into MASTER_ADDR,
and Gloo uses the address of the host's own name. Debian writes the name with 127.0.1.1 into /etc/hosts.
Source: NCCL user guide, NCCL_SOCKET_IFNAME; NVIDIA/nccl#286, #913, #1580; Linux kernel documentation,
ip-sysctl (arp_ignore); vllm-project/vllm#7074; sgl-project/sglang#3226; Debian reference, the hostname
resolution.
"""

import ipaddress
import shlex
from collections.abc import Iterable, Iterator

from probes.base.record import first_unknown, items_of, known, value_or
from probes.facts import Interface, value_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.rails import candidate_interfaces, default_interface
from probes.judging.reporting import HOST, evidence_of, on_fact

CHOICE = Judge(
    check_id="interface-choice",
    why="A rank that connects to the others over the wrong interface hangs at start, or uses a slow network.",
)
SUBNETS = Judge(
    check_id="interface-subnets",
    why="With two interfaces in one subnet, the kernel answers and sends over either of them: traffic "
    "leaves its "
    "rail.",
)
HOSTNAME = Judge(
    check_id="hostname-address",
    why="If a node's name resolves to a loopback address, other nodes that use it connect to themselves.",
)


@on_fact(CHOICE, "the network interfaces", candidate_interfaces)
def interface_choice(usable: tuple[Interface, ...], evidence: Evidence) -> Finding:
    forced = value_of(evidence.facts, "NCCL_SOCKET_IFNAME")
    unread = first_unknown(*(interface.addresses for interface in usable))
    default = default_interface(evidence.facts)
    refs = evidence_of(usable)
    if forced is not None:
        return CHOICE.passed(HOST, "NCCL_SOCKET_IFNAME selects the interface", observed=forced, evidence=refs)
    if default is not None:
        return CHOICE.passed(
            HOST, "the default route determines the interface", observed=default.name, evidence=refs
        )
    if unread is not None:
        return CHOICE.undetermined(HOST, unread, what="the addresses of the interfaces", evidence=refs)
    if len(usable) == 1:
        return CHOICE.passed(
            HOST, "only one interface leads to a network", observed=usable[0].name, evidence=refs
        )
    if not usable:
        return CHOICE.skipped(HOST, "no interface leads to a network")
    route = first_unknown(*(interface.is_default_route for interface in usable))
    if route is not None:
        return CHOICE.undetermined(HOST, route, what="the default route", evidence=refs)
    several_routes = any(interface.is_default_route is True for interface in usable)
    return CHOICE.warned(
        HOST,
        "several interfaces have an address, and "
        + ("more than one of them has a default route" if several_routes else "none has the default route"),
        expected="one interface, or NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME",
        observed=", ".join(interface.name for interface in usable),
        remedy=Remedy(
            text="Name the interface that leads to the other nodes.",
            command="ip route get ADDRESS-OF-ANOTHER-NODE",
        ),
        evidence=refs,
    )


@on_fact(SUBNETS, "the network interfaces", candidate_interfaces)
def interface_subnets(usable: tuple[Interface, ...], evidence: Evidence) -> Iterator[Finding]:
    unread = first_unknown(*(interface.addresses for interface in usable))
    shared = {network: names for network, names in _networks(usable).items() if len(names) > 1}
    for network, names in shared.items():
        yield SUBNETS.warned(
            ", ".join(names),
            "several interfaces are in one subnet",
            expected="one interface in a subnet, or rules that keep them apart",
            observed=network,
            remedy=Remedy(
                text="Give each rail a separate subnet, or set arp_ignore=1, arp_announce=2 and a routing "
                "rule for each.",
                command="sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2",
                needs_root=True,
            ),
            evidence=evidence_of([interface for interface in usable if interface.name in names]),
        )
    if unread is not None:
        yield SUBNETS.undetermined(HOST, unread, what="the addresses of the interfaces")
    elif not usable:
        yield SUBNETS.skipped(HOST, "no interface leads to a network")
    elif not shared:
        yield SUBNETS.passed(
            HOST,
            "no two interfaces are in one subnet",
            observed=", ".join(
                f"{interface.name} {interface.addresses[0]}"
                for interface in usable
                if known(interface.addresses) and interface.addresses
            ),
            evidence=evidence_of(usable),
        )


def _networks(usable: Iterable[Interface]) -> dict[str, list[str]]:
    """Return the interfaces of each IPv4 network, without point-to-point addresses."""
    networks: dict[str, list[str]] = {}
    for interface in usable:
        for address in items_of(interface.addresses):
            try:
                network = ipaddress.IPv4Interface(address).network
            except ValueError:
                continue
            names = networks.setdefault(str(network), [])
            if "/" in address and network.prefixlen < 31 and interface.name not in names:
                names.append(interface.name)
    return networks


@on_fact(HOSTNAME, "the address of the host's name", lambda facts: facts.naming.addresses, "naming")
def hostname_address(addresses: tuple[str, ...], evidence: Evidence) -> Finding:
    naming = evidence.facts.naming
    name = value_or(evidence.facts.hostname, "the host's name")
    reachable = [
        address for address in addresses if not address.startswith(("127.", "fe80:")) and address != "::1"
    ]
    if reachable:
        return HOSTNAME.passed(
            HOST,
            "the host's name resolves to a network address",
            observed=", ".join(reachable),
            evidence=naming.evidence,
        )
    return HOSTNAME.warned(
        HOST,
        "the host's name resolves only to loopback or link-local addresses"
        if addresses
        else "the host's name does not resolve",
        expected=f"an address of the network for {name}",
        observed=", ".join(addresses) or "none",
        remedy=Remedy(
            text="For several nodes, write an address of the network beside the name into /etc/hosts, or "
            "pass an address to the launcher.",
            command=f"getent ahosts {shlex.quote(name)}" if known(evidence.facts.hostname) else "",
        ),
        evidence=naming.evidence,
    )
