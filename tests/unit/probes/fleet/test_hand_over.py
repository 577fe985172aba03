"""Test the hand-over of a cluster: verdicts, rates, and the sentences about what was not measured."""

from __future__ import annotations

import pytest

from probes.fleet.acceptance import acceptance_of
from probes.fleet.advancing import FleetStates
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.fleet_result import FleetResult, result_of
from probes.fleet.joined_runs import joined
from probes.fleet.node_report import Metric, NodeReport, Reason, disputed_parts, is_node_name, part_ids
from probes.fleet.states import PartState
from probes.judging.findings import Status
from tests.unit.probes.fleet.test_states import START

ALWAYS = (
    "Of checks without a result, only required ones are named, among the first",
    "No rack of any node is known",
    "Links between nodes, and jobs over several nodes, are not part of this run.",
)


def metric(value: float, slot: str = "GPU0", **more: object) -> Metric:
    fields: dict[str, object] = {
        "part_kind": "gpu",
        "part_id": f"GPU-{slot}-{value}",
        "slot": slot,
        "metric": "gemm",
        "unit": "flop/s",
        "samples": (value,),
        **more,
    }
    return Metric(**fields)


def node(name: str, verdict: Status | None = Status.PASS, **more: object) -> NodeReport:
    return NodeReport(node=name, outcome="ok" if verdict else "no-answer", verdict=verdict, **more)


def result(*reports: NodeReport, findings: tuple[FleetFinding, ...] = (), **more: object) -> FleetResult:
    return result_of(reports, findings, engine="ssh", engine_reason="", **more)


def gaps(*reports: NodeReport) -> list[str]:
    handed = acceptance_of(reports, result(*reports), run="r", began="")
    return [gap for gap in handed.not_measured[1:] if not gap.startswith(ALWAYS)]


def test_nodes_are_fit_unfit_or_silent() -> None:
    slow = FleetFinding(kind="slow-part", subject="d GPU0", nodes=("d",), summary="slow")
    suspect = FleetFinding(kind="suspect-part", subject="a GPU0", nodes=("a",), summary="slow")
    reports = [
        node("a"),
        node("b", Status.WARN),
        node("c", Status.FAIL),
        node("d"),
        node("e", Status.UNKNOWN),
        node("f", None),
    ]
    answer = result(*reports, findings=(slow, suspect))
    assert (answer.good, answer.bad, answer.silent) == (("a", "b"), ("c", "d"), ("e", "f"))
    assert answer.slow_by_node() == {"d": [slow], "a": [suspect]}
    handed = acceptance_of(reports, answer, run="r", began="")
    assert (handed.fit, handed.unfit, handed.silent) == (answer.good, answer.bad, answer.silent)


def test_the_worst_part_of_a_rate_is_the_slowest_and_of_a_time_the_longest() -> None:
    reports = [
        node("a", metrics=(metric(90.0, reference_share=0.9, reference="catalogue"), metric(100.0, "GPU1"))),
        node("b", metrics=(metric(110.0, reference_share=1.1), metric(1.0, quality="busy"))),
    ]
    (row,) = acceptance_of(reports, result(*reports), run="r", began="").rates
    assert (row.parts, row.lowest, row.median, row.highest) == (3, 90.0, 100.0, 110.0)
    assert (row.worst, row.best, row.worst_part) == (90.0, 110.0, "a GPU0")
    assert (row.share, row.worst_share, row.reference) == (1.0, 0.9, "catalogue")
    times = [
        node(name, metrics=(metric(value, metric="time", unit="s", is_larger_better=False),))
        for name, value in (("a", 2.0), ("b", 3.0))
    ]
    (row,) = acceptance_of(times, result(*times), run="r", began="").rates
    assert (row.worst, row.best, row.worst_part, row.share) == (3.0, 2.0, "b GPU0", None)


def test_hardware_lists_the_usual_value_first_and_unknown_ones_last() -> None:
    reports = [
        node("a", attributes={"bios": "1"}),
        *(node(name, attributes={"bios": "2"}) for name in "bc"),
        node("d"),
        node("e", None, attributes={"bios": "3"}),
    ]
    rows = acceptance_of(reports, result(*reports), run="r", began="").hardware
    assert [(row.value, row.nodes) for row in rows] == [("2", ("b", "c")), ("1", ("a",)), ("", ("d",))]


MEASURED = (metric(1.0, reference_share=1.0),)


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ([node("a", metrics=MEASURED)], []),
        (
            [node("a", metrics=MEASURED), node("b", None)],
            ["1 node gave no verdict: nothing is known about them."],
        ),
        ([node("a")], ["1 node without any measurement (a): add --suite quick or full."]),
        (
            [node("a", unmeasured="torch is missing")],
            ["1 node without any measurement (a): no benchmark gave a result there (see the notes)."],
        ),
        (
            [node("a", metrics=(*MEASURED, metric(2.0, quality="busy"), metric(2.0, quality="busy")))],
            ["2 measurements taken while others used the node: they do not count."],
        ),
        (
            [
                node("a", metrics=MEASURED),
                node("b", metrics=(metric(1.0, metric="copy", reference_share=1.0),)),
            ],
            [
                "gemm: not measured on 1 node that measured something else.",
                "copy: not measured on 1 node that measured something else.",
            ],
        ),
        (
            [node("a", metrics=(metric(1.0),))],
            ["gemm: the catalogue has no value, so that only peers and earlier runs judge it."],
        ),
        (
            [
                node(
                    "a",
                    metrics=MEASURED,
                    reasons=(
                        Reason(check_id="xid", subject="host", status=Status.UNKNOWN, summary=""),
                        Reason(check_id="ecc", subject="host", status=Status.WARN, summary=""),
                    ),
                )
            ],
            ["xid: could not be carried out on 1 node."],
        ),
    ],
)
def test_what_was_not_measured_is_stated(reports: list[NodeReport], words: list[str]) -> None:
    assert gaps(*reports) == words


def test_a_known_rack_is_no_gap() -> None:
    for place in ({"places": {"rack": "7"}}, {"attributes": {"rack": "7"}}):
        reports = [node("a", **place)]
        missing = acceptance_of(reports, result(*reports), run="r", began="").not_measured
        assert not any(gap.startswith("No rack") for gap in missing)


def test_a_run_without_answers_claims_nothing_about_checks() -> None:
    missing = acceptance_of([node("a", None)], result(node("a", None)), run="r", began="").not_measured
    assert not any(gap.startswith("Of checks") for gap in missing)


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ((5.0, -5.0), []),
        (
            (5.5, -9.0),
            ["The clock differs from this one by more than 5 s on 2 nodes, at most by -9 s: n0, n1"],
        ),
        ((None, 6.0), ["The clock differs from this one by more than 5 s on 1 node, at most by +6 s: n1"]),
    ],
)
def test_clocks_that_differ_are_a_note(offsets: tuple[float | None, ...], words: list[str]) -> None:
    reports = [node(f"n{number}", clock_offset_s=offset) for number, offset in enumerate(offsets)]
    assert list(result(*reports).notes) == words


def test_a_condition_takes_a_fit_node_out_of_service() -> None:
    waiting = PartState(subject="a", condition="repaired", since=START, reason="new GPU")
    answer = result(node("a"), node("b"), states=FleetStates(out=(waiting,)))
    assert (answer.good, answer.out, answer.bad) == (("b",), ("a",), ())
    assert [(each.condition, each.state_reason) for each in answer.nodes] == [
        ("repaired", "new GPU"),
        ("healthy", ""),
    ]


def test_the_worst_verdict_and_the_newest_measurements_of_several_runs_count() -> None:
    reason = Reason(check_id="xid", subject="GPU0", status=Status.FAIL, summary="fell off")
    warning = Reason(check_id="ecc", subject="GPU0", status=Status.WARN, summary="rows")
    first = node("a", Status.FAIL, reasons=(reason,), metrics=MEASURED, attributes={"bios": "1", "os": "x"})
    second = node("a", Status.WARN, reasons=(warning, reason), attributes={"bios": "2"}, parts={"GPU0": "G"})
    both = joined({"old": [first, node("b")], "new": [second, node("b", None)]})
    one, other = both.reports
    assert (one.verdict, one.reasons, one.metrics) == (Status.FAIL, (reason, warning), MEASURED)
    assert (one.attributes, one.parts) == ({"bios": "2", "os": "x"}, {"GPU0": "G"})
    assert other.verdict == Status.PASS
    assert both.gaps == ("1 node gave no verdict in new (b).",)
    assert joined({"only": [first, node("b", None)]}).gaps == ()
    nobody = joined({"old": [node("b", None)], "new": [node("b", None, detail="late")]})
    assert nobody.reports[0].detail == "late"


@pytest.mark.parametrize(
    ("name", "is_name"),
    [("n", True), ("user@gpu-1.example:22", True), ("n" * 253, True), ("n" * 254, False), ("", False)]
    + [(name, False) for name in ("-n", "@n", ":n", ".n", "a b", "a;b", "ä", "a/b")],
)
def test_a_node_name_is_safe_in_a_shell(name: str, is_name: bool) -> None:
    assert is_node_name(name) is is_name


def test_an_identity_of_two_nodes_names_no_part() -> None:
    zero, shared = "GPU-00000000-0000", "GPU-1"
    a = node("a", parts={"GPU0": shared, "GPU1": zero}, metrics=(metric(1.0, part_id="GPU-7"),))
    b = node("b", parts={"GPU0": shared, "GPU1": "a"}, metrics=(metric(1.0, part_kind="node", part_id="b"),))
    assert part_ids(a) == {shared, zero, "GPU-7"}
    assert part_ids(b) == {shared, "a"}
    assert disputed_parts([a, b]) == {shared: ["a", "b"], zero: ["a"], "a": ["a", "b"]}
