"""Compare all nodes of a run by all comparisons of this package."""

from collections.abc import Iterator, Sequence

from probes.fleet.comparing.common_causes import common_causes
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.comparing.past import Past, slower_than_before
from probes.fleet.comparing.peers import slow_parts
from probes.fleet.comparing.series import Series, series_of
from probes.fleet.comparing.sku_matrix import inconsistencies
from probes.fleet.node_report import NodeReport

_NO_PAST: Past = {}


def compare_nodes(reports: Sequence[NodeReport], past: Past = _NO_PAST) -> tuple[FleetFinding, ...]:
    """Return all findings; those about groups come first, because a common cause explains slow nodes."""
    answered = [report for report in reports if report.outcome == "ok" or report.verdict is not None]
    attributes = {report.node: {**report.attributes, **report.places} for report in answered}
    groups = tuple(series_of(answered))
    causes = (finding for series in groups for finding in common_causes(series, attributes))
    return (*inconsistencies(answered), *causes, *_of_parts(groups, past))


def _of_parts(groups: Sequence[Series], past: Past) -> Iterator[FleetFinding]:
    for series in groups:
        yield from slower_than_before(series, past)
        yield from slow_parts(series)
