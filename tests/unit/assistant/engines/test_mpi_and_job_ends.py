"""Test mpirun through a stand-in, the end of a job in its own process, and the records of a node."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from assistant.engines import engine_job, mpi_engine, node_command, ray_tasks
from assistant.engines.clustershell_runs import plan_together
from assistant.engines.engine_job import EngineJob
from assistant.engines.engine_table import Rendezvous, Wanted
from assistant.engines.node_command import LONGEST_ANSWER_BYTES, NOT_WHOLE, Records, end_of, one_line, timed
from probes.base.errors import UsageError, WorkerError
from probes.fleet.node_report import NodeEnd, NodeLine

JOB = Wanted(("a", "b"), ("true",), 60.0, rendezvous=Rendezvous(port=21000))


@pytest.fixture
def mpirun(tmp_path, monkeypatch):
    """Return a function that puts a program of this name on the PATH."""

    def place(body: str) -> Path:
        (tmp_path / "mpirun").write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "mpirun").chmod(0o755)
        return tmp_path

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return place


def ends(wanted: Wanted) -> list[NodeEnd]:
    events: list[NodeLine | NodeEnd] = []
    mpi_engine.run(wanted, events.append)
    return [event for event in events if isinstance(event, NodeEnd)]


@pytest.mark.parametrize(
    ("body", "end"),
    [
        ("exit 0", ("ok", 0, "")),
        ("echo first >&2; echo 'last words' >&2; echo >&2; exit 3", ("exit", 3, "last words")),
        ("exit 3", ("exit", 3, "")),
        ("exit 124", ("timed-out", 124, "")),
    ],
)
def test_the_nodes_of_a_job_share_the_end_of_mpirun(mpirun, body, end):
    mpirun(body)
    assert ends(JOB) == [NodeEnd(node, *end) for node in ("a", "b")]


def test_a_job_that_does_not_end_is_timed_out_on_each_node(mpirun, monkeypatch):
    mpirun("exec sleep 50")
    monkeypatch.setattr(mpi_engine, "HEAD_MARGIN_S", 0.1)
    node_ends = ends(JOB._replace(limit_s=0.15))
    assert node_ends == [NodeEnd(node, "timed-out", None, "no end within 0.15 s") for node in ("a", "b")]


def test_a_job_of_mpirun_has_all_cores_and_a_group_for_each_host(mpirun):
    folder = mpirun('printf "%s\\n" "$@" >"$(dirname "$0")/words"; env >"$(dirname "$0")/env"')
    ends(JOB)
    words = (folder / "words").read_text().splitlines()
    assert words[:5] == ["-n", "1", "-host", "a", "sh"]
    assert words[words.index(":") + 1 :][:5] == ["-n", "1", "-host", "b", "sh"]
    assert words.count(":") == 1
    assert {"I_MPI_PIN=0", f"HOME={Path.home()}"} <= set((folder / "env").read_text().splitlines())


def test_without_mpirun_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkerError, match="mpirun cannot be started") as caught:
        ends(JOB)
    assert "module" in caught.value.hint


@pytest.mark.parametrize(("nodes", "lines"), [(("a",), 1), (("a", "b"), 2)])
def test_separate_commands_are_planned_for_the_first_node(nodes, lines):
    plan = mpi_engine.plan(Wanted(nodes, ("echo", "x y"), 60.0)).splitlines()
    assert shlex.split(plan[0])[:7] == ["mpirun", "-n", "1", "-host", "a", "sh", "-c"]
    assert shlex.split(plan[0])[-1].endswith("60 echo 'x y'")
    assert plan[1:] == ["# the same for each other node"] * (lines - 1)


def test_separate_commands_are_started_one_by_one(mpirun):
    pytest.importorskip("ClusterShell")
    mpirun('[ "$4" = b ] && exit 5; shift 4; exec "$@"')
    outcomes = {end.node: (end.outcome, end.exit_code) for end in ends(Wanted(("a", "b"), ("true",), 60.0))}
    assert outcomes == {"a": ("ok", 0), "b": ("exit", 5)}


@pytest.mark.parametrize(
    ("events", "code", "printed"),
    [
        ([NodeEnd("a", "ok", 0), NodeEnd("b", "ok", 0)], 0, ""),
        ([NodeEnd("a", "ok", 0), NodeEnd("b", "exit", 9, "no disk")], 9, "b: exit: no disk\n"),
        ([NodeEnd("b", "exit", 9)], 9, "b: exit: 9\n"),
        ([NodeEnd("a", "no-answer", None, "lost")], 1, "NodeError: a: no-answer: lost\n"),
        (
            [NodeEnd("a", "timed-out", 124, "late"), NodeEnd("b", "exit", 4, "x")],
            4,
            "NodeError: a: timed-out: late\nb: exit: x\n",
        ),
        ([NodeLine("a", b"{}")], 0, ""),
    ],
)
def test_the_exit_code_of_a_job_is_that_of_the_first_failing_node(
    monkeypatch, tmp_path, capsys, *, events, code, printed
):
    def run(wanted, sink):
        assert wanted == JOB
        for event in events:
            sink(event)

    assert ended(monkeypatch, tmp_path, run) == code
    assert capsys.readouterr().out == printed


def ended(monkeypatch, tmp_path, run):
    """Return what the process of a job exits with, whose engine does `run`."""
    (tmp_path / "job").write_bytes(msgspec.json.encode(EngineJob(engine="exec", wanted=JOB)))
    row = SimpleNamespace(load=lambda: SimpleNamespace(run=run))
    monkeypatch.setattr(engine_job, "find_engine", lambda name: row)
    monkeypatch.setattr(engine_job, "require_joint", lambda row: None)
    monkeypatch.setattr(sys, "argv", ["-c", "/root", str(tmp_path / "job")])
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as caught:
            engine_job.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    return caught.value.code


def test_a_job_that_is_ended_exits_as_the_shell_reports_it(monkeypatch, tmp_path):
    def run(wanted, sink):
        signal.raise_signal(signal.SIGTERM)

    assert ended(monkeypatch, tmp_path, run) == 128 + signal.SIGTERM


def test_the_users_error_is_printed_with_its_hint(monkeypatch, tmp_path):
    def run(wanted, sink):
        raise UsageError("no hosts", "name some")

    assert ended(monkeypatch, tmp_path, run) == "UsageError: no hosts (hint: name some)"


@pytest.mark.parametrize(
    ("code", "sent", "end"),
    [
        (0, LONGEST_ANSWER_BYTES, ("ok", 0, "")),
        (0, LONGEST_ANSWER_BYTES + 1, ("exit", 0, "the node sent more than")),
        (NOT_WHOLE, 0, ("no-answer", NOT_WHOLE, "words")),
        (124, 0, ("timed-out", 124, "words")),
        (137, 0, ("timed-out", 137, "words")),
        (1, 0, ("exit", 1, "words")),
    ],
)
def test_the_outcome_of_a_node_follows_its_exit_code_and_size(code, sent, end):
    node_end = end_of("a", code, "words", sent)
    assert (node_end.outcome, node_end.exit_code) == end[:2]
    assert node_end.detail.startswith(end[2])
    assert not sent > LONGEST_ANSWER_BYTES or node_end.detail.endswith(
        f" {LONGEST_ANSWER_BYTES // 2**20} MiB"
    )


def test_records_are_kept_up_to_the_longest_answer(monkeypatch):
    monkeypatch.setattr(node_command, "LONGEST_ANSWER_BYTES", 30)
    records = Records()
    assert records.in_line(b"noise") is None
    assert records.in_line(b"@rigtune {12345}") == b"{12345}"  # 16 bytes
    assert records.in_line(b"@rigtune {123}") == b"{123}"  # 30 bytes
    assert records.in_line(b"@rigtune {}") is None
    assert records.size == 41


def test_a_line_of_a_node_is_cut_and_has_no_control_characters():
    assert one_line("a\x1b[31mb\tc ") == "a [31mb c"
    assert one_line("x" * 201) == "x" * 200
    assert one_line("x" * 9, 8) == "x" * 8


@pytest.mark.parametrize(
    ("limit_s", "words"), [(60.0, "60"), (60.1, "61"), (1.0, "1"), (0.1, "1"), (0.0, "1")]
)
def test_a_time_limit_is_rounded_up_to_whole_seconds(limit_s, words):
    assert timed(("true",), limit_s).split()[-2:] == [words, "true"]


@pytest.mark.parametrize(
    ("line", "most_bytes", "records", "size"),
    [
        ("echo '@rigtune {}'", 11, ["{}"], 11),
        ("echo '@rigtune {}'", 10, [], 11),
        ("echo '@rigtune 1'; echo '@rigtune 2'", 20, ["1", "2"], 20),
        ("echo '@rigtune 1'; echo '@rigtune 2'", 19, ["1"], 20),
        ("printf '@rigtune 1'", 20, [], 0),
        ("echo noise", 20, [], 0),
        ("printf '@rigtune '; head -c 20 /dev/zero", 20, [], 21),
    ],
)
def test_a_task_of_ray_returns_whole_records_up_to_the_limit(line, most_bytes, records, size):
    assert ray_tasks.work(line, None, most_bytes) == (records, size, 0, "")


def test_a_task_of_ray_reads_the_archive_and_keeps_the_users_variables(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    line = 'echo "@rigtune $(cat) $OMP_NUM_THREADS ${CUDA_VISIBLE_DEVICES-unset}"'
    assert ray_tasks.work(line, b"archive", 100)[0] == ["archive 5 unset"]
    assert ray_tasks.work("cat", None, 100) == ([], 0, 0, "")


def test_nodes_of_one_name_are_distinguished_by_rays_id():
    hosts = [("g1", "1" * 12, True), ("g1", "2" * 12, True), ("g1", "3" * 12, False), ("g2", "4" * 12, True)]
    nodes = [{"NodeManagerHostname": host, "NodeID": key, "Alive": alive} for host, key, alive in hosts]
    assert ray_tasks.names(SimpleNamespace(nodes=lambda: nodes)) == {
        "g1-11111111": "1" * 12,
        "g1-22222222": "2" * 12,
        "g2": "4" * 12,
    }


@pytest.mark.parametrize(
    ("nodes", "others"),
    [
        ("ab", "NODE_RANK=1 on b"),
        ("abc", "NODE_RANK=1 on b, NODE_RANK=2 on c"),
        ("abcd", "NODE_RANK=1 on b, NODE_RANK=2 on c ..."),
    ],
)
def test_a_plan_of_a_job_names_the_first_other_nodes(nodes, others):
    plan = plan_together(JOB._replace(nodes=tuple(nodes)), ("ssh", "a b")).splitlines()
    assert plan[-1] == f"# at the same time: {others}"
    assert plan[0].startswith("ssh 'a b' ")
    assert "NODE_RANK=0" in plan[0]
