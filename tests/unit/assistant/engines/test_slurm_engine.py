"""The Slurm engine, driven through stand-ins for the commands of Slurm."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pytest

from assistant.engines import ray_engine, slurm_engine, ssh_engine
from assistant.engines.engine_table import Wanted
from assistant.engines.node_command import last_words
from assistant.engines.shipping import Archive, Shipment
from assistant.engines.slurm_answers import report_answers
from assistant.engines.slurm_nodes import longest_job_s, silent_daemons, usable_nodes
from probes.base.errors import OutputError, UsageError
from probes.fleet.node_report import LONGEST_ANSWER_BYTES, NodeEnd, NodeLine

pytest.importorskip("ClusterShell")

SRUN = """
import json, os, sys
folder = os.environ["FAKE_FOLDER"]
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
calls = os.path.join(folder, "steps")
with open(calls, "a") as file:
    file.write(options["nodelist"] + "\\n")
first = sum(1 for _ in open(calls)) == 1
def answer(task, node, code, text):
    with open(options["output"].replace("%t", task), "w") as file:
        file.write("@rigtune-node " + node + "\\n" + text + "\\n\\n@rigtune-exit " + str(code) + "\\n")
if first:
    answer("0", "n1", 0, "@rigtune {}")
    answer("1", "n2", 137, "")
    answer("2", "n4", 124, "")
    sys.exit("srun: error: Task launch for StepId=7.0 failed on node n3: Communication connection failure\\n"
             "srun: error: Application launch failed: Communication connection failure")
answer("0", "n2", 0, "@rigtune {}")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder of stand-ins that is first on the PATH; the stand-ins record their calls in it."""

    def program(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    program("srun", f"#!{sys.executable}\n{SRUN.replace(chr(92) * 2, chr(92))}")
    program("sinfo", "#!/bin/sh\nfor n in 1 2 3 4; do echo n$n idle; done\n")
    program("salloc", "#!/bin/sh\necho 'salloc: Granted job allocation 7' >&2\n")
    program("scancel", '#!/bin/sh\necho "$@" >"$FAKE_FOLDER/cancelled"\n')
    program("scontrol", '#!/bin/sh\ncat "$FAKE_FOLDER/nodes"\n')
    (tmp_path / "nodes").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_FOLDER", str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return tmp_path


def run(*nodes: str) -> dict[str, list[NodeLine | NodeEnd]]:
    events: dict[str, list[NodeLine | NodeEnd]] = {}
    wanted = Wanted(nodes, ("true",), 10)
    slurm_engine.run(wanted, lambda event: events.setdefault(event.node, []).append(event))
    return events


def test_nodes_that_an_aborted_step_killed_are_asked_again_without_the_dead_one(folder):
    events = run("n1", "n2", "n3", "n4")
    ends = {node: answers[-1] for node, answers in events.items()}
    assert {node: end.outcome for node, end in ends.items()} == {
        "n1": "ok",
        "n2": "ok",
        "n3": "no-answer",
        "n4": "timed-out",
    }
    assert all(isinstance(events[node][0], NodeLine) for node in ("n1", "n2"))
    assert (folder / "steps").read_text().split() == ["n[1-4]", "n2"]
    assert (folder / "cancelled").read_text() == "7\n"


def test_nodes_that_slurm_does_not_give_are_not_started(folder):
    (folder / "salloc").write_text("#!/bin/sh\necho 'salloc: error: Requested nodes are busy' >&2; exit 1\n")
    events = run("n1", "n2")
    assert [end.outcome for (end,) in events.values() if isinstance(end, NodeEnd)] == ["not-started"] * 2
    assert not (folder / "cancelled").exists()


@pytest.mark.parametrize(
    ("listed", "usable"), [("n[1-2]", ("n1",)), ("", ("n1", "n9"))], ids=["list", "no list"]
)
def test_in_an_allocation_only_its_nodes_are_used(folder, monkeypatch, listed, usable):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", listed)
    nodes, left = usable_nodes(Wanted(("n1", "n9"), ("true",), 10))
    assert nodes == usable
    assert {end.node: end.outcome for end in left} == dict.fromkeys({"n1", "n9"} - set(usable), "not-started")


def test_a_node_whose_daemon_refuses_a_connection_is_left_out(folder):
    with socket.create_server(("127.0.0.1", 0)) as alive, socket.create_server(("127.0.0.1", 0)) as closed:
        ports = {"n1": alive.getsockname()[1], "n2": closed.getsockname()[1]}
        closed.close()
        lines = [f"NodeName={node} NodeAddr=127.0.0.1 Port={port} OS=Linux 6" for node, port in ports.items()]
        (folder / "nodes").write_text("\n".join(lines))
        silent = silent_daemons(("n1", "n2"))
        assert list(silent) == ["n2"]
        assert f"127.0.0.1:{ports['n2']}" in silent["n2"]
        (folder / "nodes").write_text(lines[1])
        assert not silent_daemons(("n2",)), "no route to any node says nothing about one of them"


def test_the_names_of_many_nodes_fit_into_one_argument(folder):
    """Linux refuses an argument of more than 128 KiB, which 20 000 names exceed."""
    assert silent_daemons(tuple(f"n{number:05}" for number in range(20_000))) == {}


def test_a_node_that_a_job_has_just_left_is_waited_for(folder, monkeypatch):
    """In the first answer of sinfo n2 is completing, and in the second it is idle; n4 is always mixed."""
    monkeypatch.setattr("assistant.engines.slurm_nodes._POLL_S", 0)
    (folder / "sinfo").write_text(
        """#!/bin/sh
echo n1 idle; echo n4 mixed
[ -e "$FAKE_FOLDER/again" ] && echo n2 idle || echo n2 completing
: >"$FAKE_FOLDER/again"
"""
    )
    events = run("n1", "n2", "n4")
    assert (folder / "steps").read_text().split() == ["n[1-2]", "n2"]
    (end,) = events["n4"]
    assert isinstance(end, NodeEnd)
    assert end.outcome == "not-started"


def test_a_node_that_stays_completing_is_left_out(folder, monkeypatch):
    monkeypatch.setattr("assistant.engines.slurm_nodes._POLL_S", 0)
    (folder / "sinfo").write_text("#!/bin/sh\necho n1 idle; echo n2 completing\n")
    usable, (left,) = usable_nodes(Wanted(("n1", "n2"), ("true",), 10), 0.01)
    assert usable == ("n1",)
    assert (left.node, left.outcome) == ("n2", "not-started")


def test_garbage_of_a_node_does_not_fill_the_memory_of_the_head(tmp_path):
    """A node sends a line of 64 MiB and as much error output; the head holds only pieces of both."""
    (tmp_path / "0.out").write_bytes(b"@rigtune-node n1\n" + b"x" * (64 << 20) + b"\n@rigtune-exit 3\n")
    (tmp_path / "0.err").write_bytes(b"y" * (64 << 20) + b"\nno driver\n")
    events: list[NodeLine | NodeEnd] = []
    tracemalloc.start()
    report_answers(tmp_path, ("n1",), "", events.append, may_repeat=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert events == [NodeEnd("n1", "exit", 3, "the node sent more than 4 MiB")]
    assert last_words(tmp_path / "0.err") == "no driver"
    assert peak < 4 * LONGEST_ANSWER_BYTES


def test_a_node_cannot_answer_for_another_one(tmp_path):
    """Two files of n2 claim to be of n1; one is read before the file of n1, the other after it."""
    forged = "@rigtune-node n2\n@rigtune-node n1\n@rigtune {}\n\n@rigtune-exit 0\n"
    for name in ("0.out", "2.out"):
        (tmp_path / name).write_text(forged)
    (tmp_path / "1.out").write_text("@rigtune-node n1\n\n@rigtune-exit 3\n")
    (tmp_path / "1.err").write_text("no driver\n")
    events: list[NodeLine | NodeEnd] = []
    report_answers(tmp_path, ("n1", "n2"), "", events.append, may_repeat=False)
    ends = {event.node: event for event in events if isinstance(event, NodeEnd)}
    assert ends == {"n1": NodeEnd("n1", "exit", 3, "no driver"), "n2": NodeEnd("n2", "ok", 0)}


def test_archives_are_removed_from_all_nodes_of_the_job_in_the_end(folder, monkeypatch):
    """n4 runs nothing, but sbcast has copied the archive to it too."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-4]")
    monkeypatch.setattr(slurm_engine, "_ended", lambda argv, _: calls.append(argv) or "")
    calls: list[tuple[str, ...]] = []
    ship = Shipment((Archive(Path("a.pyz"), "3.11", "0" * 64, 9, "x86_64"),), "rigtune 1")
    slurm_engine.run(Wanted(("n1", "n2"), ("true",), 10, ship=ship), lambda _: None)
    copy, *_, removal = calls
    assert removal[-4:] == ("rm", "-f", "--", copy[-1])
    assert "--nodelist=n[1-4]" in removal


def test_a_node_that_ends_early_does_not_end_slower_ones(folder):
    """srun ends all tasks that run longer than `--wait` after the first one has ended."""
    step = slurm_engine.plan(Wanted(("n1", "n2"), ("true",), 600)).splitlines()[1]
    assert "--wait=0" in step.split()
    assert "--kill-on-bad-exit=0" in step.split()


@pytest.mark.parametrize("error", ["", "srun: error: Task launch for StepId=7.0 failed on node n1: timeout"])
def test_lines_that_arrived_count_although_the_node_did_not_end(folder, error):
    script = f"""#!/bin/sh
for word; do case $word in --output=*) out=${{word#--output=}};; esac; done
printf '@rigtune-node n1\\n@rigtune {{}}\\n@rigtune half' >"${{out%\\%t.out}}0.out"
echo '{error}' >&2
"""
    (folder / "srun").write_text(script)
    line, end = run("n1")["n1"]
    assert isinstance(line, NodeLine)
    assert line.text == b"{}"
    assert isinstance(end, NodeEnd)
    assert end.outcome == "no-answer"


def test_gpus_are_requested_for_the_allocation_and_its_step(folder):
    lines = slurm_engine.plan(Wanted(("n1",), ("true",), 10, {"gpus": "8"})).splitlines()
    assert ["--gres=gpu:8" in line for line in lines] == [True, True, False]


LOCAL_SRUN = """#!/bin/sh
for word; do case $word in --output=*) out=${word#--output=};; esac; done
export SLURMD_NODENAME=n1
sh -c "$word" >"${out%\\%t.out}0.out" 2>"${out%\\%t.out}0.err"
"""
"""Stand-in for srun that runs the shell line of a node on this machine."""


def run_here(folder: Path, script: str, limit_s: float = 60) -> list[NodeLine | NodeEnd]:
    """Return the events that the engine reports for one node that runs a shell script."""
    (folder / "srun").write_text(LOCAL_SRUN)
    events: list[NodeLine | NodeEnd] = []
    slurm_engine.run(Wanted(("n1",), ("sh", "-c", script), limit_s), events.append)
    return events


@pytest.mark.parametrize(
    ("script", "records", "end"),
    [
        (
            "echo noise; echo '@rigtune {}'; echo no driver >&2; exit 3",
            [b"{}"],
            NodeEnd("n1", "exit", 3, "no driver"),
        ),
        ("echo '@rigtune {}'", [b"{}"], NodeEnd("n1", "ok", 0)),
        (
            "echo '@rigtune {}'; exec yes",
            [b"{}"],
            NodeEnd("n1", "exit", 141, "the node sent more than 4 MiB"),
        ),
        ("yes | head -c 20000000 >&2; exit 5", [], NodeEnd("n1", "exit", 5, "y")),
    ],
    ids=["fails", "ends", "prints for ever", "fills the error output"],
)
def test_the_output_of_a_node_is_bounded_and_its_exit_code_is_known(
    folder, monkeypatch, script, records, end
):
    sizes = []

    def measured(path, *arguments, **options):
        sizes.extend(file.stat().st_size for file in path.iterdir())
        return report_answers(path, *arguments, **options)

    monkeypatch.setattr(slurm_engine, "report_answers", measured)
    *lines, last = run_here(folder, script)
    assert last == end
    assert [line.text for line in lines] == records
    assert max(sizes) < 2 * LONGEST_ANSWER_BYTES + 1000


def test_a_program_that_a_command_leaves_behind_does_not_hide_its_exit_code(folder, monkeypatch):
    """The program keeps the output of the node open, until its reader is ended."""
    monkeypatch.setattr("assistant.engines.node_command.GRACE_S", 0.0)
    *_, end = run_here(folder, f"sleep 60 & echo $! >{folder}/left; exit 4", limit_s=1)
    subprocess.run(("kill", (folder / "left").read_text().strip()), check=True)
    assert (end.outcome, end.exit_code) == ("exit", 4)


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("10:00", 600),
        ("2:00:01", 7201),
        ("3-00:00:30", 3 * 86400 + 30),
        ("infinite", float("inf")),
        ("n/a", float("inf")),
    ],
)
def test_the_time_limit_of_a_partition_is_read(folder, limit, seconds):
    (folder / "sinfo").write_text(f"#!/bin/sh\necho 'other 5:00'; echo 'main* {limit}'\n")
    assert longest_job_s(None)[1] == longest_job_s("main")[1] == seconds
    assert longest_job_s("other") == ("other", 300)
    assert longest_job_s("nowhere") == ("nowhere", float("inf"))


def test_a_limit_that_the_partition_does_not_allow_is_refused_before_any_job(folder, monkeypatch):
    """Three steps of 200 s and 40 s around each need 12 minutes; inside an allocation no job is needed."""
    (folder / "sinfo").write_text("#!/bin/sh\necho 'main* 10:00'\n")
    (folder / "salloc").unlink()
    wanted = Wanted(("n1",), ("true",), 200)
    words = "200 s for each node needs a job of 12 minutes, but the partition main allows 10 minutes"
    for action in (slurm_engine.plan, lambda wanted: slurm_engine.run(wanted, lambda _: None)):
        with pytest.raises(UsageError, match=words):
            action(wanted)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1")
    assert slurm_engine.plan(wanted)


def test_a_stop_while_archives_are_copied_waits_shortly_for_their_removal(monkeypatch):
    """The removal may take a minute after a run that ended, but the user has stopped this one."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1")
    monkeypatch.setattr(slurm_engine, "silent_daemons", lambda _: {})
    limits: dict[str, float] = {}

    def ended(argv: tuple[str, ...], limit_s: float) -> str:
        limits[argv[0]] = limit_s
        if argv[0] == "sbcast":
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr(slurm_engine, "_ended", ended)
    ship = Shipment((Archive(Path("a.pyz"), "3.11", "0" * 64, 9, "x86_64"),), "rigtune 1")
    with pytest.raises(KeyboardInterrupt):
        slurm_engine.run(Wanted(("n1",), ("true",), 10, ship=ship), lambda _: None)
    assert limits["srun"] <= 10


@pytest.mark.parametrize("engine", ["slurm", "ray", "ssh"])
def test_a_head_without_a_temporary_folder_says_so(engine, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    monkeypatch.setenv("RIGTUNE_RAY_PYTHON", sys.executable)
    (tmp_path / "a.pyz").write_bytes(b"x")
    ship = Shipment((Archive(tmp_path / "a.pyz", "3.11", "0" * 64, 1, "x86_64"),), "rigtune 1")
    wanted = Wanted(("n1",), ("true",), 10, ship=ship if engine == "ssh" else None)
    engines = {"slurm": slurm_engine, "ray": ray_engine, "ssh": ssh_engine}
    with pytest.raises(OutputError, match="cannot make a temporary folder"):
        engines[engine].run(wanted, lambda _: None)
