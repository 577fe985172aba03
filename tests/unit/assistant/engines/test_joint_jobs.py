"""Test a job over several nodes through an engine: the variables of each rank, and how all nodes end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import msgspec
import psutil
import pytest

from assistant.cli import command_line
from assistant.engines import exec_engine, mpi_engine, slurm_engine, ssh_engine
from assistant.engines.engine_job import EngineJob, command_of
from assistant.engines.engine_table import Rendezvous, Wanted
from probes.fleet.node_report import NodeEnd, NodeLine

NODES = ("a", "b", "c")
SAY = """echo '@rigtune {"rank": "'$NODE_RANK/$NODE_COUNT'", "at": "'$MASTER_ADDR:$MASTER_PORT'"}'"""


def job(script: str, nodes: tuple[str, ...] = NODES, limit_s: float = 60.0) -> Wanted:
    return Wanted(nodes, ("sh", "-c", script), limit_s, rendezvous=Rendezvous(port=21000))


def collected(wanted: Wanted) -> tuple[dict[str, NodeEnd], dict[str, dict[str, str]]]:
    ends: dict[str, NodeEnd] = {}
    lines: dict[str, dict[str, str]] = {}

    def sink(event: NodeLine | NodeEnd) -> None:
        if isinstance(event, NodeEnd):
            assert event.node not in ends, "a node has one outcome"
            ends[event.node] = event
        else:
            lines[event.node] = json.loads(event.text)

    exec_engine.run(wanted, sink)
    return ends, lines


def test_every_node_knows_its_rank_and_where_all_meet():
    ends, lines = collected(job(SAY, ("c", "a", "b")))
    assert {node: end.outcome for node, end in ends.items()} == dict.fromkeys(NODES, "ok")
    assert {node: line["rank"] for node, line in lines.items()} == {"c": "0/3", "a": "1/3", "b": "2/3"}
    assert {line["at"] for line in lines.values()} == {"127.0.0.1:21000"}


def test_more_nodes_than_the_fanout_start_at_the_same_time(tmp_path):
    """Each of 70 nodes waits for all others: with the fanout of 64 none would end."""
    nodes = tuple(f"n{number}" for number in range(70))
    script = f"touch {tmp_path}/$NODE_RANK; until [ $(ls {tmp_path} | wc -l) = 70 ]; do sleep 0.1; done"
    ends, _ = collected(job(script, nodes))
    assert {end.outcome for end in ends.values()} == {"ok"}


def test_a_killed_command_is_not_reported_as_timed_out():
    ends, _ = collected(job("kill -9 $$", ("a",))._replace(rendezvous=None))
    assert (ends["a"].outcome, ends["a"].exit_code) == ("exit", 137)


def test_when_one_node_fails_the_others_end_and_each_has_one_outcome():
    began = time.monotonic()
    ends, _ = collected(job("[ $NODE_RANK = 1 ] && exit 7; sleep 50"))
    assert (ends["b"].outcome, ends["b"].exit_code) == ("exit", 7)
    assert {ends[node].outcome for node in "ac"} == {"no-answer"}
    assert {ends[node].detail for node in "ac"} == {"ended because b failed"}
    assert time.monotonic() - began < 50


def test_only_the_first_failure_counts_if_all_nodes_fail_at_once():
    ends: dict[str, NodeEnd] = {}
    before = set(psutil.Process().children())

    def sink(event: NodeLine | NodeEnd) -> None:
        assert isinstance(event, NodeEnd)
        ends[event.node] = event
        started = set(psutil.Process().children()) - before
        while any(process.status() != psutil.STATUS_ZOMBIE for process in started):
            pass  # the other nodes have failed too before this failure ends the job

    exec_engine.run(job("exit 7"), sink)
    (first,) = (node for node, end in ends.items() if end.outcome == "exit")
    assert {node: end.detail for node, end in ends.items() if node != first} == dict.fromkeys(
        set(NODES) - {first}, f"ended because {first} failed"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_job_of_its_own_process_ends_with_the_engine(tmp_path, number):
    task = tmp_path / "job.json"
    pid = f"{tmp_path}/$NODE_RANK"
    wanted = job(f"echo $$ >{pid}.part; mv {pid}.part {pid}.pid; sleep 300")
    task.write_bytes(msgspec.json.encode(EngineJob(engine="exec", wanted=wanted)))
    process = subprocess.Popen(command_of(task), cwd=tmp_path, stdout=subprocess.PIPE)
    ends = time.monotonic() + 60
    while len(list(tmp_path.glob("*.pid"))) < len(NODES):
        assert time.monotonic() < ends
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    for path in tmp_path.glob("*.pid"):  # the guard of the runner ends what a local engine leaves
        if psutil.pid_exists(int(path.read_text())):
            os.kill(int(path.read_text()), signal.SIGKILL)


def test_the_code_of_the_first_failing_node_is_that_of_the_job(tmp_path):
    task = tmp_path / "job.json"
    wanted = job("[ $NODE_RANK = 2 ] && { echo broken >&2; exit 9; }; sleep 50")
    task.write_bytes(msgspec.json.encode(EngineJob(engine="exec", wanted=wanted)))
    done = subprocess.run(command_of(task), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 9
    assert "c: exit: broken" in done.stdout
    assert "NodeError: a: no-answer: ended because c failed" in done.stdout


def test_slurm_gets_whole_nodes_and_ranks_by_name(monkeypatch):
    monkeypatch.setattr(slurm_engine, "address_of", lambda node: f"10.0.0.{node[1:]}")
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    words = slurm_engine._joint_step(job(SAY, ("n2", "n1")), "folder")
    assert {"--exclusive", "--kill-on-bad-exit=1", "--cpu-bind=none", "--nodes=2"} <= set(words)
    assert "case $SLURMD_NODENAME in n2) NODE_RANK=0;; n1) NODE_RANK=1;; esac; export NODE_RANK" in words[-1]
    assert "MASTER_ADDR=10.0.0.2 MASTER_PORT=21000" in words[-1]
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    inside = slurm_engine._joint_step(job(SAY), "folder")
    assert "--overlap" in inside
    assert "--exclusive" not in inside


def test_ssh_asks_for_a_terminal_so_that_a_lost_connection_ends_the_job():
    assert "RequestTTY=force" in ssh_engine._settings(job(SAY))["ssh_options"]
    assert "RequestTTY" not in ssh_engine._settings(job(SAY)._replace(rendezvous=None))["ssh_options"]


def test_mpirun_starts_a_group_for_each_host():
    plan = mpi_engine.plan(job(SAY))
    assert [plan.count(f"-n 1 -host {node} ") for node in NODES] == [1, 1, 1]
    assert [f"NODE_RANK={rank}" in plan for rank in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("engine", ["kubernetes", "ray"])
def test_engines_without_a_shared_folder_start_no_job(engine, tmp_path, capsys):
    assert command_line(["fleet", "find-bad", "--engine", engine, "-w", "a,b"]) == 2
    assert f"need a folder that all nodes share; {engine} does not promise one" in capsys.readouterr().err
    task = tmp_path / "job.json"
    task.write_bytes(msgspec.json.encode(EngineJob(engine=engine, wanted=job(SAY))))
    done = subprocess.run(command_of(task), capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.startswith("UsageError: measurements between nodes need a folder")
