"""Test the stored history of a fleet: medians by part, values of earlier runs, states, and wrong files."""

from __future__ import annotations

import datetime
import json
import sqlite3

import jsonschema
import msgspec
import pytest

from assistant.cli import command_line
from assistant.formats.schemas import schema_for
from assistant.usecases.fleet.fleet_store import (
    add_run,
    history,
    known_nodes,
    past_before,
    states_in,
    update_states,
)
from probes.base.errors import InputError, OutputError
from probes.fleet.advancing import Advance, Run, StateChange, advance, repair
from probes.fleet.comparing.compare_nodes import compare_nodes
from probes.fleet.states import PartState
from tests.support.simulated_fleet import Fleet

START = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)


def day(number: float) -> datetime.datetime:
    return START + datetime.timedelta(days=number)


def test_a_part_is_compared_with_its_stored_earlier_runs(tmp_path):
    store = tmp_path / "fleet.sqlite"
    fleet = Fleet(20, 3, factor=lambda node, gpu: 0.95 if (node, gpu) == (4, 2) else 1.0)
    for number in range(8):
        assert add_run(store, f"run-{number}", day(number), fleet.run(with_faults=False)) == 160
    today = fleet.run()
    findings = compare_nodes(today, past_before(store, day(9), today))
    assert [each.subject for each in findings if each.kind == "slower-than-before"] == ["n4 GPU2"]
    assert not past_before(store, day(0), today), "a run is not its own past"


def test_the_same_run_is_stored_once(tmp_path):
    store, reports = tmp_path / "fleet.sqlite", Fleet(2, 1).run()
    assert add_run(store, "a", day(0), reports) == 16
    assert add_run(store, "a", day(0), reports) == 0


def test_only_the_newest_runs_of_a_part_are_compared(tmp_path):
    store = tmp_path / "fleet.sqlite"
    for number in range(10):
        add_run(store, f"run-{number}", day(number), changed(Fleet(1, 1).run(), samples=(1.0 + number,)))
    add_run(store, "other nodes", day(11), Fleet(3, 2).run()[1:])
    past = past_before(store, day(12), Fleet(1, 1).run())
    assert set(map(tuple, past.values())) == {tuple(3.0 + number for number in range(8))}


def test_a_part_that_stays_slow_is_not_cleared_by_its_own_slow_values(tmp_path):
    """One GPU of 20 nodes becomes 5 % slower and stays so; a repair without effect does not end its state."""
    store = tmp_path / "fleet.sqlite"
    fleet = Fleet(20, 3, factor=lambda node, gpu: 0.95 if (node, gpu) == (4, 2) else 1.0)
    for number in range(30):
        reports = [
            msgspec.structs.replace(each, metrics=each.metrics[2:3])
            for each in fleet.run(with_faults=number >= 8)
        ]
        findings = compare_nodes(reports, past := past_before(store, day(number), reports))
        slow = [each.subject for each in findings if each.kind == "slower-than-before"]
        assert slow == (["n4 GPU2"] if number >= 8 else [])
        add_run(store, f"run-{number}", day(number), reports)
        run = Run(
            name=f"run-{number}",
            at=day(number),
            reports=reports,
            findings=findings,
            past=past,
            known=known_nodes(store),
        )
        states, _ = update_states(store, run.name, lambda before, run=run: advance(run, before))
        if number == 20:
            update_states(store, "repair", lambda before: repair(before, ["n4", "GPU-4-2"], day(20.5)))
    assert {name: state.condition for name, state in states.items()} == {
        "n4": "quarantined",
        "GPU-4-2": "confirmed",
    }


def changed(reports, **values):
    return [
        msgspec.structs.replace(
            report,
            metrics=tuple(msgspec.structs.replace(metric, **values) for metric in report.metrics),
        )
        for report in reports
    ]


@pytest.mark.parametrize("values", [{"version": "2"}, {"quality": "busy"}])
def test_runs_of_another_version_and_disturbed_runs_are_not_compared(tmp_path, values):
    store, reports = tmp_path / "fleet.sqlite", Fleet(2, 1).run()
    add_run(store, "a", day(0), changed(reports, **values))
    assert not past_before(store, day(1), reports)


def test_earlier_values_are_of_the_parts_of_the_run_and_the_oldest_comes_first(tmp_path):
    store, reports = tmp_path / "fleet.sqlite", Fleet(3, 1).run()
    for number in (2, 0, 1):
        add_run(store, f"run-{number}", day(number), changed(reports, samples=(float(number + 1),)))
    past = past_before(store, day(3), reports[1:2])
    wanted = {(metric.metric, metric.part_id) for metric in reports[1].metrics}
    assert past.keys() == wanted
    assert set(map(tuple, past.values())) == {(1.0, 2.0, 3.0)}


def test_times_are_stored_as_measured_and_compared_as_rates(tmp_path):
    store = tmp_path / "fleet.sqlite"
    reports = changed(Fleet(1, 1).run(), is_larger_better=False, samples=(2.0,), unit="s")
    add_run(store, "a", day(0), reports)
    assert set(map(tuple, past_before(store, day(1), reports).values())) == {(0.5,)}
    assert {point.value for point in history(store, "n0").points} == {2.0}


def test_values_older_than_the_retention_are_removed(tmp_path):
    store, reports = tmp_path / "fleet.sqlite", Fleet(1, 1).run()
    add_run(store, "old", day(0), reports)
    add_run(store, "new", day(401), reports)
    assert {point.at for point in history(store, "n0").points} == {day(401).timestamp()}


def test_a_part_keeps_its_history_in_another_slot(tmp_path, capsys):
    store, reports = tmp_path / "fleet.sqlite", Fleet(1, 1).run()
    add_run(store, "a", day(0), reports)
    add_run(store, "b", day(1), changed(reports, slot="GPU7"))
    assert [point.slot for point in history(store, "GPU-0-3").points] == ["GPU3", "GPU7"]
    assert command_line(["fleet", "history", "GPU-0-3", "--store", str(store), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["points"]) == 2
    assert command_line(["fleet", "history", "n0", "--store", str(store)]) == 0
    assert "GPU7" in capsys.readouterr().out
    assert command_line(["fleet", "history", "n9", "--store", str(store)]) == 2


def test_states_are_kept_by_subject(tmp_path):
    store = tmp_path / "fleet.sqlite"
    assert states_in(store) == {}
    state = PartState(subject="n1", condition="suspect", since=START, evidence=("a",))
    update_states(store, "a", lambda states: Advance({"n1": state}, ()))
    worse = msgspec.structs.replace(state, condition="confirmed")
    states, _ = update_states(store, "b", lambda states: Advance(dict.fromkeys(states, worse), ()))
    assert states == states_in(store) == {"n1": worse}
    assert store.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_no_store_is_left_alone(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("my notes\n" * 100)
    with pytest.raises(InputError, match="is not a store"):
        add_run(other, "a", START, Fleet(1, 1).run())
    assert other.read_text().startswith("my notes")
    with pytest.raises(OutputError, match="cannot open"):
        history(tmp_path, "n1")


@pytest.mark.parametrize("text", ["{}", "not JSON", "[" * 100_000, '{"subject": 7}', None])
def test_a_damaged_state_is_named_before_a_node_is_asked(tmp_path, capsys, text):
    store, out = tmp_path / "fleet.sqlite", tmp_path / "run"
    state = PartState(subject="n1", condition="suspect", since=START)
    update_states(store, "a", lambda _: Advance({"n1": state, "n2": state}, ()))
    with sqlite3.connect(store) as rows:
        rows.execute("UPDATE states SET state = ? WHERE subject = 'n2'", (text,))
    words = ("check", "--engine", "exec", "-w", "n[1-2]", "--rigtune", "true", "--out", str(out))
    for command in (words, ("history", "n2"), ("repaired", "n2")):
        assert command_line(["fleet", *command, "--store", str(store)]) == 2
        error = capsys.readouterr().err
        assert f"{store}: the state of 'n2' (table states) is damaged" in error.replace("\n", " ")
        assert "delete this row" in error
    assert not out.exists()


def test_a_damaged_change_is_named(tmp_path, capsys):
    store = tmp_path / "fleet.sqlite"
    change = StateChange(subject="n1", at=START, before="healthy", after="suspect")
    update_states(store, "a", lambda _: Advance({}, (change,)))
    with sqlite3.connect(store) as rows:
        rows.execute("UPDATE changes SET change = '{}'")
    assert command_line(["fleet", "history", "n1", "--store", str(store)]) == 2
    assert f"{store}: change 1 (table changes) is damaged" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("layout", [0, 2])
def test_a_store_of_another_version_is_named_and_left_alone(tmp_path, capsys, layout):
    store = tmp_path / "fleet.sqlite"
    add_run(store, "a", START, Fleet(1, 1).run())
    with sqlite3.connect(store) as rows:
        rows.execute("DROP TABLE changes")
        rows.execute(f"PRAGMA user_version = {layout}")
    before = store.read_bytes()
    words = ["check", "--engine", "exec", "-w", "n1", "--rigtune", "true", "--out", str(tmp_path / "run")]
    for command in (words, ["history", "n1"]):
        assert command_line(["fleet", *command, "--store", str(store)]) == 2
        error = capsys.readouterr().err.replace("\n", " ")
        assert f"{store} is a store of another version of rigtune: layout {layout}" in error
        assert "--store" in error
    assert store.read_bytes() == before
    assert not (tmp_path / "run").exists()


def test_the_history_of_the_first_layout_is_kept(tmp_path):
    store, fleet = tmp_path / "fleet.sqlite", Fleet(1, 1)
    added = add_run(store, "a", START, fleet.run())
    with sqlite3.connect(store) as rows:
        for table in ("nodes", "changes"):
            rows.execute(f"DROP TABLE {table}")
        rows.execute("DROP INDEX by_part")
        rows.execute("CREATE INDEX by_part ON metrics (part_id, metric, at)")
        rows.execute("PRAGMA user_version = 0")
    assert len(past_before(store, day(1), fleet.run())) == added
    assert add_run(store, "b", day(1), fleet.run()) == added
    assert known_nodes(store) == {"n0"}


def test_a_store_that_is_read_is_not_written(tmp_path):
    store = tmp_path / "fleet.sqlite"
    add_run(store, "a", START, Fleet(1, 1).run())
    with sqlite3.connect(store, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")  # another head writes now
        assert states_in(store) == {}
        assert history(store, "n0").points


def test_a_store_that_cannot_be_written_does_not_stop_a_run(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    words = ["fleet", "check", "--engine", "exec", "-w", "n1", "--rigtune", "true", "-q"]
    options = ["--out", str(tmp_path / "run"), "--store", str(tmp_path / "file" / "store.sqlite")]
    assert command_line([*words, *options]) == 3
    assert (tmp_path / "run" / "outcomes.jsonl").exists()


def test_the_schedule_names_the_cheapest_check(capsys):
    words = ["fleet", "schedule", "--job-nodes", "128", "--format", "json"]
    assert command_line(words) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, json.loads(schema_for("fleet-schedule")))
    (job,) = answer["jobs"]
    assert [round(cost["remaining_loss"]) for cost in job["costs"]] == [138, 124, 35, 138]
    assert command_line(["fleet", "schedule", "--job-nodes", "128"]) == 0
    assert "cheapest, best every" in " ".join(capsys.readouterr().out.split())
