"""Test the notes of a fleet's run about versions of rigtune and clocks on the nodes."""

from __future__ import annotations

import pytest

from probes.fleet.fleet_result import result_of
from probes.fleet.node_report import NodeReport
from probes.judging.findings import Status

OWN = "rigtune 2.0 (commit abc)"


def notes_of(*reports: NodeReport, own_version: str = OWN) -> str:
    result = result_of(reports, (), engine="ssh", engine_reason="", own_version=own_version)
    return " ".join(result.notes)


def report(node: str, version: str = "2.0", clock_offset_s: float | None = 0.0) -> NodeReport:
    return NodeReport(
        node=node,
        outcome="ok",
        verdict=Status.PASS,
        version=version,
        commit="abc",
        clock_offset_s=clock_offset_s,
    )


def test_nodes_with_another_version_than_this_program_are_named():
    assert not notes_of(report("a"), report("b"))
    notes = notes_of(report("a", "1.0"), report("b", "1.0"), report("c"))
    assert f"rigtune 1.0 (commit abc) runs on 2 nodes instead of {OWN}: a, b" in notes
    many = notes_of(*(report(f"n{number}", "1.0") for number in range(5)))
    assert "5 nodes" in many
    assert many.endswith("n0, n1, n2 ...")


def test_stored_answers_are_compared_with_each_other():
    assert not notes_of(report("a", "1.0"), report("b", "1.0"), own_version="")
    assert "2 versions of rigtune" in notes_of(report("a", "1.0"), report("b"), own_version="")


@pytest.mark.parametrize(("offset_s", "is_named"), [(4.9, False), (5.1, True), (-5.1, True), (None, False)])
def test_a_clock_that_differs_is_named(offset_s, is_named):
    notes = notes_of(report("a"), report("b", clock_offset_s=offset_s))
    assert notes.endswith(": b") is is_named
    if is_named:
        assert f"{offset_s:+.0f} s" in notes


def test_the_result_has_the_version_and_the_clock_of_each_node():
    result = result_of((report("a", clock_offset_s=7.0),), (), engine="ssh", engine_reason="")
    assert (result.nodes[0].version, result.nodes[0].clock_offset_s) == (OWN, 7.0)
