"""Test a run over a fleet as CSV, Prometheus metrics and Markdown, and lint findings for GitHub."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from assistant.formats import build
from assistant.formats.fleet_formats import (
    acceptance_markdown,
    answers_of,
    fleet_csv,
    fleet_markdown,
    fleet_prometheus,
    node_list,
)
from assistant.formats.lint_formats import github_text
from assistant.formats.predict_formats import writer_of
from probes.fleet.acceptance import Acceptance, HardwareRow, RateRow
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.fleet_result import FleetResult, NodeResult
from probes.fleet.node_report import NodeReport, Reason
from probes.judging.findings import Status
from recipes.lint.document import Place
from recipes.lint.finding import LintFinding, LintReport


def node(name: str, verdict: Status | None = Status.PASS, **fields: Any) -> NodeResult:
    outcome = "ok" if verdict is not None else "timed-out"
    return NodeResult(**{"node": name, "outcome": outcome, "verdict": verdict, **fields})


FAN = Reason(check_id="x", subject="GPU0", status=Status.FAIL, summary="the fan | stands")
RESULT = FleetResult(
    engine="ssh",
    wanted=("a", "b", "c", "d"),
    nodes=(
        node("a"),
        node("b", Status.FAIL, reasons=(FAN,), group="H100"),
        node("c", None, detail="no route"),
        node("d", condition="quarantined", state_reason="fan"),
    ),
    outliers=(
        FleetFinding(kind="slow-part", subject="b GPU3", nodes=("b",), summary="b GPU3 is slow"),
        FleetFinding(kind="slow-part", subject="b GPU4", nodes=("b",), summary="b GPU4 is slow"),
        FleetFinding(kind="few-peers", subject="x", nodes=("b",), summary="too few"),
    ),
    notes=("a @note",),
)


def test_a_row_of_the_csv_has_the_answer_and_the_attributes_of_a_node() -> None:
    reports = [
        NodeReport(
            node=each.node,
            outcome=each.outcome,
            attributes={"driver": "580"} if each.node == "a" else {},
            places=places,
        )
        for each, places in zip(RESULT.nodes, ({"rack": "7"}, {}, {}, {}), strict=True)
    ]
    rows = list(csv.DictReader(io.StringIO(fleet_csv(RESULT, reports))))
    assert [row["answer"] for row in rows] == ["good", "bad", "silent", "out"]
    assert [row["verdict"] for row in rows] == ["PASS", "FAIL", "", "PASS"]
    assert (rows[0]["driver"], rows[0]["rack"], rows[1]["driver"]) == ("580", "7", "")
    assert rows[1]["reason"] == "GPU0: the fan | stands (and 2 more)"
    assert list(rows[0])[-2:] == ["driver", "rack"]


def test_lists_and_answers_of_nodes() -> None:
    assert answers_of(RESULT) == {"a": "good", "b": "bad", "c": "silent", "d": "out"}
    assert node_list(("a", "b")) == "a\nb\n"
    assert node_list(()) == ""


def test_metrics_count_nodes_and_findings() -> None:
    lines = fleet_prometheus(RESULT, 1234.5678).splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values.pop(next(name for name in values if name.startswith("rigtune_build_info"))) == "1"
    assert values == {
        **{f'rigtune_fleet_nodes{{answer="{name}"}}': "1" for name in ("good", "bad", "out", "silent")},
        **{
            f'rigtune_fleet_node_verdict{{node="{name}"}}': value
            for name, value in (("a", "0"), ("b", "3"), ("c", "2"), ("d", "0"))
        },
        **{
            f'rigtune_fleet_node_good{{node="{name}"}}': value
            for name, value in (("a", "1"), ("b", "0"), ("c", "0"), ("d", "0"))
        },
        'rigtune_fleet_node_condition{node="d",condition="quarantined"}': "1",
        'rigtune_fleet_findings{kind="few-peers"}': "1",
        'rigtune_fleet_findings{kind="slow-part"}': "2",
        "rigtune_fleet_last_run_timestamp_seconds": "1234.568",
    }
    assert "timestamp" not in fleet_prometheus(RESULT, None)
    assert fleet_prometheus(RESULT, 0.0).endswith("seconds 0.0\n")


def test_markdown_names_nodes_that_are_not_good_and_escapes_their_words() -> None:
    lines = fleet_markdown(RESULT).splitlines()
    assert lines[0] == "### 1 fit, 1 not, 1 without an answer, 1 out of service of 4 nodes"
    assert lines[2:7] == [
        "| node | verdict | state | reason |",
        "|---|---|---|---|",
        "| `b` | FAIL | healthy | GPU0: the fan \\| stands (and 2 more) |",
        "| `c` | timed-out | healthy | no route |",
        "| `d` | PASS | quarantined | quarantined: fan |",
    ]
    assert lines[7:] == [
        "",
        "#### Slow parts",
        "",
        "- b GPU3 is slow",
        "- b GPU4 is slow",
        "",
        "#### Too few to compare",
        "",
        "- too few",
        "",
        "Note: a &#64;note",
    ]
    assert fleet_markdown(FleetResult(engine="ssh", wanted=("a",), nodes=(node("a"),))).splitlines() == [
        "### 1 fit, 0 not, 0 without an answer of 1 node"
    ]


def hand_over(nodes: int, named: int, **fields: Any) -> list[str]:
    names = tuple(f"n{index}" for index in range(nodes))
    row = HardwareRow(attribute="driver", value="580", nodes=names[:named])
    given = {
        "run": "r1",
        "began": "",
        "fit": names,
        "unfit": (),
        "silent": (),
        "out_of_service": (),
        "outliers": (),
        "common_causes": (),
        "hardware": (row,),
        "nodes": tuple(map(node, names)),
        "rates": (),
        "not_measured": ("fans",),
    }
    report = Acceptance(**{**given, **fields})  # type: ignore[arg-type]
    result = FleetResult(engine="ssh", wanted=names, nodes=tuple(map(node, names)))
    return acceptance_markdown(report, result).splitlines()


@pytest.mark.parametrize(
    ("nodes", "named", "which"),
    [(4, 3, ""), (4, 2, "n0, n1"), (4, 1, "n0"), (2, 1, "n0"), (1, 1, ""), (3, 2, "")],
)
def test_nodes_with_a_value_are_named_unless_they_are_more_than_half(
    nodes: int, named: int, which: str
) -> None:
    assert f"| driver | 580 | {named} | {which} |" in hand_over(nodes, named)


def test_a_hand_over_names_its_run_its_rates_and_its_gaps() -> None:
    lines = hand_over(2, 1, began="2026-11-01", asked="quick")
    assert lines[0] == "# Hand-over of 2 nodes"
    assert {"Run `r1`, begun 2026-11-01.", "Asked: quick.", "- fans", "No rate was measured."} <= set(lines)
    assert "Run `r1`." in hand_over(2, 1)
    rate = {"metric": "gemm", "unit": "flop/s", "group": "H100", "parts": 16, "worst_part": "n0 GPU1"}
    rate |= {"lowest": 6e14, "median": 7e14, "highest": 8e14, "worst": 6e14, "best": 8e14}
    with_share = RateRow(**rate, share=0.71, worst_share=0.61, reference="peak")  # type: ignore[arg-type]
    lines = hand_over(2, 1, rates=(with_share, RateRow(**rate, share=0.71)))  # type: ignore[arg-type]
    shown = [line for line in lines if line.startswith("| gemm")]
    assert (
        "| 16 | 600 TFLOP/s (n0 GPU1) | 700 TFLOP/s | 800 TFLOP/s | 71 % (worst 61 %) | peak | H100 |"
        in (shown[0])
    )
    assert "| no value |" in shown[1]


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (Place(line=3), "line=3,col=1,title"),
        (Place(line=3, column=5, end_column=9), "line=3,col=5,endColumn=9,title"),
        (Place(line=3, column=5, end_line=3, end_column=9), "line=3,col=5,endLine=3,endColumn=9,title"),
        (Place(line=3, column=5, end_line=4, end_column=9), "line=3,col=5,endLine=4,title"),
        (Place(line=3, column=5, end_line=3), "line=3,col=5,endLine=3,title"),
    ],
)
def test_github_gets_an_end_column_only_within_one_line(place: Place, shown: str) -> None:
    finding = LintFinding(rule_id="r", severity="error", document="a:b.sh", place=place, message="no, 5 %")
    line = github_text(LintReport(findings=(finding,)))
    assert line.startswith(f"::error file=a%3Ab.sh,{shown}=rigtune r::")
    assert line.endswith("::no, 5 %25\n")


@pytest.mark.parametrize(("words", "shown"), [("0123456789abcdef\n", "0123456789ab"), ("\n", "unknown")])
def test_a_wheel_states_the_commit_it_was_built_from(tmp_path, monkeypatch, words: str, shown: str) -> None:
    (tmp_path / "formats").mkdir()
    (tmp_path / "COMMIT").write_text(words)
    monkeypatch.setattr(build, "__file__", str(tmp_path / "formats" / "build.py"))
    build.commit.cache_clear()
    assert build.commit() == shown
    build.commit.cache_clear()


def test_cases_in_json_are_one_document() -> None:
    writer = writer_of("json")
    assert writer.head.startswith('{\n  "schema_version": ')
    assert (writer.between, writer.foot) == (",\n", "\n  ]\n}\n")
    assert writer_of("csv").head.startswith("case_id,")
    assert writer_of("csv", collectives=True).head.startswith("case_id,status,reason,time_us,")
