"""Cause failures of a launch with real ranks over gloo, and judge what the smoke test reports."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.judging.findings import Status
from recipes.launch.agent import agent_argv
from recipes.launch.verifying.smoke_judging import judge_smoke
from recipes.launch.verifying.smoke_report import read_smoke_report

NONCE, DEADLINE_S = 4711, 120
FOREIGN_STORE = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), is_master=True, wait_for_workers=False)
store.set("another job", "1")
print("ready", flush=True)
sys.stdin.read()
"""
"""Program of another job, which keeps a store on the port that the tested ranks use."""


@pytest.fixture
def port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return tmp_path / "smoke.jsonl"


@pytest.fixture
def start(torch_python, environment, report, port):
    """Yield a function that starts one rank, by default of two; ranks are killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def rank(number: int, *, nonce: int = NONCE, limit_s: float = 4, backend: str = "gloo", size: int = 2):
        variables = {
            **environment,
            "RANK": str(number),
            "LOCAL_RANK": str(number),
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        options = (
            "--nonce",
            str(nonce),
            "--backend",
            backend,
            "--report",
            str(report),
            "--limit-s",
            str(limit_s),
        )
        command = (torch_python, "-m", "rigtune_worker.smoke", *options)
        process = subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)
        return process

    yield rank
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def foreign_store(torch_python, environment, port) -> Iterator[None]:
    with subprocess.Popen(
        (torch_python, "-c", FOREIGN_STORE, str(port)),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield
        process.kill()


@pytest.fixture
def judged(make_recipe, report):
    """Return a function that judges the report and returns the findings by check id."""

    def judge(recipe=None):
        files = [report, *sorted(report.parent.glob("smoke.jsonl.rank*"))]
        read = read_smoke_report(path.read_bytes() for path in files if path.exists())
        assert read.problems == ()
        findings = judge_smoke(recipe or make_recipe(), read, NONCE, ended="the launch ended")
        return {each.check_id: each for each in findings}

    return judge


def ended(*processes: subprocess.Popen[str]) -> list[int]:
    for process in processes:
        process.communicate(timeout=DEADLINE_S)
    return [process.returncode for process in processes]


def test_two_ranks_of_one_run_are_proven(torch_python, environment, report, judged):
    options = ("--nonce", str(NONCE), "--backend", "gloo", "--report", str(report))
    command = agent_argv(torch_python, 2, ("-m", "rigtune_worker.smoke", *options))
    subprocess.run(command, env=environment, check=True, timeout=DEADLINE_S, capture_output=True)
    findings = judged()
    assert {finding.status for finding in findings.values()} == {Status.PASS}
    assert "verify-all-reduce" in findings


def test_a_missing_rank_is_named(start, judged):
    assert ended(start(0)) == [1]
    finding = judged()["verify-ranks"]
    assert finding.status is Status.FAIL
    assert "missing: 1" in finding.summary


def test_a_store_of_another_job_on_the_port_is_a_foreign_world(start, judged, foreign_store):
    assert ended(start(1)) == [1]
    finding = judged()["verify-all-reduce"]
    assert finding.status is Status.FAIL
    assert "another job" in finding.summary
    assert "MASTER_PORT" in finding.remedy.text


def test_another_run_of_the_test_on_the_port_is_a_foreign_world(start, judged):
    other = start(0, nonce=99, limit_s=60)
    assert ended(start(1)) == [1]
    assert other.poll() is None
    finding = judged()["verify-all-reduce"]
    assert "another run" in finding.summary


def test_a_port_in_use_is_named(start, judged, foreign_store):
    assert ended(start(0)) == [1]
    finding = judged()["verify-world"]
    assert "port in use" in finding.observed


def test_a_rank_that_exists_twice_is_named(start, report, make_recipe):
    processes = [start(number, limit_s=6, size=3) for number in (0, 1, 1)]
    assert ended(*processes) == [1, 1, 1]
    read = read_smoke_report([path.read_bytes() for path in sorted(report.parent.glob("smoke.jsonl.rank*"))])
    summaries = [each.summary for each in judge_smoke(make_recipe(ranks_per_node=3), read, NONCE)]
    assert any("rank 1 is also process" in summary for summary in summaries)
    assert any("missing: 2" in summary for summary in summaries)


def test_ranks_of_different_world_sizes_are_named(start, judged):
    assert ended(start(0, limit_s=60), start(1, limit_s=60, size=3)) == [1, 1]
    findings = judged()
    assert "different world sizes: [2, 3]" in findings["verify-world"].summary
    assert findings["verify-all-reduce"].status is Status.UNKNOWN


def test_a_backend_that_is_not_possible_is_reported_with_its_reason(start, judged, make_recipe):
    assert ended(*(start(rank, backend="nccl", limit_s=60) for rank in (0, 1))) == [0, 0]
    findings = judged(make_recipe(resources={"device": "cuda", "backend": "nccl"}))
    finding = findings["verify-backend"]
    if finding.status is Status.PASS:
        pytest.skip("this machine has two GPUs")
    assert finding.expected == "nccl"
    assert "gloo" in finding.observed
    assert "torch" in finding.observed
    assert findings["verify-all-reduce"].status is Status.PASS


def test_processes_that_do_not_know_each_other_are_found(torch_python, environment, report, judged):
    options = ("--nonce", str(NONCE), "--backend", "gloo", "--report", str(report))
    for _ in range(2):
        command = (torch_python, "-m", "rigtune_worker.smoke", *options)
        subprocess.run(command, env=environment, check=True, timeout=DEADLINE_S, capture_output=True)
    findings = judged()
    assert findings["verify-world"].observed == "2 worlds of one rank"
    assert findings["verify-ranks"].status is findings["verify-all-reduce"].status is Status.FAIL
