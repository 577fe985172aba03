"""Which RDMA ports carry training. A node also has ports for storage and management, and those may be down or
slower.
"""

from __future__ import annotations

from collections.abc import Iterable

from probes.base.record import NOT_RECORDED, Record, Unknown, known, value_or
from probes.catalogue.nic_models import load_nic_models
from probes.facts import Link, MachineFacts, Nic

NEAR = frozenset({"PIX", "PXB"})
"""A NIC below the same PCIe switch as a GPU was put there for it."""


class Rails(Record, kw_only=True):
    """The ports of a machine by what they are for."""

    active: tuple[Nic, ...] = ()
    """Training ports that are up, at the rate that most of them have."""
    slower: tuple[Nic, ...] = ()
    """Up and of the same kind, but below the rate of the others."""
    down: tuple[Nic, ...] = ()
    """Of the same kind, and not up."""
    others: tuple[Nic, ...] = ()
    """Storage, management, unused."""


def is_up(nic: Nic) -> bool:
    """Whether it carries traffic; where only its network interface is known, that one's state counts."""
    return nic.state == "ACTIVE" or (isinstance(nic.state, Unknown) and nic.netdev_up is True)


def training_rails(facts: MachineFacts) -> Rails:
    """Sort the ports. Pure guesswork is avoided: a port counts as a rail by three facts in turn.

    Of the ports that are up, the group of one link layer and rate with the most bandwidth is the fabric;
    where the PCIe distances are known, only ports below a GPU's switch compete. Bonds and DPUs stand aside
    for plain ports of the same rate, unless they are the majority (some machines train over them). A port
    outside that group belongs to it when it has the same link layer and device type (and, where known, sits
    below a GPU's switch too); the unused second port of a card does not, unless other cards use both. When no
    port is up, all of them are `down`.
    """
    nics = facts.nics if known(facts.nics) else ()
    up = [nic for nic in nics if is_up(nic)]
    if not up:
        return Rails(down=tuple(nics))
    near = _names_near_gpus(facts.links) & {nic.name for nic in up}
    fabric, aside = _set_aside(_widest_group([nic for nic in up if nic.name in near] or up))
    chosen = {(nic.name, nic.port) for nic in fabric}
    rest = [nic for nic in nics if (nic.name, nic.port) not in chosen]
    kin = [
        nic
        for nic in rest
        if _is_kin(nic, fabric[0])
        and nic not in aside
        and (not near or nic.name in _names_near_gpus(facts.links))
    ]
    if not any(_is_bond(nic) for nic in fabric):
        kin = [nic for nic in kin if not _is_bond(nic)]
    cards = [_card(nic) for nic in fabric]
    if len(cards) == len(set(cards)):
        kin = [nic for nic in kin if is_up(nic) or _card(nic) not in cards]
    return Rails(
        active=tuple(fabric),
        slower=tuple(nic for nic in kin if is_up(nic)),
        down=tuple(nic for nic in kin if not is_up(nic)),
        others=tuple(nic for nic in rest if nic not in kin),
    )


def roles_of(facts: MachineFacts) -> dict[tuple[str, int], str] | Unknown:
    """What every port is for, by name and port: `rail`, `slow rail`, `rail, down`; of the others `bond`,
    `DPU`, `side` (storage, management) and `unused` (not up). Unknown where no text tells the state of any
    port.
    """
    if isinstance(facts.nics, Unknown):
        return facts.nics
    if facts.nics and all(
        isinstance(nic.state, Unknown) and not isinstance(nic.netdev_up, bool) for nic in facts.nics
    ):
        return facts.nics[0].state if isinstance(facts.nics[0].state, Unknown) else NOT_RECORDED
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
    groups: dict[tuple[str, float], list[Nic]] = {}
    for nic in nics:
        key = (value_or(nic.link_layer, ""), value_or(nic.rate_gbps, 0.0))
        groups.setdefault(key, []).append(nic)
    layer, rate = max(groups, key=lambda key: (key[1] * len(groups[key]), key[0] == "InfiniBand", key[1]))
    return groups[layer, rate]


def _set_aside(nics: list[Nic]) -> tuple[list[Nic], list[Nic]]:
    """The plain ports, and the bonds and DPUs among them; all of them as they are where those are the
    majority.
    """
    side = [nic for nic in nics if _is_bond(nic) or _is_dpu(nic)]
    plain = [nic for nic in nics if nic not in side]
    return (plain, side) if len(plain) >= len(side) else (nics, [])


def _is_bond(nic: Nic) -> bool:
    return "bond" in nic.name or (isinstance(nic.netdev, str) and nic.netdev.startswith("bond"))


def _is_dpu(nic: Nic) -> bool:
    card = load_nic_models().card(nic)
    return card is not None and card.dpu


def _card(nic: Nic) -> str:
    """The PCI slot without the function, which counts the ports of a card; the device where the slot is
    unknown.
    """
    return nic.pci_bus_id.partition(".")[0] if known(nic.pci_bus_id) else nic.name


def _is_kin(nic: Nic, rail: Nic) -> bool:
    same_layer = known(nic.link_layer) and nic.link_layer == rail.link_layer
    return same_layer and known(nic.device_type) and nic.device_type == rail.device_type


def _names_near_gpus(links: Iterable[Link] | Unknown) -> set[str]:
    if isinstance(links, Unknown):
        return set()
    near: set[str] = set()
    for link in links:
        ends = (link.a, link.b)
        if link.kind in NEAR and sum(end.startswith("GPU") for end in ends) == 1:
            near.update(end for end in ends if not end.startswith("GPU"))
    return near
