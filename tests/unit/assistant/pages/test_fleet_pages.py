"""Test the pages about a fleet: the answer, the nodes with their reasons, changes, and what to paste."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from assistant.pages.blocks import Page, Section
from assistant.pages.fleet_compare_page import fleet_compare_page
from assistant.pages.fleet_history_page import fleet_history_page
from assistant.pages.fleet_nodes_page import (
    no_nodes,
    no_reported_gpu,
    node_detail,
    node_rows,
    nodes_notices,
    nodes_title,
    report_title,
    reported_measurements,
    reported_section,
)
from assistant.pages.fleet_page import fleet_page
from assistant.pages.fleet_schedule_page import fleet_schedule_page
from assistant.text.plain_writer import text_of
from assistant.usecases.fleet.fleet_store import History, Point
from probes.fleet.advancing import FleetStates, StateChange
from probes.fleet.check_schedule import JobSchedule, Payoff
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.fleet_result import FleetResult, NodeResult
from probes.fleet.node_report import Metric, NodeReport, Reason
from probes.fleet.run_differences import AttributeChange, PartChange, RunComparison, VerdictChange
from probes.fleet.states import PartState
from probes.judging.findings import Status
from tests.support.tui_text import words

NOON = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.timezone.utc)


def lines_of(page: Page) -> list[str]:
    return [" ".join(line.split()) for line in text_of(page, width=300).splitlines() if line.strip()]


def panel_of(section: Section) -> list[str]:
    """Return the lines of a section as the terminal UI draws it."""
    return [" ".join(line.split()) for line in words(section, width=300).splitlines()]


def node(name: str, verdict: Status | None = Status.PASS, **fields: Any) -> NodeResult:
    outcome = fields.pop("outcome", "ok" if verdict is not None else "timed-out")
    return NodeResult(node=name, outcome=outcome, verdict=verdict, **fields)


def reason(summary: str, status: Status = Status.FAIL, subject: str = "GPU0") -> Reason:
    return Reason(check_id="x", subject=subject, status=status, summary=summary)


def slow(*nodes: str, kind: str = "slow-part", summary: str = "") -> FleetFinding:
    return FleetFinding(
        kind=kind, subject=f"{nodes[0]} GPU3", nodes=nodes, summary=summary or f"{nodes[0]} GPU3 is slow"
    )


def result(*nodes: NodeResult, **fields: Any) -> FleetResult:
    base = {"engine": "ssh", "wanted": tuple(each.node for each in nodes), "nodes": nodes}
    return FleetResult(**{**base, **fields})


def shown(*nodes: NodeResult, verbose: bool = False, **fields: Any) -> list[str]:
    return lines_of(fleet_page(result(*nodes, **fields), ",".join, verbose=verbose))


def test_fit_nodes_are_only_counted_and_listed_to_paste():
    assert shown(node("a"), node("b", Status.WARN)) == [
        "2 fit, 0 not, 0 without an answer of 2 nodes",
        "To paste",
        "good --nodelist=a,b",
    ]


def test_each_bad_node_has_its_reason_and_is_excluded():
    lines = shown(
        node("a"),
        node("b", Status.FAIL, reasons=(reason("memory"), reason("fan"), reason("cable", Status.WARN))),
        node("c"),
        node("d", None, detail="no route"),
        node("e", condition="quarantined", state_reason="fan"),
        outliers=(slow("c"),),
    )
    assert lines == [
        "1 fit, 2 not, 1 without an answer, 1 out of service of 5 nodes",
        "Nodes",
        "b FAIL GPU0: memory (and 2 more)",
        "c slow c GPU3 is slow",
        "d timed-out no route",
        "e PASS quarantined: fan",
        "Warnings in common",
        "cable: b",
        "Slow parts",
        "c GPU3 is slow",
        "To paste",
        "good --nodelist=a",
        "bad --exclude=b,c,e",
        "ask again -w 'd'",
    ]


def test_verbose_has_a_line_for_each_node_with_its_place():
    lines = shown(node("a", places={"rack": "7", "switch": "s1"}), node("b"), verbose=True)
    assert lines[1:4] == ["Nodes", "a PASS rack 7, switch s1", "b PASS"]
    assert shown(node("a"), verbose=True)[1:3] == ["Nodes", "a PASS"]


@pytest.mark.parametrize(
    ("second", "shown_as"),
    [("n" * 14, f"{'m' * 15},{'n' * 14}"), ("n" * 15, f"{'m' * 15} and 1 more")],
    ids=["30 characters", "31 characters"],
)
def test_nodes_with_one_reason_share_a_line_with_a_short_pattern(second, shown_as):
    assert shown(node("m" * 15, None), node(second, None))[2] == f"{shown_as} timed-out"


@pytest.mark.parametrize(
    ("number", "last"), [(40, "n39 timed-out d39"), (42, "and 2 more nodes; -v shows all")]
)
def test_forty_kinds_of_trouble_are_shown(number, last):
    lines = shown(*(node(f"n{index}", None, detail=f"d{index}") for index in range(number)))
    assert lines[2 : lines.index("To paste")][-1] == last
    assert lines.index("To paste") == 2 + min(number, 41)


@pytest.mark.parametrize(("number", "more"), [(10, []), (12, ["and 2 more warnings"])])
def test_ten_warnings_are_shown_the_commonest_first(number, more):
    kinds = [reason(f"w{index}", Status.WARN) for index in range(number)]
    lines = shown(node("a", Status.WARN, reasons=tuple(kinds)), node("b", Status.WARN, reasons=(kinds[9],)))
    start = lines.index("Warnings in common") + 1
    assert lines[start] == "w9: a,b"
    assert lines[start + 10 : lines.index("To paste")] == more


@pytest.mark.parametrize(
    ("condition", "state_reason", "text"),
    [
        ("healthy", "", "GPU0: fan"),
        ("suspect", "GPU0: fan", "GPU0: fan"),
        ("suspect", "disk", "GPU0: fan (and 1 more)"),
        ("suspect", "", "GPU0: fan (and 1 more)"),
    ],
)
def test_the_state_is_a_reason_unless_it_repeats_one(condition, state_reason, text):
    made = node("a", Status.FAIL, reasons=(reason("fan"),), condition=condition, state_reason=state_reason)
    assert shown(made)[2] == f"a FAIL {text}"


def change(subject: str, after: str, **fields: Any) -> StateChange:
    return StateChange(subject=subject, at=NOON, before="healthy", after=after, **fields)


def test_changes_of_states_are_listed_with_their_reasons():
    states = FleetStates(
        changes=(
            change("a", "suspect", reason="a GPU3 is slow", check_id="clock"),
            change("a", "quarantined", reason="fan"),
            change("b", "quarantined", reason="fan"),
            change("other", "suspect"),
        ),
        probation=(PartState(subject="c", condition="probation", since=NOON, expires=NOON),),
    )
    lines = shown(node("a"), node("b"), node("c"), engine="slurm", states=states)
    start = lines.index("States") + 1
    assert lines[start : start + 2] == ["quarantined: a,b: fan", "on probation until 2026-11-01: c"]
    assert "drain scontrol update NodeName=a,b State=DRAIN Reason='rigtune: fleet check'" in lines
    lines = shown(node("a"), node("b"), engine="kubernetes", states=states)
    assert "drain kubectl cordon a b" in lines
    assert not [line for line in shown(node("a"), states=states) if line.startswith("drain")]


def test_the_brake_names_the_nodes_that_it_holds():
    lines = shown(node("a"), states=FleetStates(brake="too many", held_back=("a", "b")))
    start = lines.index("States") + 1
    assert lines[start : start + 2] == [
        "the brake held: 2 nodes would be drained at once",
        "too many: a,b; --no-brake quarantines them",
    ]


@pytest.mark.parametrize(("number", "last"), [(40, "suspect, check again after an hour: n39: r39"), (42, "")])
def test_forty_changes_of_states_are_listed(number, last):
    names = [f"n{index}" for index in range(number)]
    changes = tuple(change(name, "suspect", reason=f"r{name[1:]}") for name in names)
    lines = shown(*map(node, names), states=FleetStates(changes=changes))
    listed = lines[lines.index("States") + 1 : lines.index("To paste")]
    assert listed[-1] == (last or "and 2 more changes")
    assert len(listed) == min(number, 41)


def test_nodes_that_are_bad_or_out_of_service_are_excluded():
    bad = node("b", Status.FAIL)
    out = node("o", condition="quarantined")
    assert "bad --exclude=b" in shown(node("a"), bad)
    assert "bad --exclude=o" in shown(node("a"), out)
    assert "bad --exclude=b,o" in shown(bad, out)


@pytest.mark.parametrize(("number", "more"), [(40, []), (41, ["and 1 more; -v shows all"])])
def test_forty_lines_of_each_kind_of_change_are_shown(number, more):
    verdicts = tuple(VerdictChange(node=f"n{index}", before="PASS", after="FAIL") for index in range(number))
    made = RunComparison(runs=("r1", "r2"), verdicts=verdicts)
    lines = lines_of(fleet_compare_page(made, ",".join))
    assert lines[2:42] == [f"n{index}: PASS -> FAIL" for index in range(40)]
    assert lines[42:] == more
    assert len(lines_of(fleet_compare_page(made, ",".join, verbose=True))) == 2 + number


def test_problems_lead_the_list_of_nodes():
    made = result(
        node("p"),
        node("w", Status.WARN),
        node("u", Status.UNKNOWN),
        node("s", None),
        node("c"),
        node("f", Status.FAIL, reasons=(reason("fan"),)),
        outliers=(slow("c"),),
    )
    rows = node_rows(made)
    assert [row.node for row in rows] == ["c", "f", "s", "u", "w", "p"]
    assert ["".join(span.text for span in row.verdict) for row in rows] == [
        "✗ FAIL", "✗ FAIL", "? timed-out", "? UNKNOWN", "! WARN", "✓ PASS",
    ]  # fmt: skip
    assert [row.reason for row in rows[:2]] == ["GPU3 is slow", "GPU0: fan"]
    counted = "2 fit, 2 not, 2 without an answer of 6 nodes"
    assert nodes_title(made, 3, "") == counted
    assert nodes_title(made, 3, "gpu") == f"{counted} · 3 with gpu".replace(" · ", "  ·  ")


@pytest.mark.parametrize(
    ("number", "more"),
    [
        (2, []),
        (3, ["and 1 more cause: `rigtune fleet show` lists them"]),
        (4, ["and 2 more causes: `rigtune fleet show` lists them"]),
    ],
)
def test_two_common_causes_are_named_above_the_list(number, more):
    causes = tuple(slow("a", kind="common-cause", summary=f"cause {index}") for index in range(number))
    lines = lines_of([nodes_notices(result(node("a"), common_causes=(*causes, causes[0]), notes=("n",)))])
    assert lines == ["! n", "! cause 0", "! cause 1", *more]


def test_an_empty_list_says_why():
    assert lines_of([no_nodes("", is_reading=True)]) == ["The answers are being read and compared."]
    assert lines_of([no_nodes("x", is_reading=False)])[0] == "No node matches x."
    assert lines_of([no_nodes("", is_reading=False)]) == ["No answers were read. r reads the folder again."]


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        (node("a"), ["checks its own checks report nothing wrong"]),
        (node("a", Status.WARN), ["checks its own checks report nothing wrong"]),
        (node("a", Status.UNKNOWN), []),
        (node("a", reasons=(reason("fan", Status.WARN),)), ["! WARN GPU0: fan"]),
        (
            node("a", None, detail="d", group="g", places={"rack": "1"}, condition="suspect"),
            ["answer d", "group g", "place rack 1", "state suspect", "outcome timed-out"],
        ),
    ],
)
def test_the_detail_of_a_node_lists_all_that_is_known_of_it(made, lines):
    assert panel_of(node_detail(made, ())) == lines
    assert "slow GPU3 is slow" in panel_of(node_detail(made, (slow("a"),)))


def report(**fields: Any) -> NodeReport:
    return NodeReport(**{"node": "a", "outcome": "ok", **fields})


def test_a_report_is_named_as_the_source_of_the_screens():
    silent, spoken, listed = (
        report(),
        report(verdict=Status.PASS),
        report(attributes={"vbios": "1", "driver": "2"}),
    )
    assert report_title(silent, "run1") == "no report in run1"
    assert report_title(spoken, "run1") == "only its report in run1"
    assert report_title(listed, "run1") == "only its report in run1"
    missing = (
        "missing Not in this report: links, network, processor, limits, logs and details of passed checks."
    )
    assert reported_section(silent, names_command=False) == Section("No report", ())
    assert panel_of(reported_section(listed, names_command=False)) == ["vbios 1", missing]


def test_what_a_node_says_of_itself_and_its_clock():
    made = report(verdict=Status.PASS, version="1.0", detail="odd", claims="b", clock_offset_s=-2.5)
    lines = panel_of(reported_section(made, names_command=True))
    assert lines[:4] == [
        "rigtune 1.0", "answer odd", "calls itself b", "clock -2.5 s from the clock of the head",
    ]  # fmt: skip
    assert "fleet capture -w a" in lines[-1]


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({}, "The node gave no report in this run."),
        ({"driver": "550"}, "The report names no GPUs."),
        ({"gpus": "0"}, "The node reports no NVIDIA GPU."),
        ({"gpus": "8", "gpu_model": "H100"}, "The node reports 8 GPUs: H100."),
        ({"gpus": "1", "gpu_model": "H100"}, "The node reports 1 GPU: H100."),
        ({"gpu_model": "H100"}, "The node reports several GPUs: H100."),
    ],
)
def test_a_report_without_a_list_of_gpus(attributes, text):
    row = no_reported_gpu(report(attributes=attributes))[0]
    assert "".join(span.text for span in row.text) == text


def test_measurements_of_a_report_are_medians():
    def metric(slot: str, *samples: float, quality: str = "good") -> Metric:
        return Metric(
            part_kind="gpu", part_id="id0", slot=slot, metric="copy", unit="byte/s", samples=samples,
            quality=quality,
        )  # fmt: skip

    made = report(metrics=(metric("GPU0", 1e9, 2e9, 9e9), metric("", 1e9, quality="busy"), metric("GPU2")))
    assert lines_of([reported_measurements(made)])[2:] == [
        "GPU0 copy 2 GB/s 3 samples",
        "id0 copy 1 GB/s 1 sample busy",
        "GPU2 copy no sample 0 samples",
    ]
    assert lines_of([reported_measurements(report())])[0] == "This run measured nothing on the node."
    assert lines_of([reported_measurements(report(unmeasured="busy"))])[1] == "busy"


def point(value: float, **fields: Any) -> Point:
    base = {
        "at": NOON.timestamp(), "node": "a", "part_id": "id0", "slot": "GPU0", "metric": "copy",
        "unit": "GB/s", "version": "1",
    }  # fmt: skip
    return Point(**{**base, "value": value, **fields})


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ((1.0, 2.0, 3.0), "GPU0 copy ▁▅█ 3 GB/s 50 % against the median 3 runs since 2026-11-01"),
        ((4.0, 4.0, 2.0), "GPU0 copy ██▁ 2 GB/s -50 % against the median 3 runs since 2026-11-01"),
        ((5.0, 5.0), "GPU0 copy ▁▁ 5 GB/s 0 % against the median 2 runs since 2026-11-01"),
        ((0.0,), "GPU0 copy ▁ 0 GB/s 1 run since 2026-11-01"),
        ((-1e308, 1e308), "GPU0 copy ▁█ 1e+308 GB/s 2 runs since 2026-11-01"),
    ],
)
def test_a_history_is_a_curve_with_its_last_value(values, line):
    stored = History(name="a", points=tuple(map(point, values)))
    assert lines_of(fleet_history_page(stored)) == [line]


def test_a_history_names_parts_and_begins_with_the_changes_of_state():
    stored = History(
        name="a",
        points=(point(1.0, slot=""), *(point(float(n), part_id="id1") for n in range(41))),
        state=PartState(subject="a", condition="suspect", since=NOON),
        changes=(change("a", "suspect", reason="fan", check_id="gpu-fan"),),
    )
    lines = lines_of(fleet_history_page(stored))
    assert lines[:2] == ["State: suspect", "2026-11-01 12:00 healthy -> suspect a: fan (gpu-fan)"]
    assert lines[2].startswith("id0 copy ▁ 1 GB/s")
    assert lines[3].split()[2].count("▁") == 3
    assert len(lines[3].split()[2]) == 40
    assert fleet_history_page(History(name="a"))[1] == Section("", ())


def test_changes_between_two_runs():
    compared = RunComparison(
        runs=("r1", "r2"),
        appeared=("n",),
        verdicts=(
            VerdictChange(node="a", before="PASS", after="FAIL", new=("fan",)),
            VerdictChange(node="b", before="FAIL", after="FAIL", gone=("fan",)),
            VerdictChange(node="c", before="", after="PASS"),
        ),
        attributes=(AttributeChange(attribute="driver", before="1", after="2", nodes=("a", "b")),),
        parts=(
            PartChange(node="a", slot="GPU0", before="", after="id1", came_from="b GPU1"),
            PartChange(node="a", slot="GPU1", before="id2", after=""),
        ),
    )
    assert lines_of(fleet_compare_page(compared, ",".join)) == [
        "r1 -> r2",
        "Nodes",
        "new: n",
        "a: PASS -> FAIL",
        "new: fan",
        "b: FAIL",
        "gone: fan",
        "c: no answer -> PASS",
        "Firmware and software",
        "driver: 1 -> 2 on 2 nodes: a,b",
        "Parts",
        "a GPU0: empty -> id1, which was b GPU1",
        "a GPU1: id2 -> empty",
    ]
    assert lines_of(fleet_compare_page(RunComparison(runs=("r1", "r2")), ",".join))[1:] == [
        "nothing has changed"
    ]


@pytest.mark.parametrize(("number", "last"), [(40, "n39 GPU0: a -> b"), (42, "and 2 more; -v shows all")])
def test_forty_changes_are_shown(number, last):
    compared = RunComparison(
        runs=("r1", "r2"),
        parts=tuple(PartChange(node=f"n{n}", slot="GPU0", before="a", after="b") for n in range(number)),
    )
    assert lines_of(fleet_compare_page(compared, ",".join))[-1] == last
    assert len(lines_of(fleet_compare_page(compared, ",".join))) == 2 + min(number, 41)
    assert len(lines_of(fleet_compare_page(compared, ",".join, verbose=True))) == 2 + number


def test_the_cheapest_check_is_marked_with_its_best_interval():
    job = JobSchedule(
        job_nodes=8,
        costs=(
            Payoff(check_id="none", interval_h=None, check_cost=0.0, remaining_loss=100.0),
            Payoff(check_id="quick", interval_h=24.0, check_cost=10.0, remaining_loss=30.0),
        ),
        best_interval_h={"none": 1e5, "quick": 99_999.0},
    )
    lines = lines_of(fleet_schedule_page([job]))
    assert lines[1] == "Jobs of 8 nodes"
    assert lines[-2] == "no check 0 100 100"
    assert lines[-1].endswith("10 30 40 cheapest, best every 99999 h")
