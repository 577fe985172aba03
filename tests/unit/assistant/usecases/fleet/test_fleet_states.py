"""Test how `rigtune fleet check` updates, stores and prints the states of nodes, from stored answers."""

from __future__ import annotations

import datetime
import json

import pytest

from assistant.cli import command_line
from assistant.usecases.fleet.fleet_store import states_in, update_states
from probes.fleet.advancing import Advance
from probes.fleet.node_report import NodeReport, Reason
from probes.fleet.states import PartState
from probes.judging.findings import Status
from tests.support.simulated_fleet import write_run

pytest.importorskip("ClusterShell")
START = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)


def report(number: int, *failed: str, passed: tuple[str, ...] = ()) -> NodeReport:
    reasons = tuple(
        Reason(check_id=check, subject="GPU3", status=Status.FAIL, summary=f"{check} is bad")
        for check in failed
    )
    verdict = Status.FAIL if failed else Status.PASS
    return NodeReport(
        node=f"n{number}",
        outcome="ok",
        verdict=verdict,
        reasons=reasons,
        passed=passed,
        parts={"GPU3": f"GPU-{number}"},
    )


@pytest.fixture
def check(tmp_path, capsys):
    """Return a function that judges a run of 100 nodes on a day and returns exit code, JSON and text."""

    def run(day: float, *reports: NodeReport, options: tuple[str, ...] = (), engine: str = "exec"):
        folder = tmp_path / f"day {day}"
        first = len(reports) + 1
        write_run(
            folder,
            [*reports, *(report(number) for number in range(first, 101))],
            START + datetime.timedelta(days=day),
        )
        words = ["fleet", "check", "--engine", engine, "-w", "n[1-100]", "--rigtune", "no-such-program"]
        words += ["--out", str(folder), "--store", str(tmp_path / "store.sqlite"), "-q", *options]
        code = command_line(words)
        text = capsys.readouterr().out
        assert command_line([*words, "--format", "json"]) == code
        return code, json.loads(capsys.readouterr().out), " ".join(text.split())

    return run


def test_a_proof_is_quarantined_at_once_and_the_reason_is_shown(check, tmp_path):
    code, result, text = check(0, report(1, "gpu-count"), report(2, "shm-size"))
    assert code == 1
    assert "quarantined: n1: GPU3: gpu-count is bad (gpu-count)" in text
    assert "suspect, check again after an hour: n2" in text
    assert [state["subject"] for state in result["states"]["out"]] == ["n1"]
    conditions = {node["node"]: node["condition"] for node in result["nodes"]}
    assert (conditions["n1"], conditions["n2"], conditions["n3"]) == ("quarantined", "suspect", "healthy")
    states = states_in(tmp_path / "store.sqlite")
    again = check(0, report(1, "gpu-count"), report(2, "shm-size"))
    assert again[:2] == (code, result)
    assert again[2] == text
    assert states_in(tmp_path / "store.sqlite") == states


def test_a_node_out_of_service_is_not_in_the_list_of_good_nodes_until_it_is_tested(check, tmp_path, capsys):
    check(0, report(1, "gpu-count"))
    passed = report(1, passed=("gpu-count",))
    code, _, text = check(1, passed)
    assert (code, "1 out of service" in text, "--exclude=n1" in text) == (1, True, True)
    assert "--nodelist=n[2-100]" in text
    assert "n1 PASS quarantined: GPU3: gpu-count is bad" in text
    folder, store = tmp_path / "day 1", tmp_path / "store.sqlite"
    assert command_line(["fleet", "report", str(folder), "--store", str(store)]) == 0
    assert "| `n1` | PASS | quarantined | quarantined: GPU3: gpu-count is bad |" in capsys.readouterr().out
    store = ("--store", str(tmp_path / "store.sqlite"))
    assert command_line(["fleet", "repaired", "n[1-2]", *store]) == 0
    assert "n1: repaired; it must pass gpu-count twice" in capsys.readouterr().err
    assert command_line(["fleet", "repaired", "n2", *store]) == 2
    now = (datetime.datetime.now(datetime.timezone.utc) - START).days + 1
    assert check(now, passed)[0] == 1
    code, _, text = check(now + 1, passed)
    assert code == 0
    assert "on probation until" in text
    text = check(now + 9, passed)[2]
    assert "healthy again n1 (gpu-count)" in text
    assert "probation ended" not in text, "the node has a line already"
    capsys.readouterr()
    assert command_line(["fleet", "history", "n1", *store]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "State: healthy",
        "healthy -> confirmed n1: GPU3: gpu-count is bad (gpu-count)",
        "confirmed -> quarantined",
        "quarantined -> repaired",
        "repaired -> probation",
        "probation -> healthy",
    ):
        assert words in shown
    assert command_line(["fleet", "history", "GPU-1", *store, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"]["condition"] == "confirmed"


def test_a_suspicion_ends_by_its_own_date_and_is_never_counted_after_it(check, tmp_path):
    """Later reports pass, but do not contain the check that failed before."""
    check(0, report(1, "shm-size"), report(2, "shm-size"), report(3, "gpu-count"))
    code, result, _ = check(29.9, report(1), report(2, "shm-size"))
    conditions = {node["node"]: node["condition"] for node in result["nodes"]}
    assert (conditions["n1"], conditions["n2"], conditions["n3"]) == ("suspect", "quarantined", "quarantined")
    assert {state["subject"]: state["expires"] for state in result["states"]["suspects"]}["n1"].startswith(
        "2026-12-01"
    )
    code, result, text = check(30, report(1), report(2))
    assert "healthy again n1" in text
    assert code == 1, "the others stay out of service"
    changes = [(change["subject"], change["after"]) for change in result["states"]["changes"]]
    assert changes == [("n1", "healthy"), ("GPU-1", "healthy")]
    again = check(30, report(1), report(2))
    assert (again[1], again[2]) == (result, text), "the same run judged twice says the same"
    _, result, _ = check(31, report(1, "shm-size"))
    assert {node["node"]: node["condition"] for node in result["nodes"]}["n1"] == "suspect"


def test_a_node_that_the_brake_holds_back_needs_two_passes(check):
    bad = [report(number, "gpu-count") for number in range(1, 6)]
    passed = [report(number, passed=("gpu-count",)) for number in range(1, 6)]
    assert check(0, *bad)[1]["states"]["held_back"]
    code, result, text = check(1, *passed)
    assert (code, "5 out of service" in text, "--exclude=n[1-5]" in text) == (1, True, True)
    assert {state["condition"] for state in result["states"]["out"]} == {"confirmed"}
    assert check(1, *passed)[:2] == (code, result), "the same run judged twice counts once"
    code, result, text = check(2, *passed)
    assert (code, result["states"]["out"]) == (0, [])
    assert "on probation until 2026-11-10: n1" in text
    assert check(3, *bad)[1]["states"]["held_back"], "in the probation one failure is enough"


def test_the_brake_replaces_drain_commands(check):
    bad = [report(number, "gpu-count") for number in range(1, 6)]
    code, result, text = check(0, *bad)
    assert code == 1
    assert "the brake held: 5 nodes would be drained at once" in text
    assert "quarantined:" not in text
    assert len(result["states"]["held_back"]) == 5
    _, result, text = check(0, *bad, options=("--no-brake",))
    assert "the brake held" not in text
    assert "n[1-5] FAIL GPU3: gpu-count is bad" in text, "nodes with the same reason share a line"
    assert "quarantined: n[1-5]: GPU3: gpu-count is bad (gpu-count)" in text


def test_the_last_change_of_a_node_is_printed(check):
    """In one run an old fault ends and a new one begins; the limit on drains holds the nodes back."""
    numbers = range(1, 21)
    check(0, *(report(number, "shm-size") for number in numbers))
    _, result, text = check(1, *(report(number, "gpu-count", passed=("shm-size",)) for number in numbers))
    assert "confirmed as bad: n[1-20]" in text
    assert "healthy again" not in text
    assert "20 nodes held back" in text
    changes = [change["after"] for change in result["states"]["changes"] if change["subject"] == "n1"]
    assert changes == ["healthy", "confirmed"]


def test_the_brake_counts_the_nodes_of_earlier_runs(tmp_path, capsys):
    for number in range(4):
        folder = tmp_path / f"run {number}"
        write_run(folder, [report(number, "gpu-count")], START + datetime.timedelta(days=number))
        words = ["fleet", "check", "--engine", "exec", "-w", f"n{number}", "--rigtune", "no-such-program"]
        words += ["--out", str(folder), "--store", str(tmp_path / "store.sqlite"), "-q"]
        assert command_line(words) == 1
        assert ("the brake held" in capsys.readouterr().out) == (number > 0)


@pytest.mark.parametrize(
    ("engine", "command"),
    [("slurm", "scontrol update NodeName=n1 State=DRAIN"), ("kubernetes", "kubectl cordon n1")],
)
def test_drain_commands_name_only_quarantined_nodes(check, monkeypatch, engine, command):
    monkeypatch.setattr(f"assistant.engines.{engine}_engine.places", dict)
    text = check(0, report(1, "gpu-count"), report(2, "shm-size"), engine=engine)[2]
    assert f"drain {command}" in text
    held = check(1, *(report(number, "gpu-count") for number in range(1, 9)), engine=engine)[2]
    assert not any(word in held for word in ("scontrol", "kubectl"))


def test_lemons_are_named_with_their_last_reason(check, tmp_path):
    moments = tuple(START - datetime.timedelta(days=days) for days in (20, 10, 1))
    lemon = PartState(
        subject="GPU-7", condition="repaired", since=START, confirmed_at=moments, reason="n7 GPU3: Xid 79"
    )
    update_states(tmp_path / "store.sqlite", "x", lambda states: Advance({"GPU-7": lemon}, ()))
    _, result, text = check(0)
    assert "lemon GPU-7: 3 failures, the last: n7 GPU3: Xid 79" in text
    assert [state["subject"] for state in result["states"]["lemons"]] == ["GPU-7"]


def test_a_store_that_cannot_be_written_is_a_note(check, tmp_path):
    (tmp_path / "store.sqlite").mkdir()
    code, result, text = check(0, report(1, "gpu-count"))
    assert code == 1
    assert result["states"] is None
    assert "No state of a node is known or kept: cannot open" in text
