"""Find what slow nodes have in common: rack, switch, power unit, image, firmware or batch.

Racks differ from each other without a fault. Therefore a rack counts as one unit in the standard error. For
an attribute that varies within racks, the median of each rack is subtracted, and each node is one unit.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from probes.base.units import percent, plural
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.comparing.limits import limit
from probes.fleet.comparing.peers import node_medians
from probes.fleet.comparing.series import GROUP_ATTRIBUTES, Series, spread_of

RACK = "rack"
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of the median of normal values, divided by the standard error of their mean."""


class _Level(NamedTuple):
    """One value of one attribute, its nodes, and how much slower they are than the other nodes."""

    attribute: str
    value: str
    nodes: frozenset[str]
    effect: float
    deviations: float


def common_causes(series: Series, attributes: Mapping[str, Mapping[str, str]]) -> Iterator[FleetFinding]:
    """Yield the values of attributes whose nodes are slower than the others, the largest cause first.

    `attributes` has the attributes of each node by name. After each finding, its effect is removed from the
    values and the attributes are tested again. So the racks of a slow switch are not reported as well.
    """
    values = node_medians(series)
    if len(values) < limit("fewest_units"):
        return
    centre = statistics.median(values.values())
    if centre <= 0:
        return
    left = {node: value / centre - 1 for node, value in values.items()}
    members = _members(left, attributes)
    for _ in members:
        level = _strongest(left, members, attributes)
        if level is None:
            return
        yield FleetFinding(
            kind="common-cause",
            subject=f"{level.attribute} = {level.value}",
            nodes=tuple(sorted(level.nodes)),
            metric=series.metric,
            change=level.effect,
            deviations=level.deviations,
            summary=f"the {plural(len(level.nodes), 'node')} with {level.attribute} {level.value} are "
            f"{percent(-level.effect)} slower than the others",
        )
        for node in level.nodes:
            left[node] -= level.effect


Members = Mapping[tuple[str, str], frozenset[str]]


def _members(values: Mapping[str, float], attributes: Mapping[str, Mapping[str, str]]) -> Members:
    """Return the nodes of each value of each attribute.

    Attributes that define the group and values that all nodes have are left out.
    """
    members: dict[tuple[str, str], set[str]] = {}
    for node in values:
        for name, value in attributes.get(node, {}).items():
            if value and name not in GROUP_ATTRIBUTES:
                members.setdefault((name, value), set()).add(node)
    return {key: frozenset(nodes) for key, nodes in members.items() if len(nodes) < len(values)}


def _strongest(
    values: Mapping[str, float], members: Members, attributes: Mapping[str, Mapping[str, str]]
) -> _Level | None:
    """Return the significant level that covers most of the slowness; None if no level is significant."""
    racks = _by_rack(values, attributes)
    rack_medians = {rack: statistics.median(values[node] for node in nodes) for rack, nodes in racks.items()}
    rack_of = {node: rack for rack, nodes in racks.items() for node in nodes}
    rest = {node: value - rack_medians[rack_of[node]] for node, value in values.items()}
    of_nodes, of_racks = spread_of(list(rest.values()), 1.0), spread_of(list(rack_medians.values()), 1.0)
    levels = []
    for (name, value), nodes in members.items():
        inside = [rack for rack in {rack_of[node] for node in nodes} if set(racks[rack]) <= nodes]
        is_within = len(inside) * 2 < len({rack_of[node] for node in nodes})
        if is_within:
            effect = statistics.median(rest[node] for node in nodes) - of_nodes.centre
            error, units = of_nodes.deviation, len(nodes)
            known = len(rest)
        else:
            effect = statistics.median(rack_medians[rack] for rack in inside) - of_racks.centre
            error, units = of_racks.deviation, len(inside)
            known = len(rack_medians)
        if known < limit("fewest_units") or units == 0:
            continue
        deviations = effect / (error * _MEDIAN_ERROR / math.sqrt(units))
        if effect < -limit("common_cause_share") and deviations < limit("common_cause_deviations"):
            levels.append(_Level(name, value, nodes, effect, deviations))
    return min(levels, key=lambda level: level.effect * len(level.nodes), default=None)


def _by_rack(
    values: Mapping[str, float], attributes: Mapping[str, Mapping[str, str]]
) -> dict[str, Sequence[str]]:
    """Return the nodes of each rack; a node without a known rack is a unit by itself."""
    racks: dict[str, list[str]] = {}
    for node in values:
        racks.setdefault(attributes.get(node, {}).get(RACK) or f"node {node}", []).append(node)
    return dict(racks)
