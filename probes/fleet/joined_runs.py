"""Join several runs over one cluster into one, for its hand-over."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from probes.base.grouping import first_names
from probes.base.units import plural
from probes.fleet.node_report import NodeReport
from probes.judging.findings import WORST_FIRST


class JoinedRuns(NamedTuple):
    """One report for each node of any run, and sentences about nodes without a verdict in one of the runs."""

    reports: tuple[NodeReport, ...]
    gaps: tuple[str, ...]


def joined(runs: Mapping[str, Sequence[NodeReport]]) -> JoinedRuns:
    """Join several runs, given as the reports of each run by its name, with the oldest run first.

    A node has its worst verdict with the reasons of all runs, because a later run may not have repeated the
    failed check. Its measurements and attributes are the newest.
    """
    by_node: dict[str, list[NodeReport]] = {}
    for report in itertools.chain.from_iterable(runs.values()):
        by_node.setdefault(report.node, []).append(report)
    gaps = tuple(_gaps(runs, by_node)) if len(runs) > 1 else ()
    return JoinedRuns(tuple(map(_joined, by_node.values())), gaps)


def _joined(reports: Sequence[NodeReport]) -> NodeReport:
    if len(reports) == 1:
        return reports[0]
    answered = [report for report in reports if report.verdict is not None]
    if not answered:
        return reports[-1]
    newest = answered[-1]
    measured = next((report for report in reversed(answered) if report.metrics), newest)
    reasons = dict.fromkeys(reason for report in answered for reason in report.reasons)
    verdicts = {report.verdict for report in answered}
    return msgspec.structs.replace(
        newest,
        verdict=next(status for status in WORST_FIRST if status in verdicts),
        reasons=tuple(sorted(reasons, key=lambda reason: WORST_FIRST.index(reason.status))),
        metrics=measured.metrics,
        unmeasured=measured.unmeasured,
        attributes={name: value for report in answered for name, value in report.attributes.items()},
        places={name: value for report in answered for name, value in report.places.items()},
        parts={slot: part for report in answered for slot, part in report.parts.items()},
    )


def _gaps(runs: Mapping[str, Sequence[NodeReport]], nodes: Mapping[str, object]) -> Iterator[str]:
    for name, reports in runs.items():
        answered = {report.node for report in reports if report.verdict is not None}
        if missing := [node for node in nodes if node not in answered]:
            yield f"{plural(len(missing), 'node')} gave no verdict in {name} ({first_names(missing)})."
