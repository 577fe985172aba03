"""Changes between two runs over a fleet."""

from __future__ import annotations

import msgspec
import pytest

from probes.fleet.node_report import NodeReport, Reason
from probes.fleet.run_differences import compare_runs, words_of_rate
from probes.judging.findings import Status
from tests.support.simulated_fleet import Fleet

NAMES = ("a", "b")


def report(node: str = "n1", **values) -> NodeReport:
    return NodeReport(node=node, outcome="ok", **{"verdict": Status.PASS, **values})


def failed(check: str) -> dict[str, object]:
    reason = Reason(check_id=check, subject="GPU3", status=Status.FAIL, summary="is bad")
    return {"verdict": Status.FAIL, "reasons": (reason,)}


def test_equal_runs_have_no_difference():
    runs = [report(attributes={"driver": "1"}, parts={"GPU0": "x"}, **failed("ecc"))]
    assert compare_runs(runs, runs, NAMES).is_equal


def test_nodes_that_came_and_went():
    change = compare_runs([report("n1"), report("n2")], [report("n2"), report("n3")], NAMES)
    assert (change.appeared, change.gone, change.is_equal) == (("n3",), ("n1",), False)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, failed("ecc"), ("PASS", "FAIL", ("GPU3: is bad (ecc)",), ())),
        (failed("ecc"), {}, ("FAIL", "PASS", (), ("GPU3: is bad (ecc)",))),
        (failed("ecc"), failed("xid"), ("FAIL", "FAIL", ("GPU3: is bad (xid)",), ("GPU3: is bad (ecc)",))),
        (failed("ecc"), {"verdict": None}, ("FAIL", "", (), ())),
        ({"verdict": None}, failed("ecc"), ("", "FAIL", (), ())),
        ({}, {"verdict": Status.WARN}, ("PASS", "WARN", (), ())),
        ({"verdict": Status.UNKNOWN}, {}, ("UNKNOWN", "PASS", (), ())),
    ],
)
def test_verdicts(before, after, words):
    (change,) = compare_runs([report(**before)], [report(**after)], NAMES).verdicts
    assert (change.before, change.after, change.new, change.gone) == words


def test_the_same_update_on_many_nodes_is_one_change():
    before = [report(f"n{number}", attributes={"driver": "1", "bios": "x"}) for number in range(4)]
    after = [
        report(f"n{number}", attributes={"driver": "2" if number else "1"}, places={"rack": "7"})
        for number in range(4)
    ]
    (change,) = compare_runs(before, after, NAMES).attributes
    assert (change.attribute, change.before, change.after) == ("driver", "1", "2")
    assert change.nodes == ("n1", "n2", "n3")


def test_swapped_and_moved_parts():
    before = [report("n1", parts={"GPU0": "a", "GPU1": "b"}), report("n2", parts={"GPU0": "c"}), report("n3")]
    after = [
        report("n1", parts={"GPU0": "c", "GPU1": "new"}),
        report("n2", parts={"mlx5_0": "d"}),
        report("n3", parts={"GPU0": "e"}),
    ]
    rows = {(each.node, each.slot): each for each in compare_runs(before, after, NAMES).parts}
    assert (rows["n1", "GPU0"].after, rows["n1", "GPU0"].came_from) == ("c", "n2 GPU0")
    assert rows["n1", "GPU1"].came_from == ""
    assert rows["n2", "GPU0"].after == ""
    assert rows["n2", "mlx5_0"].before == ""
    assert not any(node == "n3" for node, _ in rows), "a run that knew no parts shows no change"


def test_rates_of_the_same_parts_and_the_parts_that_fell_behind():
    fleet = Fleet(4, 1, factor=lambda node, gpu: 0.9 if (node, gpu) == (2, 3) else 1.0)
    (rate,) = compare_runs(fleet.run(with_faults=False), fleet.run(change=0.98), NAMES).rates
    assert rate.parts == 32
    assert rate.change == pytest.approx(-0.02, abs=0.005)
    assert rate.slower == ("n2 GPU3",)
    assert "slower (median)" in words_of_rate(rate)


@pytest.mark.parametrize(
    ("change", "is_equal"),
    [(1.0, True), (1.009, True), (0.991, True), (0.989, False), (0.6, False), (1.02, False)],
)
def test_a_whole_fleet_that_became_slower_or_faster_has_changed(change, is_equal):
    before = Fleet(3, 1).run()
    after = [
        msgspec.structs.replace(
            each,
            metrics=tuple(
                msgspec.structs.replace(metric, samples=tuple(change * value for value in metric.samples))
                for metric in each.metrics
            ),
        )
        for each in before
    ]
    comparison = compare_runs(before, after, NAMES)
    assert not comparison.rates[0].slower
    assert comparison.is_equal is is_equal


def test_a_longer_time_is_slower():
    def timed(seconds: float) -> list[NodeReport]:
        return [
            msgspec.structs.replace(
                each,
                metrics=tuple(
                    msgspec.structs.replace(metric, samples=(seconds,), is_larger_better=False)
                    for metric in each.metrics
                ),
            )
            for each in Fleet(1, 1).run()
        ]

    (rate,) = compare_runs(timed(1.0), timed(2.0), NAMES).rates
    assert rate.change == pytest.approx(-0.5)


@pytest.mark.parametrize("values", [{"version": "2"}, {"quality": "busy"}, {"samples": ()}])
def test_other_versions_and_disturbed_measurements_are_not_compared(values):
    before = Fleet(1, 1).run()
    after = [
        msgspec.structs.replace(
            each, metrics=tuple(msgspec.structs.replace(metric, **values) for metric in each.metrics)
        )
        for each in before
    ]
    assert not compare_runs(before, after, NAMES).rates
