"""Test `check_fleet` with local processes as nodes: answers, silence, garbage, a killed head, a rerun."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter

import msgspec
import pytest

from assistant.cli import command_line
from assistant.engines.clustershell_runs import nodes_of
from assistant.engines.engine_table import ENGINES, choose_engine
from assistant.usecases.events import Progress, StageFinished
from assistant.usecases.fleet.check_fleet import FleetRun, check_fleet
from assistant.usecases.fleet.fleet_store import history
from assistant.usecases.fleet.run_folder import OUTCOMES, RAW
from probes.base.errors import InputError, UsageError
from probes.fleet.fleet_result import FleetResult

pytest.importorskip("ClusterShell")

NODE = """
import json, os, sys, time
folder = sys.argv[1]
kinds = json.loads(sys.argv[2])
for number in range(len(kinds)):
    try:
        os.mkdir(os.path.join(folder, str(number)))
        break
    except FileExistsError:
        continue
kind = kinds[number]
report = {"node": "me", "outcome": "ok", "verdict": "PASS", "version": "1", "attributes": {"driver": "1"}}
def send(values, end="\\n"):
    print("@rigtune " + json.dumps(values), end=end, flush=True)
print("noise of a login shell")
if kind == "ok":
    send(report)
elif kind == "fails":
    reason = {"check_id": "ecc", "subject": "GPU3", "status": "FAIL", "summary": "bad row\\u001b[31m"}
    send({**report, "verdict": "FAIL", "reasons": [reason]})
elif kind == "hangs":
    time.sleep(600)
elif kind == "exits":
    sys.exit("no driver")
elif kind == "garbage":
    print("@rigtune {not json", flush=True)
elif kind == "list":
    print("@rigtune [1, 2]", flush=True)
elif kind == "wrong types":
    send({**report, "verdict": "FINE"})
elif kind == "half":
    print("@rigtune " + json.dumps(report)[:60], end="", flush=True)
    time.sleep(600)
elif kind == "deep":
    print("@rigtune " + "[" * 100_000 + "]" * 100_000, flush=True)
elif kind == "not finite":
    send({**report, "clock_s": float("nan")})
elif kind == "beyond floats":
    send({**report, "clock_s": 10**400})
elif kind == "huge":
    print("@rigtune " + "x" * 5_000_000, flush=True)
elif kind == "empty":
    pass
"""


@pytest.fixture
def ask(tmp_path):
    """Return a function that runs local processes as nodes, one per kind unless `nodes` is given."""
    script = tmp_path / "node.py"
    script.write_text(NODE)
    claims = tmp_path / "claims"
    claims.mkdir()

    def run(kinds: list[str], *, nodes: int | None = None, limit_s: float = 2) -> FleetResult:
        command = (sys.executable, str(script), str(claims), json.dumps(kinds))
        wanted = FleetRun(
            engine=choose_engine("exec", has_pattern=True)[0],
            engine_reason="test",
            nodes=nodes_of(f"n[1-{nodes or len(kinds)}]"),
            command=command,
            limit_s=limit_s,
            folder=tmp_path / "run",
        )
        *_, end = check_fleet(wanted)
        assert isinstance(end, StageFinished)
        return end.result

    return run


def test_each_wanted_node_has_one_outcome_whatever_it_does(ask, tmp_path):
    kinds = ["ok", "fails", "hangs", "exits", "garbage", "list", "wrong types", "half", "huge", "empty"]
    kinds += ["deep", "not finite", "beyond floats"]
    result = ask(kinds, limit_s=8)  # on a busy machine a Python may need seconds to start
    assert len(result.nodes) == len(kinds)
    assert Counter(node.outcome for node in result.nodes) == {"ok": 2, "timed-out": 2, "exit": 9}
    assert (len(result.good), len(result.bad), len(result.silent)) == (1, 1, 11)
    words = " ".join(node.detail for node in result.nodes)
    for part in ("no driver", "no report", "more than 4 MiB", "is this rigtune on the node?"):
        assert part in words
    (failed,) = (node for node in result.nodes if node.reasons)
    assert failed.reasons[0].summary == "bad row [31m"
    for name in (RAW, OUTCOMES):
        assert (tmp_path / "run" / name).stat().st_mode & 0o777 == 0o600


def test_a_second_run_in_the_folder_asks_only_the_nodes_without_an_answer(ask, tmp_path):
    first = ask(["ok", "ok", "hangs"], limit_s=1)
    assert len(first.silent) == 1
    second = ask(["ok"] * 10, nodes=3)
    assert second.good == ("n1", "n2", "n3")
    assert len((tmp_path / "run" / OUTCOMES).read_text().splitlines()) == 4


def test_a_node_that_could_not_report_is_asked_again_and_one_that_fails_is_not(ask, tmp_path):
    first = ask(["fails", "exits", "empty", "garbage"], limit_s=8)
    assert (len(first.bad), len(first.silent)) == (1, 3)
    second = ask(["ok"] * 10, nodes=4)
    assert (len(second.good), len(second.bad)) == (3, 1)
    assert len((tmp_path / "run" / OUTCOMES).read_text().splitlines()) == 7


def test_half_a_line_of_a_killed_head_is_cut_and_its_node_asked_again(ask, tmp_path):
    ask(["ok", "ok"])
    outcomes = tmp_path / "run" / OUTCOMES
    outcomes.write_text(outcomes.read_text()[:-10])
    result = ask(["ok"] * 10, nodes=2)
    assert len(result.good) == 2
    assert len(outcomes.read_text().splitlines()) == 2


@pytest.mark.parametrize("name", [RAW, OUTCOMES])
def test_a_damaged_line_of_the_folder_is_named(ask, tmp_path, name):
    ask(["ok"])
    (tmp_path / "run" / name).write_text("damaged\n")
    with pytest.raises(InputError, match=name):
        ask(["ok"])


def test_two_runs_in_folders_of_one_name_are_both_stored(tmp_path):
    store = tmp_path / "fleet.sqlite"
    metric = {"part_kind": "gpu", "part_id": "GPU-1", "slot": "GPU0", "metric": "m", "unit": "1/s"}
    line = "@rigtune " + json.dumps({"verdict": "PASS", "metrics": [{**metric, "samples": [1.0]}]})
    run = FleetRun(
        engine=choose_engine("exec", has_pattern=True)[0],
        engine_reason="test",
        nodes=("n1",),
        command=("echo", line),
        limit_s=5,
        folder=tmp_path / "monday" / "run",
    )
    messages: list[str] = []
    for folder in ("monday", "tuesday", "tuesday"):  # the last asks no node, and is the same run
        messages += [
            event.message
            for event in check_fleet(msgspec.structs.replace(run, folder=tmp_path / folder / "run"), store)
            if isinstance(event, Progress)
        ]
    times_s = re.findall(r"ended within (\S+) s", " ".join(messages))
    assert times_s
    assert all(0 <= int(time_s) < 3600 for time_s in times_s)
    assert len(history(store, "GPU-1").points) == 2


def test_a_run_without_any_answer_blames_no_node(ask):
    result = ask(["exits", "exits"])
    assert not result.bad
    assert any("failed as a whole" in note for note in result.notes)


@pytest.mark.parametrize("pattern", ["n[1-", "", "n[1-3]!n[1-3]", "-oProxyCommand=x", "a;reboot", "a b$(x)"])
def test_a_wrong_pattern_never_reaches_a_shell(pattern):
    with pytest.raises(UsageError):
        nodes_of(pattern)


def test_the_choice_of_an_engine_is_explained(monkeypatch):
    row, reason = choose_engine(None, has_pattern=True, environment={"SLURM_JOB_ID": "7"})
    assert (row.id, "SLURM_JOB_ID" in reason) == ("slurm", True)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert choose_engine(None, has_pattern=True, environment={})[0].id == "ssh"
    with pytest.raises(UsageError, match="no nodes are named"):
        choose_engine(None, has_pattern=False, environment={})
    with pytest.raises(UsageError, match="there is no engine"):
        choose_engine("slrum", has_pattern=True)
    assert [row.id for row in ENGINES]


def test_a_cluster_that_answers_nothing_is_asked_for_half_a_minute_at_most(monkeypatch):
    def hang(command: tuple[str, ...], *, timeout: float, **options: object) -> None:
        assert 10 <= timeout <= 30
        raise subprocess.TimeoutExpired(command, timeout)

    programs = {row.question[0] for row in ENGINES if row.question}
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}" if name in programs else None)
    monkeypatch.setattr("subprocess.run", hang)
    assert programs
    assert choose_engine(None, has_pattern=True, environment={})[0].id == "ssh"


def test_a_dry_run_starts_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["fleet", "check", "--engine", "exec", "-w", "a[1-3]", "--rigtune", "/opt/rig tune", "--dry-run"]
    assert command_line(words) == 0
    output = capsys.readouterr().out
    assert "3 nodes: a[1-3]" in output
    assert "timeout -k 5 120 '/opt/rig tune' fleet node" in output
    assert not list(tmp_path.iterdir())
