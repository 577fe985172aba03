"""What the facts say about the network that training uses: RDMA ports and network interfaces."""

from __future__ import annotations

from probes.base.record import known, value_or
from probes.facts import Interface, MachineFacts, Nic


def active_ports(facts: MachineFacts) -> tuple[Nic, ...]:
    """RDMA ports whose link is up."""
    nics = facts.nics if known(facts.nics) else ()
    return tuple(nic for nic in nics if nic.state == "ACTIVE")


def training_ports(facts: MachineFacts) -> tuple[Nic, ...]:
    """The active ports of the fastest kind: highest rate, one link layer. Slower ones serve storage and
    management.
    """
    ports = active_ports(facts)
    if not ports:
        return ()
    fastest = max(value_or(port.rate_gbps, 0.0) for port in ports)
    candidates = [port for port in ports if value_or(port.rate_gbps, 0.0) == fastest]
    layers = [str(port.link_layer) for port in candidates]
    layer = max(sorted(set(layers)), key=layers.count)
    return tuple(port for port in candidates if str(port.link_layer) == layer)


def candidate_interfaces(facts: MachineFacts) -> tuple[Interface, ...]:
    """Physical interfaces that are up, have an address and are not the loopback: what NCCL or gloo might
    pick.
    """
    interfaces = facts.interfaces if known(facts.interfaces) else ()
    return tuple(
        interface
        for interface in interfaces
        if interface.up is True
        and interface.is_virtual is not True
        and interface.name != "lo"
        and (not known(interface.addresses) or interface.addresses)
    )


def default_interface(facts: MachineFacts) -> Interface | None:
    """The candidate that holds the default route; None where that is not known or there are several."""
    holders = [interface for interface in candidate_interfaces(facts) if interface.is_default_route is True]
    return holders[0] if len(holders) == 1 else None
