"""The hand-over of a cluster: hardware, verdicts, rates compared with the catalogue, and gaps."""

import statistics
from collections.abc import Iterator, Sequence

from probes.base.grouping import first_names, grouped
from probes.base.record import Record
from probes.base.units import plural
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.comparing.series import kind_of, words_of_kind
from probes.fleet.comparing.sku_matrix import matrix
from probes.fleet.fleet_result import FleetResult, NodeResult
from probes.fleet.node_report import NodeReport
from probes.fleet.node_side import MOST_REASONS
from probes.fleet.question import Question
from probes.judging.findings import Status

SCHEMA_VERSION = 1


class HardwareRow(Record, kw_only=True):
    """One value of one attribute of hardware, firmware or software."""

    attribute: str
    value: str
    """Value; empty for the nodes on which nothing is known."""
    nodes: tuple[str, ...]


class RateRow(Record, kw_only=True):
    """One quantity over all parts of one kind of node."""

    metric: str
    unit: str
    group: str
    """GPU model, memory, power cap and driver."""
    parts: int
    lowest: float
    worst_part: str
    """Node and slot of the part with the lowest rate, or with the highest time."""
    median: float
    highest: float
    worst: float
    """Value of the worst part: the lowest rate, or the highest time."""
    best: float
    reference: str = ""
    """Name of the catalogue's value; empty if the catalogue has none."""
    share: float | None = None
    """Median share of the catalogue's value; 1.0 is equal, less is worse; None if the catalogue has none."""
    worst_share: float | None = None


class Acceptance(Record, kw_only=True):
    """The hand-over report; its JSON is the output of `rigtune fleet accept --format json`."""

    schema_version: int = SCHEMA_VERSION
    run: str
    began: str
    """Start of the run in UTC, ISO 8601; empty if unknown."""
    fit: tuple[str, ...]
    unfit: tuple[str, ...]
    silent: tuple[str, ...]
    """Nodes without a verdict or with the verdict UNKNOWN, which are neither fit nor unfit."""
    out_of_service: tuple[str, ...]
    nodes: tuple[NodeResult, ...]
    hardware: tuple[HardwareRow, ...]
    rates: tuple[RateRow, ...]
    outliers: tuple[FleetFinding, ...]
    common_causes: tuple[FleetFinding, ...]
    not_measured: tuple[str, ...]
    """Gaps of this run, in sentences."""
    notes: tuple[str, ...] = ()
    asked: str = ""
    """Options of the run that affect the answers of the nodes, as text; empty if unknown."""


def acceptance_of(
    reports: Sequence[NodeReport],
    result: FleetResult,
    *,
    run: str,
    began: str,
    questions: Sequence[Question] = (),
    gaps: Sequence[str] = (),
) -> Acceptance:
    """Return the hand-over of the nodes of a run, or of several runs as one.

    `questions` are the recorded options of the runs. `gaps` are sentences about nodes without
    a verdict in one of several runs.
    """
    rates = tuple(_rates(reports))
    return Acceptance(
        run=run,
        began=began,
        fit=result.good,
        unfit=result.bad,
        silent=result.silent,
        out_of_service=result.out,
        nodes=result.nodes,
        hardware=tuple(_hardware(reports)),
        rates=rates,
        outliers=result.outliers,
        common_causes=result.common_causes,
        not_measured=(*_unstated(questions), *gaps, *_gaps(reports, rates)),
        notes=result.notes,
        asked="; then ".join(question.words for question in questions),
    )


def _hardware(reports: Sequence[NodeReport]) -> Iterator[HardwareRow]:
    """Yield the values of each attribute, the most frequent first, then the nodes without a value."""
    answered = [report for report in reports if report.verdict is not None]
    for name, counts in matrix(answered).items():
        nodes = grouped((report.attributes.get(name, ""), report.node) for report in answered)
        for value, _ in counts.most_common():
            yield HardwareRow(attribute=name, value=value, nodes=tuple(nodes[value]))
        if "" in nodes and "" not in counts:
            yield HardwareRow(attribute=name, value="", nodes=tuple(nodes[""]))


def _rates(reports: Sequence[NodeReport]) -> Iterator[RateRow]:
    pairs = []
    for report in reports:
        group = words_of_kind(kind_of(report))
        for metric in report.metrics:
            if metric.is_usable:
                part = f"{report.node} {metric.slot}".strip()
                pairs.append(((metric.metric, metric.unit, group), (part, metric)))
    for (name, unit, group), measured in grouped(pairs).items():
        values = [(metric.median, part) for part, metric in measured]
        lowest, highest = min(values), max(values)
        worst, best = (lowest, highest) if measured[0][1].is_larger_better else (highest, lowest)
        shares = [metric.reference_share for _, metric in measured if metric.reference_share is not None]
        yield RateRow(
            metric=name,
            unit=unit,
            group=group,
            parts=len(measured),
            lowest=lowest[0],
            worst_part=worst[1],
            median=statistics.median(value for value, _ in values),
            highest=highest[0],
            worst=worst[0],
            best=best[0],
            reference=next((metric.reference for _, metric in measured if metric.reference), ""),
            share=statistics.median(shares) if shares else None,
            worst_share=min(shares) if shares else None,
        )


def _unstated(questions: Sequence[Question]) -> Iterator[str]:
    """Yield a sentence if no run stated what was ordered: then a node without any GPU passes its checks."""
    if not questions:
        yield "it is not recorded whether anybody stated what was ordered (--policy or --expect)."
    elif not any(question.policy or question.expect for question in questions):
        yield (
            "nobody stated what was ordered: number and model of GPUs were not compared "
            "(--policy FILE or --expect MACHINE)."
        )


def _gaps(reports: Sequence[NodeReport], rates: Sequence[RateRow]) -> Iterator[str]:
    """Yield a sentence for each gap of this run, so that nobody mistakes a missing result for a pass."""
    answered = [report for report in reports if report.verdict is not None]
    if silent := len(reports) - len(answered):
        yield f"{plural(silent, 'node')} gave no verdict: nothing is known about them."
    unmeasured = [report for report in answered if not report.metrics]
    for was_asked, alike in grouped((bool(report.unmeasured), report.node) for report in unmeasured).items():
        why = "no benchmark gave a result there (see the notes)" if was_asked else "add --suite quick or full"
        yield f"{plural(len(alike), 'node')} without any measurement ({first_names(alike)}): {why}."
    disturbed = sum(metric.was_disturbed for report in answered for metric in report.metrics)
    if disturbed:
        yield f"{plural(disturbed, 'measurement')} taken while others used the node: they do not count."
    for name, rows in grouped((row.metric, row) for row in rates).items():
        missing = len(answered) - len(unmeasured) - len(_nodes_with(answered, name))
        if missing > 0:
            yield f"{name}: not measured on {plural(missing, 'node')} that measured something else."
        if all(row.share is None for row in rows):
            yield f"{name}: the catalogue has no value, so that only peers and earlier runs judge it."
    undecided = grouped(
        (reason.check_id, report.node)
        for report in answered
        for reason in report.reasons
        if reason.status is Status.UNKNOWN
    )
    for check_id, nodes in undecided.items():
        yield f"{check_id}: could not be carried out on {plural(len(set(nodes)), 'node')}."
    if answered:
        yield (
            f"Of checks without a result, only required ones are named, among the first {MOST_REASONS} "
            "reasons of each node."
        )
    if not any(report.places.get("rack") or report.attributes.get("rack") for report in reports):
        yield "No rack of any node is known, so that no rack can be named as a cause: give --topology-from."
    yield "Links between nodes, and jobs over several nodes, are not part of this run."


def _nodes_with(reports: Sequence[NodeReport], metric: str) -> set[str]:
    return {report.node for report in reports for each in report.metrics if each.metric == metric}
