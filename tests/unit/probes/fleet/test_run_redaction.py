"""Test that one mapping of names to placeholders redacts the reports of all nodes of a run."""

from __future__ import annotations

import datetime

from hypothesis import given
from hypothesis import strategies as st

from probes.fleet.advancing import FleetStates, StateChange
from probes.fleet.node_report import Metric, NodeReport, Reason
from probes.fleet.run_redaction import RunRedactor, host_placeholders
from probes.fleet.states import PartState
from probes.judging.findings import Status

AT = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)
names = st.lists(
    st.from_regex(r"[a-z]{2,6}-?[0-9]{1,4}", fullmatch=True), min_size=1, max_size=8, unique=True
)


def report(node: str, summary: str = "x", **values) -> NodeReport:
    reason = Reason(check_id="c", subject=node, status=Status.FAIL, summary=summary)
    return NodeReport(node=node, outcome="ok", verdict=Status.FAIL, reasons=(reason,), **values)


@given(names)
def test_every_name_has_its_placeholder_in_every_text(nodes):
    hidden = RunRedactor([report(node) for node in nodes], salt=b"x")
    placeholders = host_placeholders(nodes)
    for node in nodes:
        redacted = hidden.report(report(node, summary=" / ".join(reversed(nodes))))
        assert redacted.node == redacted.reasons[0].subject == placeholders[node]
        assert redacted.reasons[0].summary == " / ".join(placeholders[each] for each in reversed(nodes))


def test_placeholders_have_the_same_width():
    assert list(host_placeholders(["b", "a"])) == ["b", "a"]
    assert host_placeholders(["b", "a"])["a"] == "node-002"
    assert host_placeholders([str(number) for number in range(10_000)])["0"] == "node-00001"


def test_places_and_parts_of_unknown_form_are_numbered_and_versions_stay():
    metric = Metric(part_kind="gpu", part_id="board 7", slot="GPU0", metric="m", unit="1/s", samples=(1.0,))
    reports = [
        report(
            f"n{number}",
            places={"rack": f"hall {number % 2}", "pdu": "east"},
            attributes={"vbios": "96.00.61.00", "bmc": "1.2.3.4 | 1.2.3.5"},
            metrics=(metric,),
        )
        for number in range(3)
    ]
    hidden = RunRedactor(reports, salt=b"x")
    redacted = [hidden.report(each) for each in reports]
    assert [each.places["rack"] for each in redacted] == ["rack-1", "rack-2", "rack-1"]
    assert {each.places["pdu"] for each in redacted} == {"pdu-1"}
    assert redacted[0].attributes == reports[0].attributes
    assert redacted[0].metrics[0].part_id == "part-1"
    assert hidden.past({("m", "board 7"): [1.0]}) == {("m", "part-1"): [1.0]}


def test_states_name_no_node_of_this_run_or_of_another():
    hidden = RunRedactor([report("gpu7")], salt=b"x")
    reason = "other-host9 GPU3: of gpu7"
    state = PartState(
        subject="board 7", condition="probation", since=AT, reason=reason, evidence=("run gpu7",)
    )
    node = PartState(subject="gpu7", condition="quarantined", since=AT, reason="GPU3: of gpu7")
    change = StateChange(
        subject="board 7", at=AT, before="healthy", after="suspect", reason=reason, run="gpu7 run"
    )
    states = hidden.states(
        FleetStates(
            changes=(change,),
            out=(node,),
            suspects=(state,),
            probation=(state,),
            lemons=(state,),
            held_back=("gpu7",),
        )
    )
    text = repr(states)
    assert "gpu7" not in text
    assert "other-host9" not in text
    assert states.out[0].subject == states.held_back[0] == "node-001"
    assert states.out[0].reason == "GPU3: of node-001"
    assert states.lemons[0].subject == "part-1"


def test_why_a_benchmark_gave_no_result_is_redacted_and_teaches_names():
    reports = [
        report("gpu7", unmeasured="gpu7: hostname: vault-x3q cannot reach 10.20.30.41"),
        report("gpu8", summary="vault-x3q is down"),
    ]
    hidden = RunRedactor(reports, salt=b"x")
    first, second = map(hidden.report, reports)
    assert first.unmeasured.startswith("node-001: hostname: host-")
    assert "10.20.30.41" not in first.unmeasured
    assert "vault-x3q" not in second.reasons[0].summary


def test_slots_stay_where_hosts_have_the_same_names():
    metric = Metric(part_kind="gpu", part_id="board 7", slot="GPU1", metric="m", unit="1/s", samples=(1.0,))
    reason = Reason(check_id="c", subject="GPU1", status=Status.FAIL, summary="GPU1 of gpu1 fell off the bus")
    wire = Reason(check_id="d", subject="eth0", status=Status.FAIL, summary="x")
    parts = {"GPU1": "board 7", "eth0": "wire 7"}
    reports = [
        NodeReport(node=node, outcome="ok", reasons=(reason, wire), metrics=(metric,), parts=parts)
        for node in ("gpu0", "gpu1", "eth0")
    ]
    redacted = RunRedactor(reports, salt=b"x").report(reports[0])
    assert [each.subject for each in redacted.reasons] == ["GPU1", "eth0"]
    assert redacted.reasons[0].summary == "GPU1 of node-002 fell off the bus"
    assert redacted.metrics[0].slot == "GPU1"
    assert redacted.node == "node-001"
