"""Hardware and firmware over nodes."""

from __future__ import annotations

from probes.fleet.comparing.compare_nodes import compare_nodes
from probes.fleet.node_report import NodeReport


def fleet(values: dict[int, str], nodes: int = 100, usual: str = "570.1") -> list[NodeReport]:
    return [
        NodeReport(
            node=f"n{node}",
            outcome="ok",
            verdict="PASS",
            attributes={"driver": values.get(node, usual), "rack": f"r{node}"},
        )
        for node in range(nodes)
    ]


def test_one_node_of_many_with_another_value_is_named():
    (finding,) = compare_nodes(fleet({7: "570.2"}, 10_000))
    assert (finding.kind, finding.subject, finding.nodes) == ("minority", "driver = 570.2", ("n7",))


def test_a_roll_out_is_one_finding():
    (finding,) = compare_nodes(fleet(dict.fromkeys(range(40), "570.2")))
    assert (finding.kind, finding.subject, len(finding.nodes)) == ("mixed", "driver", 40)
    assert "570.1 60" in finding.summary


def test_a_node_whose_parts_differ_is_always_named():
    findings = compare_nodes(fleet({3: "570.1 | 570.2"}))
    assert {finding.kind for finding in findings} == {"minority", "mixed-within-node"}


def test_equal_nodes_and_nodes_without_an_answer_yield_nothing():
    reports = fleet({})
    silent = NodeReport(node="x", outcome="no-answer", attributes={"driver": "1"})
    assert not compare_nodes([*reports, silent])


def test_a_node_that_ended_with_a_fault_is_compared_too():
    reports = fleet({})
    faulty = NodeReport(node="x", outcome="exit", verdict="FAIL", attributes={"driver": "570.2"})
    (finding,) = compare_nodes([*reports, faulty])
    assert (finding.kind, finding.nodes) == ("minority", ("x",))
