"""Describe the network: port and CPUs of each GPU, RDMA ports, interfaces, and the fabric behind them."""

import itertools
from collections import Counter
from collections.abc import Sequence

from assistant.pages.machine.facts_words import (
    Line,
    Subject,
    cut,
    first,
    flag,
    joined,
    noted,
    said,
    subject,
    unknown_subject,
)
from probes.base.grouping import grouped
from probes.base.record import Unknown, known, map_known, value_or
from probes.base.units import gbit_per_s, plural
from probes.catalogue.nic_models import load_nic_models
from probes.catalogue.thresholds import load_thresholds
from probes.facts import Interface, MachineFacts, Nic
from probes.judging.affinity import Affinity, affinity_of
from probes.judging.rails import roles_of
from probes.judging.reporting import fold_names, subject_name
from probes.parsers.host.cpulist import parse_cpu_list

_INTERFACES_SHOWN = 8
_NAMES_SHOWN = 6
_COUNTERS_SHOWN = 3
_CPUS_WIDTH = 48
_ADDRESSES_SHOWN = 3
_ROLES = {"side": "storage or management", "rail, down": "rail"}
"""Names of roles that are shown differently from the JSON."""
_USUAL_PHYSICAL = {"ACTIVE": "LinkUp", "DOWN": "Disabled"}


def sections(facts: MachineFacts, *, verbose: bool) -> list[Subject]:
    return [
        _affinity(facts, verbose=verbose),
        _nics(facts, verbose=verbose),
        _fabric(facts),
        _interfaces(facts, verbose=verbose),
    ]


def _affinity(facts: MachineFacts, *, verbose: bool) -> Subject:
    """Return GPUs with their NICs; GPUs of one NUMA node and CPU list share a line."""
    entries = affinity_of(facts)
    if isinstance(entries, Unknown):
        return unknown_subject("Affinity", entries)
    places = grouped((_place(entry, verbose=verbose), entry) for entry in entries)
    lines = []
    for place, here in places.items():
        nics = _pairs(here)
        head = f"{place.text}: " if place.text else ""
        known_words = head + (nics or fold_names([entry.gpu for entry in here])) if head or nics else ""
        lines.append(Line(known_words, place.unknown))
        reasons = grouped((entry.why, entry.gpu) for entry in here if entry.why and verbose)
        lines += [Line(f"  {fold_names(gpus)}: {why}") for why, gpus in reasons.items()]
    unknown = [("NIC of each GPU", entry.nics) for entry in entries if isinstance(entry.nics, Unknown)]
    return subject("Affinity", [*lines, Line("", tuple(unknown[:1]))])


def _place(entry: Affinity, *, verbose: bool) -> Line:
    cpus = entry.cpus if verbose or isinstance(entry.cpus, Unknown) else _cpus(entry.cpus)
    return joined((("NUMA node", said(entry.numa_node, "NUMA node {}")), ("CPUs", said(cpus, "CPUs {}"))))


def _cpus(cpus: str) -> str:
    """Return a short description of a long CPU list.

    On machines whose CPU numbers alternate between sockets, every other CPU belongs to the other socket.
    """
    if len(cpus) <= _CPUS_WIDTH:
        return cpus
    numbers = parse_cpu_list(cpus)
    if known(numbers) and len(numbers) > 1 and {b - a for a, b in itertools.pairwise(numbers)} == {2}:
        return f"{numbers[0]}-{numbers[-1]} ({'odd' if numbers[0] % 2 else 'even'} ones)"
    return cut(cpus, _CPUS_WIDTH)


def _pairs(entries: Sequence[Affinity]) -> str:
    """Return `GPU0 mlx5_0, GPU1 mlx5_1 (PIX)`, with the kind only once if all have the same kind."""
    given = [entry for entry in entries if known(entry.nics) and entry.nics]
    kinds = {value_or(entry.kind, "") for entry in given}
    if not given:
        return ""
    words = []
    for entry in entries:
        nics = "+".join(first(value_or(entry.nics, ()), 4))
        kind = value_or(entry.kind, "") if nics and len(kinds) > 1 else ""
        words.append(" ".join(filter(None, (entry.gpu, nics, kind))))
    same = kinds.pop() if len(kinds) == 1 else ""
    return ", ".join(words) + (f" ({same})" if same else "")


def _nics(facts: MachineFacts, *, verbose: bool) -> Subject:
    nics = facts.nics
    if isinstance(nics, Unknown):
        return unknown_subject("NICs", nics)
    roles = value_or(roles_of(facts), {})
    groups = grouped(
        (_nic(nic, roles.get((nic.name, nic.port), ""), verbose=verbose), subject_name(nic)) for nic in nics
    )
    lines = []
    for line, names in groups.items():
        number = "" if len(names) == 1 else f"{len(names)} x "
        lines.append(line._replace(text=f"{_folded(names, verbose=verbose)}: {number}{line.text or 'port'}"))
    return subject("NICs", [*lines, *_counters(nics, verbose=verbose)] if lines else ["none"])


def _counters(nics: Sequence[Nic], *, verbose: bool) -> list[Line]:
    """Return error counters above their limits; with `verbose`, those above zero, and the bit error rates.

    Counters without a limit are left out.
    """
    numbers = load_thresholds().numbers
    counted = []
    for nic in nics:
        high = [
            f"{count.name} {count.value}"
            for count in value_or(nic.counters, ())
            if (limit := numbers.get(f"{count.name}_most")) and count.value > (0 if verbose else limit.value)
        ]
        if verbose and known(nic.bit_error_rate):
            high.append(f"bit error rate {nic.bit_error_rate:g}")
        counted.append((", ".join(high), subject_name(nic)))
    words = [f"{fold_names(names)}: {high}" for high, names in grouped(counted).items() if high]
    return [Line(word) for word in (words if verbose else first(words, _COUNTERS_SHOWN))]


def _folded(names: Sequence[str], *, verbose: bool) -> str:
    """Return names, with numbered series folded.

    If the names cannot be folded, return only the first few: many cards may be named by their slots.
    """
    parts = fold_names(names).split(", ")
    return ", ".join(parts if verbose else first(parts, _NAMES_SHOWN))


def _nic(nic: Nic, role: str, *, verbose: bool) -> Line:
    card = load_nic_models().card(nic)
    return joined(
        (
            ("role", _ROLES.get(role, role)),
            ("link layer", said(nic.link_layer)),
            ("rate", map_known(nic.rate_gbps, gbit_per_s)),
            ("state", said(nic.state)),
            (
                "physical state",
                noted(nic.physical_state, _USUAL_PHYSICAL.get(value_or(nic.state, ""), "LinkUp")),
            ),
            ("interface", flag(nic.netdev_up, no="interface down")),
            ("type", card.title if card is not None else said(nic.device_type)),
            ("firmware", said(nic.firmware_version, "firmware {}")),
            ("virtual function", flag(nic.is_virtual_function, yes="virtual function")),
            (
                "diagnosis of the card",
                said(cut(nic.advice, 60) if isinstance(nic.advice, str) else nic.advice),
            ),
            ("MTU", said(nic.mtu, "MTU {}") if verbose else ""),
        ),
        tone="" if value_or(nic.state, "ACTIVE") == "ACTIVE" else "bad",
    )


def _fabric(facts: MachineFacts) -> Subject:
    """Return what discovery tools and switches report about the InfiniBand fabric; empty without reports."""
    ports, switches = value_or(facts.fabric_ports, ()), value_or(facts.fabric_switches, ())
    lines: list[Line | str] = []
    if ports:
        nodes = {(port.node_kind, value_or(port.guid, "") or port.node) for port in ports}
        count = Counter(kind for kind, _ in nodes)
        speeds = Counter(
            f"{port.width}X {port.speed}" for port in ports if known(port.width) and known(port.speed)
        )
        slower = sum(port.could_be is not None for port in ports)
        words = [plural(count["switch"], "switch"), plural(count["host"], "adapter")]
        words += [plural(len(ports), "cabled port")]
        words += [f"{number} at {speed}" for speed, number in speeds.most_common(3)]
        lines.append(", ".join(words) + (f"; {slower} below what both ends support" if slower else ""))
    for switch in switches:
        parts = (*value_or(switch.power_supplies, ()), *value_or(switch.fans, ()))
        bad = [
            f"{part.name} {part.value}"
            for part in parts
            if part.value.upper() != "OK" and not part.value.endswith("rpm")
        ]
        lines.append(
            joined(
                (
                    ("name", said(switch.name, "switch {}")),
                    ("part", said(switch.part_number)),
                    ("firmware", said(switch.firmware_version, "firmware {}")),
                    ("temperature", said(switch.temperature_c, "{} °C")),
                    ("parts", ", ".join(first(bad, 4))),
                )
            )
        )
    return subject("IB fabric", lines)


def _interfaces(facts: MachineFacts, *, verbose: bool) -> Subject:
    """Return bonds and the physical interfaces that are not down; equal interfaces share a line."""
    interfaces = facts.interfaces
    if isinstance(interfaces, Unknown):
        return unknown_subject("Network", interfaces)
    members = {name for entry in interfaces for name in _members(entry)}
    shown = [
        entry
        for entry in interfaces
        if _members(entry)
        or (entry.up is not False and entry.is_virtual is not True and entry.name not in members)
    ]
    groups = grouped((_interface(entry, verbose=verbose), entry.name) for entry in shown)
    lines = [
        Line(", ".join([fold_names(names)] + [line.text] * bool(line.text)), line.unknown)
        for line, names in groups.items()
    ]
    texts = lines if verbose else lines[:_INTERFACES_SHOWN]
    down = [
        entry.name
        for entry in interfaces
        if entry.up is False and entry.is_virtual is False and entry not in shown
    ]
    rest = len(interfaces) - len(shown) - len(down)
    left = len(lines) - len(texts)
    others = [f"down: {', '.join(first(down, 6))}"] * bool(down)
    others += [f"{rest} virtual or part of a bond"] * bool(rest)
    more = f"and {left} more" if left else ""
    return subject("Network", [*texts, more, "; ".join(others)] if interfaces else ["none"])


def _members(interface: Interface) -> tuple[str, ...]:
    """Return the interfaces that a bond joins; none for other interfaces."""
    return interface.bond_members if isinstance(interface.bond_members, tuple) else ()


def _interface(interface: Interface, *, verbose: bool) -> Line:
    addresses, speed = interface.addresses, interface.speed_gbps
    members = " ".join(_members(interface))
    return joined(
        (
            ("speed", "" if isinstance(speed, Unknown) else gbit_per_s(speed)),
            ("bond", f"bond of {members}" if members else ""),
            ("addresses", map_known(addresses, lambda given: " ".join(first(given, _ADDRESSES_SHOWN)))),
            ("route", flag(interface.is_default_route is True, yes="default route")),
            ("MTU", noted(interface.mtu, 1500, form="MTU {}")),
            ("state", "" if known(interface.up) else "state not reported"),
            (
                "neighbour",
                "" if not verbose or interface.neighbour is None else said(interface.neighbour, "to {}"),
            ),
        )
    )
