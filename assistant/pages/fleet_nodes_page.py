"""Show the nodes of a fleet as a list that can be filtered, and the content of one node's report."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assistant.pages.blocks import Column, Row, Section, Table, Words, plain, words
from assistant.pages.fleet_page import answer_words, first_reason, places_of, reasons_of, state_of
from assistant.pages.terms import STATUS
from probes.base.statistics import quantile
from probes.base.units import plural, quantity
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.fleet_result import FleetResult, NodeResult
from probes.fleet.node_report import NodeReport
from probes.fleet.reported_machine import SHOWN_AS_FACTS
from probes.judging.findings import Status

_MOST_CAUSES = 2
_ORDER = {Status.FAIL: 0, None: 1, Status.UNKNOWN: 2, Status.WARN: 3, Status.PASS: 4}
"""Order of the nodes: problems first; a node that fails only by comparison is among the failed nodes."""
MISSING = "Not in this report: links, network, processor, limits, logs and details of passed checks."


class NodeRow(NamedTuple):
    """A line of the list of nodes."""

    node: str
    verdict: Words
    reason: str
    group: str
    searched: str
    """Text in lower case that a filter searches."""


def node_rows(result: FleetResult) -> tuple[NodeRow, ...]:
    """Return all nodes, the worst verdicts first; nodes of the same verdict stay in the order of the run."""
    bad, by_node = set(result.bad), result.slow_by_node()
    ranked = sorted(result.nodes, key=lambda node: 0 if node.node in bad else _ORDER.get(node.verdict, 0))
    return tuple(_row(node, by_node.get(node.node, ()), is_bad=node.node in bad) for node in ranked)


def matching(rows: Sequence[NodeRow], query: str) -> tuple[NodeRow, ...]:
    """Return the rows that contain every word of the query."""
    asked = query.lower().split()
    return tuple(row for row in rows if all(word in row.searched for word in asked))


def _row(node: NodeResult, slow: Sequence[FleetFinding], *, is_bad: bool) -> NodeRow:
    status = Status.FAIL if is_bad else node.verdict
    verdict = STATUS[status].badge if status is not None else words((f"? {node.outcome}", "odd"))
    lines = [line.removeprefix(f"{node.node} ") for line in reasons_of(node, slow)]
    places = [f"{name}{value} {value}" for name, value in node.places.items()]
    parts = (node.node, plain(verdict), *lines, node.group, node.condition, *places)
    return NodeRow(node.node, verdict, first_reason(lines), node.group, " ".join(parts).lower())


def nodes_title(result: FleetResult, shown: int, query: str) -> str:
    """Return the counts of the run, and the number of nodes that the filter leaves."""
    counted = plain(answer_words(result))
    return f"{counted}  ·  {shown} with {query}" if query else counted


def nodes_notices(result: FleetResult) -> Section:
    """Return the remarks about the run, and the first causes that several nodes share."""
    causes = list(dict.fromkeys(finding.summary for finding in result.common_causes))
    lines = [words((f"! {line}", "caution")) for line in (*result.notes, *causes[:_MOST_CAUSES])]
    hidden = len(causes) - _MOST_CAUSES
    if hidden > 0:
        lines.append(words((f"  and {plural(hidden, 'more cause')}: `rigtune fleet show` lists them", "dim")))
    return Section("", tuple(map(Row, lines)))


def no_nodes(query: str, *, is_reading: bool) -> Section:
    """Return the text for an empty list."""
    if is_reading:
        lines = [words(("The answers are being read and compared.", "dim"))]
    elif query:
        lines = [words("No node matches ", (query, "strong"), "."), words("esc clears the filter.")]
    else:
        lines = [words(("No answers were read. r reads the folder again.", "dim"))]
    return Section("", tuple(map(Row, lines)))


def node_detail(node: NodeResult, slow: Iterable[FleetFinding]) -> Section:
    """Return a node's findings, slow parts and remark, then its group, places, unusual state and outcome."""
    rows = [Row(words(f"{each.subject}: {each.summary}"), STATUS[each.status].badge) for each in node.reasons]
    rows += [
        Row(finding.summary.removeprefix(f"{node.node} "), words(("slow", "caution"))) for finding in slow
    ]
    rows += [Row(node.detail, "answer")] * bool(node.detail)
    rows += [Row(node.group, "group")] * bool(node.group)
    rows += [Row(places_of(node), "place")] * bool(node.places)
    if not node.reasons and node.verdict in (Status.PASS, Status.WARN):
        rows.insert(0, Row("its own checks report nothing wrong", "checks"))
    rows += [Row(state_of(node), "state")] * (node.condition != "healthy")
    rows += [Row(node.outcome, "outcome")] * (node.outcome != "ok")
    return Section(node.node, tuple(rows))


def report_title(report: NodeReport, run: str) -> str:
    """Return the title of a node's screens, which names the run instead of a recording."""
    return f"no report in {run}" if _is_silent(report) else f"only its report in {run}"


def _is_silent(report: NodeReport) -> bool:
    return report.verdict is None and not report.attributes


def reported_section(report: NodeReport, *, names_command: bool) -> Section:
    """Return the parts of a report that no other panel shows, and the facts that a report lacks.

    With `names_command` the commands that make and open a recording follow.
    """
    rest = {name: text for name, text in report.attributes.items() if name not in SHOWN_AS_FACTS}
    rows = [Row(text, name.replace("_", " ")) for name, text in rest.items()]
    rows += [Row(report.version, "rigtune")] * bool(report.version)
    rows += [Row(report.detail, "answer")] * bool(report.detail)
    rows += [Row(words((report.claims, "caution")), "calls itself")] * bool(report.claims)
    if report.clock_offset_s:
        rows.append(Row(f"{report.clock_offset_s:+.1f} s from the clock of the head", "clock"))
    rows += [Row(words((MISSING, "dim")), "missing")] * (not _is_silent(report))
    rows += [Row(words((recording_words(report.node), "dim")))] * names_command
    return Section("No report" if _is_silent(report) else "Reported by the node", tuple(rows))


def recording_words(node: str) -> str:
    """Return the commands that make a recording of a node and open the recording."""
    return (
        f"`rigtune fleet capture -w {node}` makes a recording, which has everything; "
        "`rigtune tui --from FILE` opens it."
    )


def no_reported_gpu(report: NodeReport) -> tuple[Row, ...]:
    """Return what a report without a list of GPUs states about the node's GPUs."""
    number, models = report.attributes.get("gpus", ""), report.attributes.get("gpu_model", "")
    if _is_silent(report):
        reported = words("The node gave no report in this run.")
    elif number == "0":
        reported = words(("The node reports no NVIDIA GPU.", "caution"))
    elif models:
        counted = plural(int(number), "GPU") if number.isdecimal() else f"{number or 'several'} GPUs"
        reported = words(f"The node reports {counted}: {models}.")
    else:
        reported = words("The report names no GPUs.")
    return (Row(reported), Row(words((recording_words(report.node), "dim"))))


def reported_measurements(report: NodeReport) -> Section:
    """Return the measurements of a report, one line per part and case, or the command that measures."""
    if not report.metrics:
        return Section(
            "",
            (
                Row(words(("This run measured nothing on the node.", "strong"))),
                Row(report.unmeasured or "`rigtune fleet check --suite quick` measures every node."),
            ),
        )
    rows = tuple(
        (
            metric.slot or metric.part_id,
            metric.metric,
            quantity(quantile(metric.samples, 0.5), metric.unit) if metric.samples else "no sample",
            plural(len(metric.samples), "sample"),
            "" if metric.quality == "good" else words((metric.quality, "caution")),
        )
        for metric in report.metrics
    )
    columns = (
        Column("part", fixed=True),
        Column("measured"),
        Column("median", right=True, fixed=True),
        Column("samples", right=True, fixed=True),
        Column("remark"),
    )
    return Section("Measured in this run", (Table(columns, rows),))
