"""Compare hardware and firmware over nodes: minorities, roll-outs and mixtures within a node."""

from collections import Counter
from collections.abc import Iterator, Sequence

from probes.base.units import percent, plural
from probes.fleet.comparing.common_causes import RACK
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.comparing.limits import limit
from probes.fleet.node_report import NodeReport

SEPARATOR = " | "
"""Separates several values of an attribute within one node."""
_PLACES = (RACK, "switch", "pdu", "row", "hostname", "serial", "asset", "batch")
"""Attributes that differ between nodes by their nature."""


def matrix(reports: Sequence[NodeReport]) -> dict[str, Counter[str]]:
    """Return how many nodes have each value of each attribute that should be equal."""
    counts: dict[str, Counter[str]] = {}
    for report in reports:
        for name, value in report.attributes.items():
            if name not in _PLACES:
                counts.setdefault(name, Counter())[value] += 1
    return counts


def inconsistencies(reports: Sequence[NodeReport]) -> Iterator[FleetFinding]:
    """Yield values that only few nodes have, attributes without a majority, and nodes whose parts differ."""
    for name, counts in matrix(reports).items():
        yield from _mixed_nodes(name, reports)
        total = sum(counts.values())
        value, most = counts.most_common(1)[0]
        if len(counts) == 1:
            continue
        others = [report for report in reports if report.attributes.get(name) not in (None, value)]
        if most >= limit("majority_share") * total:
            for other, nodes in _nodes_by_value(name, others).items():
                yield FleetFinding(
                    kind="minority",
                    subject=f"{name} = {other}",
                    nodes=nodes,
                    summary=f"{plural(len(nodes), 'node')} with {name} {other}, and {most} with {value}",
                )
        else:
            shares = ", ".join(f"{each} {percent(count / total)}" for each, count in counts.most_common(4))
            yield FleetFinding(
                kind="mixed",
                subject=name,
                nodes=tuple(report.node for report in others),
                summary=f"{name} is mixed ({shares}): a roll-out, or two generations",
            )


def _mixed_nodes(name: str, reports: Sequence[NodeReport]) -> Iterator[FleetFinding]:
    for report in reports:
        value = report.attributes.get(name, "")
        if SEPARATOR in value:
            yield FleetFinding(
                kind="mixed-within-node",
                subject=f"{name} of {report.node}",
                nodes=(report.node,),
                summary=f"the parts of {report.node} differ in {name}: {value}",
            )


def _nodes_by_value(name: str, reports: Sequence[NodeReport]) -> dict[str, tuple[str, ...]]:
    nodes: dict[str, tuple[str, ...]] = {}
    for report in reports:
        value = report.attributes[name]
        nodes[value] = (*nodes.get(value, ()), report.node)
    return nodes
