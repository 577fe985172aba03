"""Test the checks before ranks start on several hosts: each is reachable, idle and sees the work folder."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from assistant.engines.engine_job import EngineJob
from assistant.processes.interpreter import Interpreter
from assistant.usecases import measure
from assistant.usecases.bench.asked_hosts import (
    HostAnswer,
    ask_hosts,
    require_shared,
    use_by_others,
)
from assistant.usecases.bench.bench_gate import Gate
from assistant.usecases.bench.bench_start import HostsJob, argv_of, recipe_of
from assistant.usecases.measure import MeasureOptions
from probes.base.errors import UsageError, WorkerError
from probes.bench.bench_requests import BenchRequest
from recipes.launch.launch_files import launch_files
from recipes.launch.recipe import program_arguments
from recipes.launch.recipe_file import faults
from tests.support.machines import cpu_box

SSH = """\
while [ $# -gt 2 ]; do shift; done
case $1 in
  good*) sh -c "$2" ;;
  busy*) PATH="${0%/*}/busy:$PATH" sh -c "$2" ;;
  blind*) echo "Last login: today"; echo "cat: no such file" >&2 ;;
  *) echo "ssh: connect to host $1 port 22: No route to host" >&2; exit 255 ;;
esac
"""
MPIRUN = """\
if [ "$4" = down ]; then echo "mpirun: connect to host down: No route to host" >&2; exit 1; fi
shift 4
exec "$@"
"""


@pytest.fixture
def launchers(tmp_path, monkeypatch):
    """Install ssh and mpirun that run commands here; hosts named `busy` have a program on a GPU."""
    folder = tmp_path / "bin"
    (folder / "busy").mkdir(parents=True)
    for name, text in (("ssh", SSH), ("mpirun", MPIRUN), ("busy/nvidia-smi", "echo 4711\n")):
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("spread_by", "hosts", "unseen"),
    [
        ("ssh", ("good1", "good2"), set()),
        ("ssh", ("good1", "blind", "dead"), {"blind", "dead"}),
        ("mpi", ("a", "b"), set()),
        ("mpi", ("a", "down", "b"), {"down"}),
        ("exec", ("a", "b"), set()),
    ],
)
@pytest.mark.usefixtures("launchers")
def test_every_host_is_asked_for_a_file_that_is_written_now(tmp_path, spread_by, hosts, unseen):
    answers = ask_hosts(hosts, spread_by, tmp_path / "it's a $folder")
    reasons = {host: answer.detail for host, answer in answers.items() if not answer.sees_folder}
    assert set(reasons) == unseen
    assert "No route to host" in reasons.get("dead", reasons.get("down", "No route to host"))
    assert reasons.get("blind", "") == ""


@pytest.mark.usefixtures("launchers")
def test_programs_on_the_gpus_of_a_host_are_counted(tmp_path):
    answers = ask_hosts(("busy", "good"), "ssh", tmp_path)
    assert {host: answer.gpu_programs for host, answer in answers.items()} == {"busy": 1, "good": 0}


@pytest.mark.parametrize(
    ("answer", "force", "why"),
    [
        (HostAnswer("ok", sees_folder=True), False, ""),
        (HostAnswer("ok", sees_folder=True, gpu_programs=2), False, "2 programs on its GPUs"),
        (HostAnswer("ok", sees_folder=True, gpu_programs=2), True, ""),
        (HostAnswer("not-started", "a job uses the node (mixed)"), True, "a job uses the node (mixed)"),
        (HostAnswer("unreachable", "No route to host"), False, ""),
    ],
    ids=range(5),
)
def test_hosts_in_use_are_those_that_benchmarks_leave_out(answer, force, why):
    assert use_by_others(answer, force=force) == why


@pytest.mark.parametrize(
    ("hosts", "measured"),
    [
        (("good1", "busy", "good2"), ("good1", "good2")),
        (("good1", "busy"), None),
        (("good1", "dead"), None),
    ],
    ids=["a host in use", "no pair is left", "a dead host"],
)
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.usefixtures("launchers")
def test_a_benchmark_over_hosts_leaves_out_those_in_use(monkeypatch, tmp_path, hosts, measured, force):
    started, questions = [], []

    def ask(*words):
        questions.append(words)
        return ask_hosts(*words)

    monkeypatch.setattr(measure, "ask_hosts", ask)

    def run_jobs(jobs, *_, **__):
        started.extend(job.request.hosts for job in jobs)
        return iter(())

    monkeypatch.setattr(measure, "run_jobs", run_jobs)
    monkeypatch.setattr(measure, "busy_with", lambda _: "")
    torch = Interpreter(path="/opt/python", python="3.11", torch="2.6")
    monkeypatch.setattr(measure, "gate_of", lambda *_: Gate(interpreter=torch))
    options = MeasureOptions(
        hosts=hosts, only=("network", "across-nodes"), work_directory=str(tmp_path / "work"), force=force
    )
    *_, end = measure.measure_machine(cpu_box(), options)
    assert len(questions) == 1, "one question is enough for all benchmarks"
    failures = {failure.subject: failure for failure in end.result.failures}
    assert {failure.bench_id for failure in end.result.failures} <= {"network", "across-nodes"}
    if "dead" in hosts:
        assert "host dead cannot be reached by ssh: ssh: connect" in failures["this machine"].message
        assert not started
    elif force:
        assert (started, failures) == ([hosts] * 2, {})
    else:
        assert started == ([measured] * 2 if measured else [])
        assert failures["busy"].kind == "busy"
        assert failures["busy"].message.startswith("left out: 1 program on its GPUs; wait, or measure")
        assert ("this machine" in failures) == (not measured), "the benchmarks that were not run say why"


def test_without_the_library_of_an_engine_the_command_that_installs_it_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for name in ("ssh", "mpi", "exec"):
        with pytest.raises(UsageError, match="needs the Python module ClusterShell") as caught:
            ask_hosts(("a", "b"), name, tmp_path)
        assert caught.value.hint.endswith("-m pip install ClusterShell")


@pytest.mark.parametrize(
    ("hosts", "message", "hint"),
    [
        (("good", "blind1", "blind2"), "blind1, blind2 do not see the folder", "--work-directory FOLDER"),
        (
            ("good", "blind", "dead"),
            "host dead cannot be reached by ssh: ssh: connect to host dead",
            "ssh -o BatchMode=yes dead",
        ),
    ],
)
@pytest.mark.usefixtures("launchers")
def test_hosts_without_the_folder_or_an_answer_are_reported_with_a_hint(tmp_path, hosts, message, hint):
    with pytest.raises(WorkerError, match=message) as caught:
        require_shared(ask_hosts(hosts, "ssh", tmp_path), "ssh", tmp_path)
    assert hint in caught.value.hint


def request_for(spread_by: str) -> BenchRequest:
    return BenchRequest(
        bench_id="across-nodes",
        title="3 hosts (a, b, ...)",
        device="cpu",
        backend="gloo",
        ranks=6,
        threads_per_rank=1,
        budget_s=10.0,
        cases=(),
        environment={"NCCL_P2P_DISABLE": "1"},
        hosts=("good1", "good2", "good3"),
        spread_by=spread_by,
    )


PROGRAM = ("-m", "rigtune_worker", "across-nodes", "--request", "/x/{steps}.json", "--out", "/x/a")


def test_a_request_is_a_valid_recipe(tmp_path):
    recipe = recipe_of("/opt/python", request_for("ssh"), tmp_path, PROGRAM)
    assert not list(faults(recipe))
    assert (recipe.parallelism.nodes, recipe.parallelism.ranks_per_node) == (3, 2)
    assert program_arguments(recipe)[-4:] == PROGRAM[-4:]
    variables = {variable.name: variable.value for variable in recipe.environment}
    assert variables["NCCL_P2P_DISABLE"] == "1"
    assert variables["PYTHONPATH"].startswith(f"{tmp_path}/worker")
    assert "GLOO_SOCKET_IFNAME" not in variables  # the loopback of one machine leads to no other
    assert launch_files(recipe, "torchrun")


@pytest.mark.usefixtures("launchers")
def test_hosts_get_the_workers_and_the_task_in_the_shared_folder(tmp_path):
    argv = argv_of("/opt/python", request_for("ssh"), tmp_path, PROGRAM)
    job = msgspec.json.decode(Path(argv[-1]).read_bytes(), type=EngineJob)
    assert (job.engine, job.wanted.nodes) == ("ssh", ("good1", "good2", "good3"))
    assert job.wanted.rendezvous is not None
    assert 20000 <= job.wanted.rendezvous.port < 30000
    assert (tmp_path / "launch" / "launch.sh").is_file()
    assert (tmp_path / "worker" / "rigtune_worker" / "multi_host.py").is_file()


def test_the_output_of_a_job_has_that_of_every_host_and_the_first_to_end_is_last(tmp_path):
    """The host that stopped writing first is often the cause of the failure."""
    nodes = tmp_path / "nodes"
    nodes.mkdir()
    for rank, (text, changed_s) in enumerate((("closed by peer\n", 20), ("out of memory\n", 10))):
        (nodes / f"node{rank}.log").write_text(text)
        os.utime(nodes / f"node{rank}.log", (changed_s, changed_s))
    argv = ("echo", "b: exit: 1")
    with HostsJob(argv, directory=tmp_path, environment={}, log=tmp_path / "log.txt") as job:
        assert job.wait(60) == 0
        assert job.log_tail() == "closed by peer\nout of memory\nb: exit: 1"
        assert job.log_bytes == len("closed by peer\nout of memory\nb: exit: 1\n")
