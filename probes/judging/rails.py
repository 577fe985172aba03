"""Select the RDMA ports and the network interface that carry training, for checks, plans and scripts.

A node also has ports and interfaces for storage and management, which may be down or slower.
"""

from probes.base.grouping import grouped
from probes.base.record import NOT_RECORDED, Reason, Record, Unknown, items_of, known, value_or
from probes.catalogue.nic_models import load_nic_models
from probes.facts import Interface, Link, MachineFacts, Nic

NEAR = frozenset({"PIX", "PXB"})
"""Distances of a NIC below the same PCIe switch as a GPU: the NIC was placed there for this GPU."""
BRIDGES_AND_TUNNELS = (
    "docker",
    "virbr",
    "veth",
    "cni",
    "cali",
    "flannel",
    "br-",
    "tun",
    "tap",
    "podman",
    "lxc",
    "cilium",
    "wg",
    "tailscale",
)
NOT_A_NETWORK = ("lo", *BRIDGES_AND_TUNNELS)
"""Name prefixes of the loopback interface, of bridges to containers and guests, and of tunnels.

NCCL itself leaves out lo and docker.
"""


class Rails(Record, kw_only=True):
    """The ports of a machine, grouped by their purpose."""

    active: tuple[Nic, ...] = ()
    """Training ports that are up at the usual rate."""
    slower: tuple[Nic, ...] = ()
    """Ports of the same kind as `active` that are up at another rate, usually a lower one."""
    down: tuple[Nic, ...] = ()
    """Ports of the same kind as `active` that are not up, or whose state is unknown (see `is_down`).

    If no port is up, these are all ports of the machine.
    """
    others: tuple[Nic, ...] = ()
    """Ports for storage or management, and unused ports."""


def is_up(nic: Nic) -> bool:
    """Return whether the port carries traffic.

    If the state of the port is unknown, the state of its network interface counts.
    """
    return nic.state == "ACTIVE" or (isinstance(nic.state, Unknown) and nic.netdev_up is True)


def is_down(nic: Nic) -> bool:
    """Return whether the port is known to carry no traffic."""
    return not is_up(nic) and _has_known_state(nic)


def _has_known_state(nic: Nic) -> bool:
    return known(nic.state) or isinstance(nic.netdev_up, bool)


def training_ports(facts: MachineFacts) -> tuple[Nic, ...] | Unknown:
    """Return the ports that carry training traffic: the active rails.

    The result is Unknown if several answers are possible: no source reports which ports are up, a port of the
    rails' kind has an unknown state, or ports of known and unknown rates compete.
    """
    unread = _unread_states(facts)
    if unread is not None:
        return unread
    rails = training_rails(facts)
    doubtful = [nic for nic in rails.down if not _has_known_state(nic)]
    if doubtful:
        return Unknown(Reason.NOT_RECORDED, f"the state of {doubtful[0].name}")
    competing = _competing(facts)
    blank = [nic for nic in competing if not known(nic.rate_gbps) or not known(nic.link_layer)]
    if blank and len({_kind(nic) for nic in competing}) > 1:
        return Unknown(Reason.NOT_RECORDED, f"the rate or the link layer of {blank[0].name}")
    return rails.active


def _unread_states(facts: MachineFacts) -> Unknown | None:
    """Return why no port or no port state is known; None if some state is known or there is no port."""
    if isinstance(facts.nics, Unknown):
        return facts.nics
    if not facts.nics or any(_has_known_state(nic) for nic in facts.nics):
        return None
    first = facts.nics[0].state
    return first if isinstance(first, Unknown) else NOT_RECORDED


def training_rails(facts: MachineFacts) -> Rails:
    """Sort the ports by their state, their place and their kind.

    Among the ports that are up, the group of one link layer and rate with the most bandwidth is the fabric.
    If some of these ports are known to be below a GPU's PCIe switch, only these compete. Bonds and DPUs are
    set aside if there are plain ports of the same rate, unless they are the majority (some machines train
    over them). A port at another rate or without a link also belongs to the fabric if it has the same link
    layer and device type (and, if only ports below a GPU's switch compete, is below such a switch too). The
    unused second port of a card does not belong to the fabric, unless other cards use both ports. If no port
    is up, all ports are `down`.
    """
    nics, competing = items_of(facts.nics), _competing(facts)
    if not competing:
        return Rails(down=nics)
    near = _names_near_gpus(facts.links)
    fabric, aside = _set_aside(_widest_group(competing))
    # Ports outside the group also belong to the fabric if they are of its kind but slower or down.
    chosen = {(nic.name, nic.port) for nic in fabric}
    rest = [nic for nic in nics if (nic.name, nic.port) not in chosen]
    kin = [nic for nic in rest if _is_kin(nic, fabric[0]) and nic not in aside]
    # If a GPU's switch has a port that is up, ports elsewhere are for storage or management.
    if near & {nic.name for nic in competing}:
        kin = [nic for nic in kin if nic.name in near]
    if not any(_is_bond(nic) for nic in fabric):
        kin = [nic for nic in kin if not _is_bond(nic)]
    cards = [card_of(nic) for nic in fabric]
    # If each card has one port in the group, an unused second port of a card is not a failed rail.
    if len(cards) == len(set(cards)):
        kin = [nic for nic in kin if is_up(nic) or card_of(nic) not in cards]
    return Rails(
        active=tuple(fabric),
        slower=tuple(nic for nic in kin if is_up(nic)),
        down=tuple(nic for nic in kin if not is_up(nic)),
        others=tuple(nic for nic in rest if nic not in kin),
    )


def _competing(facts: MachineFacts) -> list[Nic]:
    """Return the ports that are up; if some are below a GPU's PCIe switch, return only these."""
    up = [nic for nic in items_of(facts.nics) if is_up(nic)]
    near = _names_near_gpus(facts.links)
    return [nic for nic in up if nic.name in near] or up


def roles_of(facts: MachineFacts) -> dict[tuple[str, int], str] | Unknown:
    """Return the role of every port, by name and port number.

    The training ports are `rail`, `slow rail` and `rail, down`; the others are `bond`, `DPU`, `side`
    (storage, management) and `unused` (not up). Unknown if no text states which ports are up.
    """
    unread = _unread_states(facts)
    if unread is not None:
        return unread
    rails = training_rails(facts)
    roles = {(nic.name, nic.port): _role_aside(nic) for nic in rails.others}
    for role, nics in (("rail", rails.active), ("slow rail", rails.slower), ("rail, down", rails.down)):
        roles |= {(nic.name, nic.port): role for nic in nics}
    return roles


def _role_aside(nic: Nic) -> str:
    if _is_bond(nic):
        return "bond"
    if _is_dpu(nic):
        return "DPU"
    return "side" if is_up(nic) else "unused"


def _widest_group(nics: list[Nic]) -> list[Nic]:
    groups = grouped((_kind(nic), nic) for nic in nics)
    # The widest group has the highest total rate; InfiniBand wins a tie, then the faster port.
    layer, rate = max(groups, key=lambda key: (key[1] * len(groups[key]), key[0] == "InfiniBand", key[1]))
    return groups[layer, rate]


def _kind(nic: Nic) -> tuple[str, float]:
    return value_or(nic.link_layer, ""), value_or(nic.rate_gbps, 0.0)


def _set_aside(nics: list[Nic]) -> tuple[list[Nic], list[Nic]]:
    """Return the plain ports, and the bonds and DPUs.

    If bonds and DPUs are the majority, all ports count as plain.
    """
    side = [nic for nic in nics if _is_bond(nic) or _is_dpu(nic)]
    plain = [nic for nic in nics if nic not in side]
    return (plain, side) if len(plain) >= len(side) else (nics, [])


def _is_bond(nic: Nic) -> bool:
    return "bond" in nic.name or (isinstance(nic.netdev, str) and nic.netdev.startswith("bond"))


def _is_dpu(nic: Nic) -> bool:
    card = load_nic_models().card(nic)
    return card is not None and card.dpu


def card_of(nic: Nic) -> str:
    """Return the PCI slot without the function, which all ports of a card share; the device if unknown."""
    return nic.pci_bus_id.partition(".")[0] if known(nic.pci_bus_id) else nic.name


def _is_kin(nic: Nic, rail: Nic) -> bool:
    same_layer = known(nic.link_layer) and nic.link_layer == rail.link_layer
    return same_layer and known(nic.device_type) and nic.device_type == rail.device_type


def _names_near_gpus(links: tuple[Link, ...] | Unknown) -> set[str]:
    near: set[str] = set()
    for link in items_of(links):
        ends = (link.a, link.b)
        if link.kind in NEAR and sum(end.startswith("GPU") for end in ends) == 1:
            near.update(end for end in ends if not end.startswith("GPU"))
    return near


def candidate_interfaces(facts: MachineFacts) -> tuple[Interface, ...] | Unknown:
    """Return the interfaces over which the ranks might connect.

    Such an interface is up, is not a member of a bond, leads to a network and has, as far as is known, an
    address beyond its link.
    """
    if isinstance(facts.interfaces, Unknown):
        return facts.interfaces
    return tuple(interface for interface in facts.interfaces if _leads_to_a_network(interface))


def _leads_to_a_network(interface: Interface) -> bool:
    is_own_link = interface.up is True and not isinstance(interface.bond, str)
    if not is_own_link or interface.name.startswith(NOT_A_NETWORK):
        return False
    addresses = value_or(interface.addresses, ("unknown",))
    return any(not address.lower().startswith("fe80") for address in addresses)


def default_interface(facts: MachineFacts) -> Interface | None:
    """Return the candidate with the default route; None unless exactly one candidate has this route."""
    holders = [
        interface for interface in items_of(candidate_interfaces(facts)) if interface.is_default_route is True
    ]
    return holders[0] if len(holders) == 1 else None


def meeting_interface(facts: MachineFacts) -> Interface | None:
    """Return the interface over which ranks without RDMA communicate.

    This is the only candidate, or among several the candidate with the default route.
    """
    candidates = items_of(candidate_interfaces(facts))
    return candidates[0] if len(candidates) == 1 else default_interface(facts)
