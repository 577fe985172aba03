"""Write a run over a fleet for other programs and for people: Markdown, CSV, Prometheus, lists of nodes."""

import csv
import io
from collections.abc import Iterable, Sequence

from assistant.formats.bench_csv import safe_cell
from assistant.formats.build import build_labels
from assistant.formats.ci_reports import code_span, escaped
from assistant.formats.monitoring import VALUES, metric_lines
from assistant.pages.blocks import plain
from assistant.pages.fleet_page import (
    WARNINGS,
    Fold,
    answer_words,
    brief_reason,
    finding_lists,
    verdict_of,
    warning_lines,
)
from probes.base.grouping import first_names
from probes.base.units import percent, plural, quantity
from probes.fleet.acceptance import Acceptance, RateRow
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.fleet_result import FleetResult, NodeResult
from probes.fleet.node_report import NodeReport
from probes.judging.findings import Status

_MOST_NAMES = 8
_COLUMNS = ("node", "answer", "outcome", "verdict", "condition", "group", "reason", "detail")


def answers_of(result: FleetResult) -> dict[str, str]:
    """Return `good`, `bad`, `out` or `silent` for each node."""
    lists = {"good": result.good, "bad": result.bad, "out": result.out, "silent": result.silent}
    return {node: name for name, nodes in lists.items() for node in nodes}


def fleet_csv(result: FleetResult, reports: Sequence[NodeReport]) -> str:
    """Return a header, then a row per node, with every place and attribute as a column."""
    answers, slow = answers_of(result), result.slow_by_node()
    attributes = {report.node: {**report.attributes, **report.places} for report in reports}
    names = sorted({name for values in attributes.values() for name in values})
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*_COLUMNS, *map(safe_cell, names)])
    for node in result.nodes:
        cells = (
            node.node,
            answers.get(node.node, ""),
            node.outcome,
            node.verdict.value if node.verdict is not None else "",
            node.condition,
            node.group,
            brief_reason(node, slow),
            node.detail,
            *(attributes[node.node].get(name, "") for name in names),
        )
        writer.writerow([safe_cell(cell) for cell in cells])
    return text.getvalue()


def node_list(nodes: Iterable[str]) -> str:
    """Return one node per line, as `srun --exclude=./FILE` and host files take them."""
    return "".join(f"{node}\n" for node in nodes)


def fleet_prometheus(result: FleetResult, began_s: float | None) -> str:
    """Return the metrics of a run for the textfile collector of the head node.

    A node without an answer has the value of UNKNOWN. Names of metrics resemble those of `rigtune check`.
    """
    answers = answers_of(result)
    counts = dict.fromkeys(("good", "bad", "out", "silent"), 0)
    for answer in answers.values():
        counts[answer] += 1
    lines = metric_lines(
        "rigtune_build_info", "Version and commit of rigtune; the value is 1.", [(build_labels(), 1)]
    )
    lines += metric_lines(
        "rigtune_fleet_nodes",
        "Nodes of the last run by answer; out is fit and out of service.",
        [({"answer": name}, count) for name, count in counts.items()],
    )
    lines += metric_lines(
        "rigtune_fleet_node_verdict",
        "Verdict of a node about itself: 0 pass, 1 warn, 2 unknown or no answer, 3 fail.",
        [({"node": node.node}, VALUES[node.verdict or Status.UNKNOWN]) for node in result.nodes],
    )
    lines += metric_lines(
        "rigtune_fleet_node_good",
        "Whether jobs should get the node.",
        [({"node": node}, int(answer == "good")) for node, answer in answers.items()],
    )
    lines += metric_lines(
        "rigtune_fleet_node_condition",
        "State of a node that is not healthy, such as suspect or quarantined; the value is 1.",
        [
            ({"node": node.node, "condition": node.condition}, 1)
            for node in result.nodes
            if node.condition != "healthy"
        ],
    )
    kinds = [finding.kind for finding in (*result.outliers, *result.common_causes)]
    lines += metric_lines(
        "rigtune_fleet_findings",
        "Findings of the comparison of nodes by kind.",
        [({"kind": kind}, kinds.count(kind)) for kind in sorted(set(kinds))],
    )
    if began_s is not None:
        lines += metric_lines(
            "rigtune_fleet_last_run_timestamp_seconds", "When the run began.", [({}, round(began_s, 3))]
        )
    return "\n".join(lines) + "\n"


def fleet_markdown(result: FleetResult, fold: Fold = ",".join) -> str:
    """Return the answer, each node that is not good with its reason, the warnings, and the comparison.

    `fold` writes node names as a short pattern.
    """
    lines = [f"### {_answer(result)}", ""]
    good = set(result.good)
    lines += _nodes([node for node in result.nodes if node.node not in good], result)
    lines += _warnings(result, fold, "####")
    for title, findings in finding_lists(result):
        lines += _findings(title, findings)
    lines += [line for note in result.notes for line in (f"Note: {escaped(note)}", "")]
    return "\n".join(lines)


def _answer(result: FleetResult) -> str:
    return plain(answer_words(result))


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(heading)} |", "|---" * len(heading) + "|", *body, ""] if body else []


def _nodes(nodes: Sequence[NodeResult], result: FleetResult) -> list[str]:
    bad, slow = set(result.bad), result.slow_by_node()
    rows = (
        (
            code_span(node.node),
            verdict_of(node, bad),
            node.condition,
            escaped(brief_reason(node, slow)),
        )
        for node in nodes
    )
    return _table(("node", "verdict", "state", "reason"), rows)


def _findings(title: str, findings: Iterable[FleetFinding], level: str = "####") -> list[str]:
    lines = list(dict.fromkeys(f"- {escaped(finding.summary)}" for finding in findings))
    return [f"{level} {title}", "", *lines, ""] if lines else []


def _warnings(result: FleetResult, fold: Fold, level: str) -> list[str]:
    lines = [f"- {escaped(line)}" for line in warning_lines(result, fold)]
    return [f"{level} {WARNINGS}", "", *lines, ""] if lines else []


def acceptance_markdown(report: Acceptance, result: FleetResult, fold: Fold = ",".join) -> str:
    """Return the hand-over report of a cluster; `fold` writes node names as a short pattern."""
    wanted = len(report.nodes)
    lines = [
        f"# Hand-over of {plural(wanted, 'node')}",
        "",
        f"**{_answer(result)}.**",
        "",
        f"Run {code_span(report.run)}" + (f", begun {report.began}." if report.began else "."),
        "",
        *((f"Asked: {escaped(report.asked)}.", "") if report.asked else ()),
        "## Not measured",
        "",
        *(f"- {escaped(gap)}" for gap in report.not_measured),
        "",
        *(line for note in report.notes for line in (f"Note: {escaped(note)}", "")),
        "## Hardware, firmware and software",
        "",
        *_table(
            ("attribute", "value", "nodes", "which"),
            (
                (
                    escaped(row.attribute),
                    escaped(row.value) or "unknown",
                    str(len(row.nodes)),
                    _names(row.nodes, wanted),
                )
                for row in report.hardware
            ),
        ),
        "## Rates",
        "",
        *(
            _table(
                (
                    "quantity",
                    "parts",
                    "worst",
                    "median",
                    "best",
                    "of the catalogue",
                    "compared with",
                    "nodes",
                ),
                map(_rate, report.rates),
            )
            or ["No rate was measured.", ""]
        ),
        *_warnings(result, fold, "##"),
        *(line for title, findings in finding_lists(result) for line in _findings(title, findings, "##")),
        "## Nodes",
        "",
        *_nodes(report.nodes, result),
    ]
    return "\n".join(lines)


def _rate(row: RateRow) -> tuple[str, ...]:
    share = ""
    if row.share is not None and row.worst_share is not None:
        share = f"{percent(row.share)} (worst {percent(row.worst_share)})"
    return (
        escaped(row.metric),
        str(row.parts),
        f"{quantity(row.worst, row.unit)} ({escaped(row.worst_part)})",
        quantity(row.median, row.unit),
        quantity(row.best, row.unit),
        share or "no value",
        escaped(row.reference),
        escaped(row.group),
    )


def _names(nodes: Sequence[str], wanted: int) -> str:
    """Return the first names of the nodes; an empty text if they are more than half of the wanted nodes."""
    if len(nodes) * 2 > wanted:
        return ""
    return escaped(first_names(nodes, _MOST_NAMES))
