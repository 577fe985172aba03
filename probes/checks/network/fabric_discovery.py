"""Check with the output of discovery tools that the InfiniBand fabric behind the host is complete.

Source: infiniband-diags manual pages, iblinkinfo(8) (`Could be`) and ibnetdiscover(8);
treydock/infiniband_exporter (ports without a speed); stanford-rc/ibswinfo (states of power supplies and
fans).
"""

from collections import Counter
from collections.abc import Callable, Iterator

from probes.base.record import EvidenceRef, Reason, Unknown, first_unknown, items_of, known, value_or
from probes.base.units import plural
from probes.facts import FabricPort, FabricSwitch
from probes.judging.findings import Evidence, Finding, Findings, Judge, Remedy
from probes.judging.reporting import HOST, Check, on_fact
from probes.parsers.fabric.rdma_words import LANE_GBPS

LINKS = Judge(
    check_id="fabric-links",
    why="If a cable leads nowhere, the fabric has less bandwidth than planned.",
)
SPEED = Judge(check_id="fabric-speed", why="One slow link slows every collective whose route crosses it.")
ISOLATION = Judge(
    check_id="fabric-isolation", why="A host that sees no node on its fabric cannot train with other nodes."
)
SWITCHES = Judge(
    check_id="switch-health", why="A switch that overheats or loses power takes all of its hosts down."
)
LOOK = Remedy(
    text="Check the cable and both of its ends; compare with the cabling plan.", command="iblinkinfo"
)
_NO_PORTS = "the tools' output contains no port"
_AGGREGATION = "Aggregation Node"
"""The SHARP node inside a switch; its speed is that of the switch."""
_MOST_NAMED = 8
_UNREAD = Unknown(Reason.UNPARSABLE, "the tool's output lacks the value")


def _on_ports(judge: Judge) -> Callable[[Callable[[tuple[FabricPort, ...], Evidence], Findings]], Check]:
    """Decorate a check so that it receives the ports of the fabric."""
    return on_fact(judge, "the fabric", lambda facts: facts.fabric_ports)


@_on_ports(LINKS)
def fabric_links(ports: tuple[FabricPort, ...], evidence: Evidence) -> Iterator[Finding]:
    if not ports:
        yield LINKS.skipped(HOST, _NO_PORTS)
        return
    # A port without a partner shows its nominal speed if no cable is connected. If the speed has no known
    # name, a cable is connected, but the link does not work.
    broken = [
        port
        for port in ports
        if port.peer is None and isinstance(port.speed, Unknown) and port.node_kind == "switch"
    ]
    for port in broken:
        yield LINKS.warned(
            _name(port),
            "the port has a link but no partner",
            expected="a partner, or no link",
            observed=f"the speed is {port.speed}",
            remedy=LOOK,
            evidence=port.evidence,
        )
    cabled = [port for port in ports if port.peer is not None]
    if not broken:
        yield LINKS.passed(
            HOST,
            "every cabled port has its partner",
            observed=f"{plural(len(cabled), 'port')} with a partner, "
            f"{len(ports) - len(cabled)} without a cable",
            evidence=_first(ports),
        )


@_on_ports(SPEED)
def fabric_speed(ports: tuple[FabricPort, ...], evidence: Evidence) -> Iterator[Finding]:
    cabled = [port for port in ports if port.peer is not None and _AGGREGATION not in port.node + port.peer]
    if not cabled:
        yield SPEED.skipped(HOST, "the tools' output contains no link between two nodes")
        return
    rates = {_name(port): _rate(port) for port in cabled}
    hosts = {port.node for port in cabled if port.node_kind == "host"}
    # Links to hosts and links between switches are judged separately, because their usual rates may differ.
    to_host = {_name(port): port.node in hosts or port.peer in hosts for port in cabled}
    usual = {
        kind: Counter(rate for name, rate in rates.items() if rate and to_host[name] is kind).most_common(1)
        for kind in (True, False)
    }
    slow = [
        port for port in cabled if port.could_be or _is_slow(rates[_name(port)], usual[to_host[_name(port)]])
    ]
    for port in slow[:_MOST_NAMED]:
        yield SPEED.warned(
            _name(port),
            "the link is slower than it could be",
            expected=port.could_be or f"{usual[to_host[_name(port)]][0][0]:g} Gb/s, like the others",
            observed=f"{port.width}X {port.speed} to {port.peer}",
            remedy=LOOK,
            evidence=port.evidence,
        )
    if len(slow) > _MOST_NAMED:
        rest = slow[_MOST_NAMED:]
        yield SPEED.warned(
            HOST,
            f"{plural(len(rest), 'more port')} with a link that is slower than it could be",
            expected="the rate of the others",
            observed=", ".join(_name(port) for port in rest[:_MOST_NAMED]),
            remedy=LOOK,
            evidence=_first(rest),
        )
    unread = [port for port in cabled if rates[_name(port)] is None and not port.could_be]
    if unread:
        reason = first_unknown(*(port.speed for port in unread)) or _UNREAD
        yield SPEED.undetermined(
            HOST, reason, what=f"the link speed of {plural(len(unread), 'port')}", evidence=_first(unread)
        )
    elif not slow:
        observed = Counter(f"{port.width}X {port.speed}" for port in cabled)
        yield SPEED.passed(
            HOST,
            "no link of the fabric is slow",
            observed=", ".join(f"{times} at {words}" for words, times in observed.most_common()),
            evidence=_first(cabled),
        )


@_on_ports(ISOLATION)
def fabric_isolation(ports: tuple[FabricPort, ...], evidence: Evidence) -> Iterator[Finding]:
    hosts = [port for port in ports if port.node_kind == "host"]
    if not hosts:
        yield ISOLATION.skipped(HOST, "the tools' output contains no host")
        return
    if any(port.peer is not None for port in ports):
        yield ISOLATION.passed(
            HOST,
            "the hosts see other nodes of the fabric",
            observed=f"{plural(len({port.node for port in hosts}), 'host')}",
            evidence=_first(hosts),
        )
        return
    for port in hosts:
        yield ISOLATION.failed(
            _name(port),
            "the host sees only itself on its fabric",
            expected="a switch at the other end",
            observed="no link",
            remedy=Remedy(
                text="Check the cable, the switch port, and that a subnet manager runs.", command="ibstat"
            ),
            evidence=port.evidence,
        )


@on_fact(SWITCHES, "the state of the switches", lambda facts: facts.fabric_switches)
def switch_health(switches: tuple[FabricSwitch, ...], evidence: Evidence) -> Findings:
    return [*map(_judge_switch, switches)] or SWITCHES.skipped(HOST, "no state of a switch is known")


def _judge_switch(switch: FabricSwitch) -> Finding:
    name = value_or(switch.name, "switch")
    parts = items_of(switch.power_supplies) + items_of(switch.fans)
    bad = [
        f"{part.name}: {part.value}"
        for part in parts
        if not part.value.endswith("rpm") and part.value.upper() != "OK"
    ]
    if bad:
        return SWITCHES.warned(
            name,
            "parts of the switch do not work",
            expected="OK",
            observed=", ".join(bad),
            remedy=Remedy(text="Replace the part, and check the power feed and the air flow of the switch."),
            evidence=switch.evidence,
        )
    if not parts:
        unknown = first_unknown(switch.fans) or _UNREAD
        return SWITCHES.undetermined(
            name, unknown, what="the state of fans and power supplies", evidence=switch.evidence
        )
    kinds = (("fans", switch.fans), ("power supplies", switch.power_supplies))
    good = " and ".join(kind for kind, states in kinds if items_of(states))
    hot = f"{switch.temperature_c} °C" if known(switch.temperature_c) else ""
    return SWITCHES.passed(name, f"{good} work", observed=hot, evidence=switch.evidence)


def _name(port: FabricPort) -> str:
    return f"{port.node} port {port.port}"


def _rate(port: FabricPort) -> float | None:
    lane = LANE_GBPS.get(port.speed) if known(port.speed) else None
    return lane * port.width if lane is not None and known(port.width) else None


def _is_slow(rate: float | None, usual: list[tuple[float, int]]) -> bool:
    """Return whether a rate is below the most frequent rate of the links of the same kind.

    If fewer than three links have the most frequent rate, no rate counts as slow.
    """
    return rate is not None and bool(usual) and usual[0][1] > 2 and rate < usual[0][0]


def _first(ports: list[FabricPort] | tuple[FabricPort, ...]) -> tuple[EvidenceRef, ...]:
    """Return only the sources as evidence, because the output for a fabric has thousands of lines."""
    return tuple(
        dict.fromkeys(EvidenceRef(source=ref.source, key=ref.key) for port in ports for ref in port.evidence)
    )
