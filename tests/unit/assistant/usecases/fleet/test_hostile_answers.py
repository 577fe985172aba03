"""Test that hostile answers and folders print no control characters, crash nothing and blame no one else."""

from __future__ import annotations

import os
import sqlite3
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from assistant.cli import command_line
from assistant.usecases.fleet.check_fleet import stored_run
from assistant.usecases.fleet.fleet_store import add_run, history
from assistant.usecases.fleet.run_folder import OUTCOMES, RAW
from probes.fleet.node_report import is_node_name
from tests.support.fleet_folder import PASSED, failed, write_run

CONTROL = "\x1b[31m\x07\x9b2J\u202e\u2066\r\n\x00\x1b]0;title\x07[red]"
METRIC = {
    "part_kind": "gpu", "part_id": "GPU-1", "slot": "GPU0", "metric": "m", "unit": "1/s", "samples": [1.0],
}  # fmt: skip
REASON = {"check_id": "x", "subject": "GPU0", "status": "FAIL", "summary": "bad"}
HUGE = [{**METRIC, "part_id": str(n), "samples": [s] * 3} for n, s in enumerate((1e308, -1e308, 0.0, 5e-324))]
NOISY = {
    "verdict": "FAIL", "node": CONTROL, "version": CONTROL, "detail": CONTROL, "unmeasured": CONTROL,
    "claims": CONTROL, "reasons": [{**REASON, "check_id": CONTROL, "subject": CONTROL, "summary": CONTROL}],
    "attributes": {CONTROL: CONTROL, "gpu_model": CONTROL, "power_cap": CONTROL, "rack": CONTROL},
    "metrics": [{**METRIC, "part_id": CONTROL, "slot": CONTROL, "metric": CONTROL, "unit": CONTROL}],
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "control characters": NOISY,
    "surrogates": {**failed("\ud800\udfff \udc80"), "attributes": {"\ud800": "\udc00"}},
    "huge numbers": {**PASSED, "metrics": HUGE},
    "no samples": {**PASSED, "metrics": [{**METRIC, "samples": []}]},
    "clock": {**PASSED, "clock_s": 1e308},
    "number of GPUs": {**PASSED, "attributes": {"gpus": "9" * 4000, "gpu_model": "x"}},
    "many attributes": {**PASSED, "attributes": {f"a{number}": "v" for number in range(5000)}},
    "many reasons": {**PASSED, "verdict": "FAIL", "reasons": [REASON] * 5000},
    "same part": {**PASSED, "metrics": [METRIC] * 50},
    "skip": {"verdict": "SKIP"},
    "empty names": {"verdict": "PASS", "attributes": {"": "", " ": " | | "}},
    "deep list": "[" * 200_000,
    "deep object": '{"a":' * 100_000,
    "nul": "\x00",
    "long number": "1" * 100_000,
    "not a number": '{"verdict": "PASS", "clock_s": NaN}',
    "name is a list": '{"node": ["a"], "verdict": "PASS"}',
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("options", [(), ("-v",), ("--format", "json")], ids=str)
def test_whatever_a_node_sends_is_shown_without_control_characters(tmp_path, capsysbinary, answer, options):
    folder = write_run(tmp_path / "run", {"n1": answer, "n2": PASSED})
    assert command_line(["fleet", "show", str(folder), *options]) == 0
    shown = b"".join(capsysbinary.readouterr()).decode()
    assert not [letter for letter in set(shown) if not letter.isprintable() and letter != "\n"]
    assert "n2" in stored_run(folder).result.good


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (OUTCOMES, '{"node": ["a"], "outcome": "ok"}'),
        (OUTCOMES, '{"node": "a", "outcome": "fine"}'),
        (OUTCOMES, '{"node": "a", "outcome": "ok", "detail": 5}'),
        (OUTCOMES, "[" * 100_000),
        (OUTCOMES, '{"node": "a;reboot", "outcome": "ok"}'),
        (OUTCOMES, '{"node": "n[1-", "outcome": "ok"}'),
        (OUTCOMES, '{"node": "@all", "outcome": "ok"}'),
        (OUTCOMES, '{"node": "\xff", "outcome": "ok"}'),
        (RAW, '{"node": "a", "since": 1e308, "at": 1, "text": "{}"}'),
        (RAW, '{"node": "a", "since": -1, "at": 1, "text": "{}"}'),
        (RAW, '{"node": "a", "since": 1, "at": 1, "text": []}'),
        (RAW, '{"node": "-oProxyCommand=x", "since": 1, "at": 1, "text": "{}"}'),
        (RAW, "x" * 34_000_000),
    ],
    ids=range(13),
)
def test_a_line_that_no_run_writes_is_refused_with_its_place(tmp_path, capsys, name, line):
    folder = write_run(tmp_path / "run", {"n1": PASSED})
    with (folder / name).open("a", encoding="latin-1") as file:
        file.write(f"{line}\n")
    assert command_line(["fleet", "show", str(folder)]) == 2
    error = capsys.readouterr().err
    assert str(folder / name) in error
    assert "Traceback" not in error


@pytest.mark.parametrize("kind", ["pipe", "endless", "folder", "link"])
def test_files_that_are_no_files_do_not_hang_the_head(tmp_path, capsys, kind):
    folder = write_run(tmp_path / "run", {"n1": PASSED})
    (folder / RAW).unlink()
    match kind:
        case "pipe":
            os.mkfifo(folder / RAW)
        case "endless":
            (folder / RAW).symlink_to("/dev/zero")
        case "folder":
            (folder / RAW).mkdir()
        case "link":
            (folder / RAW).symlink_to(folder / RAW)
    assert command_line(["fleet", "show", str(folder)]) == (0 if kind == "link" else 2)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("gpu001", True), ("gpu001.example.org", True), ("fe80::1", True), ("_a", True), ("", False),
        ("-oProxyCommand=x", False), ("a b", False), ("a;reboot", False), ("a$(x)", False), ("a`x`", False),
        ("a\n", False), ("a\x1b", False), ("@group", False), ("n[1-3]", False),
        ("a/b", False), ("a,b", False), ("x" * 254, False), ("nоde", False),
    ],
)  # fmt: skip
def test_names_of_nodes_are_safe_in_a_shell_and_a_list(name, is_one):
    assert is_node_name(name) is is_one


def test_a_node_that_claims_another_name_gets_its_own_line_and_not_the_others_history(tmp_path):
    metric = {**METRIC, "part_kind": "node", "part_id": "n2 CPU", "slot": "CPU", "samples": [9.0]}
    answers = {
        "n1": {**PASSED, "node": "n2", "verdict": "FAIL", "reasons": [REASON], "metrics": [metric]},
        "n2": {**PASSED, "node": "n2.example.org", "metrics": [{**metric, "samples": [1.0]}]},
    }
    run = stored_run(write_run(tmp_path / "run", answers))
    assert (run.result.bad, run.result.good) == (("n1",), ("n2",))
    assert [report.claims for report in run.reports] == ["n2", ""]
    store = tmp_path / "fleet.sqlite"
    add_run(store, "r", datetime.now(timezone.utc), run.reports)
    assert [point.value for point in history(store, "n2 CPU").points] == [1.0]
    assert store.stat().st_mode & 0o777 == 0o600


def test_a_part_that_two_nodes_report_enters_no_history(tmp_path):
    answers = {"n1": {**PASSED, "metrics": [METRIC]}, "n2": {**PASSED, "metrics": [METRIC]}}
    run = stored_run(write_run(tmp_path / "run", answers))
    assert any("no history for 1 part " in note and "GPU-1: n1, n2" in note for note in run.result.notes)
    store = tmp_path / "fleet.sqlite"
    assert add_run(store, "r", datetime.now(timezone.utc), run.reports) == 0


@pytest.mark.parametrize(
    "values",
    [("at", "'x'"), ("at", "1e300"), ("value", "'x'"), ("node", "5"), ("slot", "x'1b5b'"), ("unit", "NULL")],
    ids=str,
)
def test_a_damaged_store_is_named(tmp_path, capsys, values):
    store = tmp_path / "fleet.sqlite"
    report = {**PASSED, "metrics": [METRIC]}
    add_run(
        store,
        "r",
        datetime.now(timezone.utc),
        stored_run(write_run(tmp_path / "run", {"n1": report})).reports,
    )
    column, value = values
    with sqlite3.connect(store) as connection:
        connection.execute(f"UPDATE metrics SET {column} = {value}")  # noqa: S608
    code = command_line(["fleet", "history", "GPU-1", "--store", str(store)])
    output = capsys.readouterr()
    assert code == 2 or column == "node"
    assert "Traceback" not in output.err
    assert "\x1b" not in output.out


def test_the_names_of_a_store_are_shown_without_control_characters(tmp_path, capsys):
    store = tmp_path / "fleet.sqlite"
    run = stored_run(write_run(tmp_path / "run", {"n1": {**PASSED, "metrics": [METRIC]}}))
    add_run(store, "r", datetime.now(timezone.utc), run.reports)
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE metrics SET slot = ?, unit = ?, metric = ?", (CONTROL,) * 3)
    assert command_line(["fleet", "history", "GPU-1", "--store", str(store)]) == 0
    shown = capsys.readouterr().out
    assert not [letter for letter in set(shown) if not letter.isprintable() and letter != "\n"]


def test_extreme_measurements_are_drawn(tmp_path, capsys):
    store = tmp_path / "fleet.sqlite"
    for number, value in enumerate((1e308, -1e308, 0.0, 5e-324, 1.0)):
        metrics = [{**METRIC, "samples": [value]}]
        run = stored_run(write_run(tmp_path / str(number), {"n1": {**PASSED, "metrics": metrics}}))
        add_run(store, str(number), datetime.now(timezone.utc), run.reports)
    assert command_line(["fleet", "history", "GPU-1", "--store", str(store)]) == 0
    assert "5 runs" in capsys.readouterr().out


def test_a_store_of_another_program_is_named(tmp_path, capsys):
    store = tmp_path / "other.sqlite"
    store.write_bytes(b"no database at all")
    assert command_line(["fleet", "history", "GPU-1", "--store", str(store)]) == 2
    assert "is not a store of rigtune" in capsys.readouterr().err
    with sqlite3.connect(tmp_path / "table.sqlite") as connection:
        connection.execute("CREATE TABLE metrics (a)")
    assert command_line(["fleet", "history", "GPU-1", "--store", str(tmp_path / "table.sqlite")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_of_a_run_is_readable_by_its_owner_alone(tmp_path):
    from assistant.usecases.fleet.run_folder import journal  # noqa: PLC0415 - only this test writes

    before = os.umask(0)
    try:
        with journal(tmp_path / "run"):
            pass
    finally:
        os.umask(before)
    for name in (RAW, OUTCOMES):
        assert (Path(tmp_path) / "run" / name).stat().st_mode & 0o777 == 0o600
