"""Test states of nodes and parts after runs: what changes them, the brake on drains, runs that count once."""

from __future__ import annotations

import datetime

import msgspec
import pytest

from probes.base.record import to_json
from probes.fleet.advancing import Run, advance, load_proofs, summary_of
from probes.fleet.comparing.compare_nodes import compare_nodes
from probes.fleet.node_report import NodeReport, Reason
from probes.fleet.states import MOST_FAILURES, repaired
from probes.judging.check_table import CHECKS
from probes.judging.findings import Status
from tests.support.simulated_fleet import Fleet

START = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)
PARTS = {"GPU3": "GPU-a", "GPU4": "GPU-b"}


def report(node: str, *failed: str, passed: tuple[str, ...] = (), parts: dict[str, str] | None = None):
    reasons = tuple(
        Reason(check_id=check, subject="GPU3", status=Status.FAIL, summary="it is bad") for check in failed
    )
    verdict = Status.FAIL if failed else Status.PASS
    return NodeReport(
        node=node, outcome="ok", verdict=verdict, reasons=reasons, passed=passed, parts=parts or {}
    )


def run_of(name, at, reports, findings=(), past=None, *, known=frozenset()) -> Run:
    return Run(name=name, at=at, reports=reports, findings=findings, past=past or {}, known=known)


def silent(node: str) -> NodeReport:
    return NodeReport(node=node, outcome="timed-out")


def after(*runs, states=None, first=0, size=1, has_brake=True):
    """Return the states and the last changes after runs of one or several reports, a day apart."""
    states, changes = dict(states or {}), ()
    for number, reports in enumerate(runs, first):
        each = (reports,) if isinstance(reports, NodeReport) else tuple(reports)
        fill = tuple(report(f"other{index}") for index in range(size - len(each)))
        run = run_of(f"run {number}", START + datetime.timedelta(days=number), (*each, *fill))
        states_new, changes = advance(run, states, has_brake=has_brake)
        states.update(states_new)
        again = advance(run, states, has_brake=has_brake)
        assert not again.changes, "the same run judged twice changes nothing"
        assert {**states, **again.states} == states
    return states, changes


def test_each_proof_is_a_check_and_has_a_source():
    assert set(load_proofs()) <= {row.id for row in CHECKS}
    assert all(row.source and row.date for row in load_proofs().values())


@pytest.mark.parametrize(
    ("runs", "condition"),
    [
        ([report("n", "shm-size")], "suspect"),
        ([report("n", "shm-size"), report("n", "shm-size")], "quarantined"),
        ([report("n", "xid-hardware")], "quarantined"),
        ([report("n", "shm-size"), report("n", passed=("shm-size",))], "healthy"),
        ([report("n", "shm-size"), report("n")], "suspect"),
        ([report("n", "shm-size"), silent("n"), silent("n")], "suspect"),
        ([report("n", "shm-size"), report("n", "nofile", passed=("shm-size",))], "suspect"),
        ([report("n", "shm-size"), report("n", "nofile", "shm-size")], "quarantined"),
        ([report("n", "gpu-count"), report("n", passed=("gpu-count",))], "quarantined"),
    ],
)
def test_the_condition_of_a_node_follows_its_runs(runs, condition):
    assert after(*runs)[0]["n"].condition == condition


def test_a_silent_node_has_no_state():
    assert after(silent("n"))[0] == {}


def test_a_new_fault_remains_when_the_old_one_has_ended():
    states, _ = after(report("n", "shm-size"), report("n", "nofile", passed=("shm-size",)))
    assert states["n"].check_id == "nofile"


def test_a_pass_counts_once_beside_many_failures():
    """`after` judges each run twice."""
    states, _ = after(report("n", "gpu-count"))
    states["n"] = repaired(states["n"], START)
    many = tuple(f"check-{number}" for number in range(150))
    states, _ = after(report("n", *many, passed=("gpu-count",)), states=states, first=1)
    assert states["n"].passed == 1
    assert len(states["n"].suspected) == 150


def test_every_failure_that_counts_can_confirm():
    many = tuple(f"check-{number}" for number in range(MOST_FAILURES + 1))
    runs = (report("n", *many), report("n", many[-2], passed=many[:-2]))
    assert after(*runs)[0]["n"].condition == "quarantined"
    runs = (report("n", *many), report("n", many[-1], passed=many[:-1]))
    assert after(*runs)[0]["n"].condition == "suspect"


def test_the_part_keeps_its_own_state_and_a_swapped_one_starts_anew():
    states, _ = after(report("n", "ecc-uncorrected", parts=PARTS))
    assert {name: state.condition for name, state in states.items()} == {
        "n": "quarantined",
        "GPU-a": "confirmed",
    }
    states, _ = after(report("n", "ecc-uncorrected", parts={"GPU3": "GPU-new"}), states=states)
    assert states["GPU-new"].reason.startswith("n GPU3")


def test_only_nodes_that_the_run_condemns_are_quarantined():
    """A wrong policy fails 4 of 64 nodes twice, and is corrected while the brake holds."""
    bad = [report(f"n{number}", "shm-size") for number in range(4)]
    states, _ = after(bad, bad, size=64)
    assert {states[each.node].condition for each in bad} == {"confirmed"}
    good = [report(f"n{number}", passed=("shm-size",)) for number in range(1, 4)]
    states, changes = after(good, states=states, first=2, size=64)
    assert [states[f"n{number}"].condition for number in range(4)] == ["confirmed", *["healthy"] * 3]
    assert not [change for change in changes if change.after == "quarantined"]
    states, _ = after([silent("n0"), *good], report("n0"), states=states, first=3, size=64)
    assert states["n0"].condition == "confirmed", "the check was not carried out"


def test_many_small_runs_drain_no_more_than_a_large_one():
    states, known = {}, set()
    for number in range(21):
        at = START + datetime.timedelta(days=number)
        run = run_of(f"r{number}", at, (report(f"n{number}", "gpu-count"),), known=frozenset(known))
        states.update(advance(run, states).states)
        known.add(f"n{number}")
    assert [state.condition for state in states.values()].count("quarantined") == 2
    summary = summary_of(run, states, ())
    assert summary.held_back == ("n20",)
    assert "quarantined before: 2 of 21" in summary.brake


@pytest.mark.parametrize("rate", [0.88, 0.0], ids=["two humps", "no rate"])
def test_a_comparison_that_could_not_judge_clears_no_suspect(rate):
    slow = Fleet(20, 3, factor=lambda node, gpu: 0.88 if node == 0 else 1.0).run()
    states, _ = advance(run_of("a", START, slow, compare_nodes(slow)), {})
    assert states["n0"].condition == "suspect"
    many = Fleet(20, 3, factor=lambda node, gpu: rate if node < 12 else 1.0).run()
    again, _ = advance(run_of("b", START + datetime.timedelta(hours=2), many, compare_nodes(many)), states)
    assert not {state.condition for state in again.values()} & {"healthy"}


def on(node: str, subject: str, **parts: str) -> NodeReport:
    """Return the report of a node that failed a proof on these slots."""
    reason = Reason(check_id="xid-hardware", subject=subject, status=Status.FAIL, summary="it is bad")
    return NodeReport(node=node, outcome="ok", verdict=Status.FAIL, reasons=(reason,), parts=parts)


def test_a_node_cannot_condemn_another_one():
    """A node names another node, or a part of another node, as its own part."""
    hostile = on("n1", "GPU0-1", GPU0="n2", GPU1="GPU-x")
    states, _ = after([hostile, report("n2", parts={"GPU0": "GPU-x"})], size=100)
    assert {name: state.condition for name, state in states.items()} == {"n1": "quarantined"}
    run = run_of("a", START, (on("n1", "GPU0", GPU0="n7"),), known=frozenset({"n7"}))
    assert "n7" not in advance(run, {}).states


@pytest.mark.parametrize("identity", ["0000:0000:0000:0000", "GPU-00000000-0000-0000-0000-000000000000"])
def test_an_identity_of_zeros_has_no_state(identity):
    assert set(after(on("n1", "mlx5_0", mlx5_0=identity))[0]) == {"n1"}


def test_a_slow_part_with_the_identity_of_another_one_has_no_state():
    fleet = Fleet(20, 3, factor=lambda node, gpu: 0.9 if (node, gpu) == (4, 2) else 1.0)
    slow = fleet.run()
    metrics = tuple(
        msgspec.structs.replace(metric, part_id="GPU-5-2") if metric.slot == "GPU2" else metric
        for metric in slow[4].metrics
    )
    slow[4] = msgspec.structs.replace(slow[4], metrics=metrics)
    assert set(advance(run_of("a", START, slow, compare_nodes(slow)), {}).states) == {"n4"}


def test_a_fault_of_several_parts_reaches_each_of_them():
    parts = {f"GPU{number}": f"GPU-{number}" for number in range(8)}
    states, _ = after(on("n", "GPU0-2, GPU5", **parts))
    assert set(states) == {"n", "GPU-0", "GPU-1", "GPU-2", "GPU-5"}
    assert states["GPU-1"].reason == "n GPU1: it is bad"


def test_a_repaired_node_needs_its_own_check_twice_and_then_a_week():
    states, _ = after(report("n", "gpu-count"))
    states["n"] = repaired(states["n"], START)
    passed = report("n", passed=("gpu-count",))
    others = report("n", passed=("nofile",))
    assert after(others, others, states=states, first=1)[0]["n"].condition == "repaired"
    assert after(passed, states=states, first=1)[0]["n"].condition == "repaired"
    assert after(passed, passed, states=states, first=1)[0]["n"].condition == "probation"
    later, changes = after(*[passed] * 9, states=states, first=1)
    assert later["n"].condition == "healthy"
    assert changes[0].before == "probation"


def test_an_older_run_that_is_judged_late_changes_nothing():
    states, _ = after(report("n", "shm-size"), report("n", passed=("shm-size",)))
    old = run_of("late", START - datetime.timedelta(days=1), (report("n", "xid-hardware"),))
    assert not advance(old, states).states


@pytest.mark.parametrize(("size", "bad", "is_held"), [(400, 4, False), (400, 5, True), (8, 2, True)])
def test_the_brake_holds_all_new_quarantines(size, bad, is_held):
    reports = [report(f"n{number}", "gpu-count") for number in range(bad)]
    states, changes = after(reports, size=size)
    run = run_of("run 0", START, (*reports, *(report(f"other{number}") for number in range(size - bad))))
    summary = summary_of(run, states, changes)
    assert len(summary.held_back) == (bad if is_held else 0)
    assert len(summary.drained) == (0 if is_held else bad)
    assert bool(summary.brake) == is_held
    freed, _ = after(reports, size=size, has_brake=False)
    assert {state.condition for state in freed.values()} == {"quarantined"}


def test_three_confirmations_in_a_month_are_a_lemon():
    states = {}
    for number in range(3):
        at = START + datetime.timedelta(days=9 * number)
        run = run_of(f"r{number}", at, (report("n", "gpu-lost"),))
        states.update(advance(run, states).states)
        assert bool(summary_of(run, states, ()).lemons) == (number == 2)
        states["n"] = repaired(states["n"], at)


def test_a_slow_part_is_a_suspect_then_confirmed_and_cleared_by_the_same_comparison():
    fleet = Fleet(20, 3, factor=lambda node, gpu: 0.9 if (node, gpu) == (4, 2) else 1.0)
    slow = fleet.run()
    first, _ = advance(run_of("a", START, slow, compare_nodes(slow)), {})
    assert {name: state.condition for name, state in first.items()} == {
        "n4": "suspect",
        "GPU-4-2": "suspect",
    }
    assert first["n4"].check_id == "peers gemm_flops_per_s"
    later = START + datetime.timedelta(hours=2)
    again, _ = advance(run_of("b", later, slow, compare_nodes(slow)), first)
    assert again["n4"].condition == "quarantined"
    good = fleet.run(with_faults=False)
    cleared, _ = advance(run_of("b", later, good, compare_nodes(good)), first)
    assert {state.condition for state in cleared.values()} == {"healthy"}
    unmeasured = [msgspec.structs.replace(each, metrics=()) for each in good]
    assert not advance(run_of("b", later, unmeasured), first).states
    few = good[4:5]  # too few peers are no comparison
    assert not advance(run_of("b", later, few, compare_nodes(few)), first).states


def test_a_part_that_was_slower_than_before_is_cleared_only_after_a_comparison_with_earlier_runs():
    fleet = Fleet(4, 3, factor=lambda node, gpu: 0.9 if (node, gpu) == (1, 2) else 1.0)
    slow, good = fleet.run(), fleet.run(with_faults=False)
    past = {
        (metric.metric, metric.part_id): [metric.samples[0]] * 5 for each in good for metric in each.metrics
    }
    states, _ = advance(run_of("a", START, slow, compare_nodes(slow, past), past), {})
    assert states["n1"].check_id == "past gemm_flops_per_s"
    later = START + datetime.timedelta(hours=2)
    two = {key: values[:2] for key, values in past.items()}
    unjudged = advance(run_of("b", later, good, (), two), states).states["n1"]
    assert (unjudged.condition, set(unjudged.suspected)) == ("suspect", {"past gemm_flops_per_s"})
    three = {key: values[:3] for key, values in past.items()}
    cleared, _ = advance(run_of("b", later, good, (), three), states)
    assert cleared["n1"].condition == "healthy"


def test_the_summary_is_written_as_json():
    states, changes = after(report("n", "gpu-count"))
    run = run_of("run 0", START, (report("n", "gpu-count"),))
    assert b"quarantined" in to_json(summary_of(run, states, changes))
