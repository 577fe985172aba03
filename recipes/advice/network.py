"""Observe what an Ethernet cluster (RoCE) needs on hosts and in the fabric: DSCP, traffic class, PFC, ECN.

Nothing is applied. The traffic class of the IP header is the DSCP << 2 (RFC 2474); NCCL_IB_TC sets it.
"""

import shlex
from collections.abc import Iterator
from typing import Literal

from probes.base.errors import UsageError
from probes.base.grouping import grouped
from probes.base.record import Record, Unknown, first_unknown, items_of, known, only_known
from probes.base.rows import load_rows
from probes.base.units import plural
from probes.catalogue.thresholds import Cited, load_thresholds
from probes.facts import Nic, value_of
from probes.judging.rails import candidate_interfaces, training_ports
from probes.judging.reporting import fold_names
from recipes.advice.advice_lines import Document, Observed, absence, filled, unread
from recipes.advice.machine_parts import Parts, figure

_ECN_BITS = 2
"""Bits of the traffic class below the DSCP, which carry the congestion marks (RFC 3168)."""
_MOST_DSCP, _PRIORITIES, _MOST_CLASS = 63, 8, 255


class Text(Cited, kw_only=True):
    """A text to copy."""

    name: str
    purpose: str
    language: str
    text: str


class HostCommands(Cited, kw_only=True):
    """Commands for one port."""

    kind: Literal["mlx", "other"]
    text: tuple[str, ...]


class TrafficClass(Record, kw_only=True):
    """The class of training traffic."""

    dscp: int
    priority: int
    tc: int
    """Traffic class of the IP header, the value of NCCL_IB_TC: the DSCP << 2, plus ECN bits if set."""


def _class_of(dscp: int, priority: int | None = None, tc: int | None = None) -> TrafficClass:
    """Return the class of a DSCP.

    NICs map a DSCP to the priority DSCP / 8 unless they are configured otherwise.
    """
    return TrafficClass(
        dscp=dscp,
        priority=dscp // _PRIORITIES if priority is None else priority,
        tc=dscp << _ECN_BITS if tc is None else tc,
    )


def stated_class(dscp: int | None, priority: int | None) -> TrafficClass | None:
    """Return the class that the user states; None if no DSCP is stated.

    Raises UsageError for numbers outside of their ranges.
    """
    if dscp is not None and not 0 <= dscp <= _MOST_DSCP:
        raise UsageError(
            f"--dscp {dscp} is no DSCP", f"give 0 to {_MOST_DSCP}; a traffic class is four times as large"
        )
    if priority is not None and not 0 <= priority < _PRIORITIES:
        raise UsageError(f"--priority {priority} is no priority", f"give 0 to {_PRIORITIES - 1}")
    if dscp is None:
        if priority is not None:
            raise UsageError("--priority without --dscp", "state both, as the owner of the fabric names them")
        return None
    return _class_of(dscp, priority)


def observe_network(
    parts: Parts, nodes: int | None = None, stated: TrafficClass | None = None
) -> Iterator[Observed]:
    """Yield the conditions of `recipes/data/advice/network.toml` that hold."""
    facts = parts.facts
    if nodes == 1:
        yield Observed("one_machine")
        return
    if isinstance(facts.nics, Unknown):
        yield unread("nics_unknown", facts.nics)
        return
    if not facts.nics:
        interfaces = fold_names(each.name for each in items_of(candidate_interfaces(facts)))
        yield Observed("plain_ethernet", {"interfaces": interfaces or "unknown"})
        return
    ports = training_ports(facts)
    if isinstance(ports, Unknown):
        yield unread("ports_unknown", ports)
        return
    if not ports:
        yield Observed("no_port_up")
        return
    yield from _of_ports(parts, ports, stated)


def _of_ports(parts: Parts, ports: tuple[Nic, ...], stated: TrafficClass | None) -> Iterator[Observed]:
    efa = tuple(nic for nic in ports if nic.device_type == "efa")
    rest = tuple(nic for nic in ports if nic not in efa)
    unknown = tuple(nic for nic in rest if nic.link_layer not in ("InfiniBand", "Ethernet"))
    infiniband = tuple(nic for nic in rest if nic.link_layer == "InfiniBand")
    roce = tuple(nic for nic in rest if nic.link_layer == "Ethernet")
    if efa:
        yield Observed("efa", {"ports": _names(efa), "count": plural(len(efa), "port")})
    if unknown:
        layer = unknown[0].link_layer
        reason = str(layer) if isinstance(layer, Unknown) else f"the unusual value {layer[:60]}"
        yield Observed("mode_unknown", {"ports": _names(unknown), "reason": reason})
    if infiniband:
        yield Observed("infiniband", {"ports": _names(infiniband)})
    if roce:
        yield from _roce(parts, roce, stated)


def _traffic_class(
    parts: Parts, ports: tuple[Nic, ...], stated: TrafficClass | None
) -> tuple[TrafficClass, str]:
    """Return the class of training traffic, and the condition that names its origin."""
    forced, variable = _forced(ports), _variable(parts)
    if stated is not None:
        return stated, "dscp_stated"
    for tc, condition in ((forced, "dscp_forced"), (variable, "dscp_environment")):
        if tc is not None and 0 <= tc <= _MOST_CLASS:
            return _class_of(tc >> _ECN_BITS, tc=tc), condition
    return _class_of(int(figure("usual_dscp")), int(figure("usual_priority"))), "dscp_unknown"


def _forced(ports: tuple[Nic, ...]) -> int | None:
    """Return the traffic class that all ports force; None if a class is unknown, or if the ports differ."""
    classes = {nic.traffic_class for nic in ports}
    only = classes.pop() if len(classes) == 1 else None
    return only if isinstance(only, int) and only > 0 else None


def _variable(parts: Parts) -> int | None:
    text = value_of(parts.facts, "NCCL_IB_TC")
    return int(text) if text is not None and text.strip().isdecimal() and len(text) < 10 else None


def _roce(parts: Parts, ports: tuple[Nic, ...], stated: TrafficClass | None) -> Iterator[Observed]:
    chosen, origin = _traffic_class(parts, ports, stated)
    words = {
        "ports": _names(ports),
        "count": plural(len(ports), "port"),
        "dscp": str(chosen.dscp),
        "priority": str(chosen.priority),
        "tc": str(chosen.tc),
    }
    yield Observed("roce", words)
    classes = [nic.traffic_class for nic in ports]
    missing = first_unknown(*classes)
    numbers = ", ".join(sorted({str(number) for number in only_known(classes)}))
    if len(set(only_known(classes))) > 1:
        yield Observed("dscp_differs", {"ports": _names(ports), "classes": numbers})
    reason = str(missing) if missing else numbers
    text = value_of(parts.facts, "NCCL_IB_TC")
    variable = absence(parts.facts, "NCCL_IB_TC") if text is None else f"NCCL_IB_TC={text[:60]}"
    yield Observed(origin, {**words, "reason": reason, "variable": variable})
    yield from _disagreement(parts, chosen, origin)
    yield from _hosts(ports, chosen, words)
    yield from _mtu(ports)
    without = [nic for nic in ports if known(nic.gids) and not any(gid.kind == "RoCE v2" for gid in nic.gids)]
    if without:
        yield Observed("gids_missing", {"ports": _names(without)})


def _disagreement(parts: Parts, chosen: TrafficClass, origin: str) -> Iterator[Observed]:
    text = value_of(parts.facts, "NCCL_IB_TC")
    if text is None:
        return
    variable = _variable(parts)
    if variable is None or variable > _MOST_CLASS:
        yield Observed("dscp_invalid", {"tc": text})
    elif origin in ("dscp_stated", "dscp_forced") and variable >> _ECN_BITS != chosen.dscp:
        where = "--dscp" if origin == "dscp_stated" else "nics[].traffic_class"
        yield Observed("dscp_mismatch", {"tc": text, "other": str(chosen.tc), "origin": where})


def _hosts(ports: tuple[Nic, ...], chosen: TrafficClass, words: dict[str, str]) -> Iterator[Observed]:
    named = [nic for nic in ports if isinstance(nic.netdev, str) and (nic.netdev + nic.name).isprintable()]
    nameless = [nic for nic in ports if nic not in named]
    if nameless:
        netdev = nameless[0].netdev
        reason = "the device has no interface"
        if isinstance(netdev, Unknown):
            reason = netdev.words
        elif netdev is not None:
            # Each command is one line: a line break in a name would end it, in spite of quotes.
            reason = "its name has control characters"
        yield Observed("netdev_unknown", {"ports": _names(nameless), "reason": reason})
    for kind in ("mlx", "other"):
        group = [nic for nic in named if (kind == "mlx") == _is_mlx(nic)]
        if group:
            commands = "\n".join(line for nic in group for line in _commands(kind, nic, chosen))
            interfaces = ", ".join(dict.fromkeys(str(nic.netdev) for nic in group))
            more = {"ports": _names(group), "interfaces": interfaces, "commands": commands}
            yield Observed(f"host_{kind}", words | more)


def _is_mlx(nic: Nic) -> bool:
    """Return whether the port belongs to a card with the driver mlx5, for which mlnx_qos is made."""
    return nic.name.startswith("mlx5") or (known(nic.device_type) and nic.device_type.startswith("MT"))


def _commands(kind: str, nic: Nic, chosen: TrafficClass) -> list[str]:
    words = {
        "interface": shlex.quote(str(nic.netdev)),
        "device": shlex.quote(nic.name),
        "dscp": str(chosen.dscp),
        "priority": str(chosen.priority),
        "tc": str(chosen.tc),
        "pfc": ",".join("1" if number == chosen.priority else "0" for number in range(_PRIORITIES)),
    }
    rows = load_rows("recipes", "commands", HostCommands, file="advice/network")
    return [str(filled(line, words)) for row in rows if row.kind == kind for line in row.text]


def _mtu(ports: tuple[Nic, ...]) -> Iterator[Observed]:
    missing = first_unknown(*(nic.mtu for nic in ports))
    if missing is not None:
        yield unread("mtu_unknown", missing)
    largest = load_thresholds().rdma_mtu_minimum_bytes.value
    for mtu, nics in grouped((nic.mtu, nic) for nic in ports if known(nic.mtu)).items():
        words = {"ports": _names(nics), "mtu": str(mtu)}
        yield Observed("mtu_small" if mtu < largest else "mtu_full", words)


def network_documents(parts: Parts, observations: tuple[Observed, ...]) -> tuple[Document, ...]:
    """Return the text for the owner of the fabric; none unless ports with RoCE carry training."""
    words_of = {each.condition: each.words for each in observations}
    if "roce" not in words_of:
        return ()
    status = "in use on the machines"
    if "dscp_unknown" in words_of:
        status = "proposed, not in use yet"
    elif "dscp_stated" in words_of:
        status = "as stated by the owner of the machines"
    ports = items_of(training_ports(parts.facts))
    rates = dict.fromkeys(f"{nic.rate_gbps:g} Gb/s" for nic in ports if known(nic.rate_gbps))
    words = {
        **words_of["roce"],
        "rate": " and ".join(rates) or "an unknown rate",
        "status": status,
        "cnp_dscp": str(int(figure("cnp_dscp"))),
        "cnp_priority": str(int(figure("cnp_priority"))),
    }
    rows = load_rows("recipes", "texts", Text, file="advice/network")
    return tuple(
        Document(name=row.name, purpose=row.purpose, language=row.language, text=filled(row.text, words))
        for row in rows
    )


def _names(nics: tuple[Nic, ...] | list[Nic]) -> str:
    return fold_names(dict.fromkeys(nic.name for nic in nics))
