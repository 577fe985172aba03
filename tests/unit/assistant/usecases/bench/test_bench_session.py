"""Test requests that share a start: the same ranks take each in turn, and failed ranks are replaced."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil
import pytest

from assistant.usecases.bench.bench_run import RunEnded
from assistant.usecases.bench.bench_suite import BenchJob, run_jobs, sharing_starts
from assistant.usecases.bench.bench_watch import Watch
from assistant.usecases.events import Progress
from probes.base.table_rows import BenchmarkRow
from probes.bench.answers import per_rank
from probes.bench.bench_requests import BenchRequest
from probes.facts import MachineFacts

WORKER = """#!{python} -IS
import json, os, sys, time
def run(bench, request, out):
    with open(os.path.join(out, "rank0.jsonl"), "w") as file:
        def write(event, **fields):
            print(json.dumps({{"event": event, **fields}}), file=file, flush=True)
        write("start", rank=0, world_size=1, conditions={{"pid": os.getpid()}})
        if bench == "killed":
            os.kill(os.getpid(), 9)
        if bench == "hangs":
            time.sleep(600)
        print("noise of " + bench, flush=True)
        if bench == "wrong":
            write("failure", kind="wrong_result", message="a bit is off")
            sys.exit(1)
        write("sample", case=json.load(open(request))["cases"][0], durations_s=[0.5])
        write("done")
if sys.argv[3] != "--orders":
    run(sys.argv[3], sys.argv[5], sys.argv[7])
    sys.exit()
number = 1
while True:
    path = os.path.join(sys.argv[4], str(number) + ".json")
    while not os.path.exists(path):
        time.sleep(0.01)
    order = json.load(open(path))
    if not order:
        sys.exit()
    run(order["bench"], order["request"], order["out"])
    open(os.path.join(order["out"], "ended0"), "w").close()
    number += 1
"""


@pytest.fixture
def python(tmp_path: Path) -> str:
    path = tmp_path / "worker"
    path.write_text(WORKER.format(python=sys.executable))
    path.chmod(0o755)
    return str(path)


def job(name: str, python: str, *, shares: bool = True, **more) -> BenchJob:
    module = types.ModuleType(f"session_bench_{name}")

    def interpret(request: BenchRequest, lines):
        return per_rank(request, lines, "rate", "1/s", lambda _: 1.0)

    module.interpret = interpret  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    request = BenchRequest(
        bench_id=name,
        title=f"the {name}",
        device="cpu",
        backend="gloo",
        ranks=1,
        threads_per_rank=1,
        budget_s=0.01,
        cases=({"size": 1},),
        shares_start=shares,
        **more,
    )
    row = BenchmarkRow(
        id=name, title=name, module=module.__name__, suites=(), occupies="", cost_s=1, full_cost_s=1
    )
    return BenchJob(row=row, request=request, python=python, cost_s=1.0)


def ended(jobs: list[BenchJob], directory: Path, **more) -> list[RunEnded]:
    before = set(psutil.pids())
    events = list(
        run_jobs(jobs, directory, watch=Watch(MachineFacts()), stop=lambda: False, device="all CPUs", **more)
    )
    left = [process for process in psutil.Process().children(recursive=True) if process.pid not in before]
    assert left == []
    return [event for event in events if isinstance(event, RunEnded)]


def pids(results: list[RunEnded]) -> list[object]:
    return [result.measurements[0].conditions["pid"] if result.measurements else None for result in results]


def test_requests_that_share_a_start_go_to_the_same_ranks(python, tmp_path):
    results = ended([job("one", python), job("own", python, shares=False), job("two", python)], tmp_path)
    one, two, own = pids(results)
    assert one == two != own
    assert [result.failures for result in results] == [(), (), ()]


@pytest.mark.parametrize(
    ("trouble", "kind"), [("wrong", "wrong_result"), ("killed", "crashed"), ("hangs", "timeout")]
)
def test_ranks_that_fail_are_replaced_and_only_their_request_is_lost(
    python, tmp_path, monkeypatch, trouble, kind
):
    monkeypatch.setattr("assistant.usecases.bench.bench_run._PREPARE_S", 0.5)
    results = ended([job("one", python), job(trouble, python), job("two", python)], tmp_path)
    one, none, two = pids(results)
    assert none is None
    assert one != two
    (failure,) = results[1].failures
    assert (failure.bench_id, failure.kind) == (trouble, kind)
    # The tail is the whole log of the failed request, and nothing of the request before.
    assert failure.log_tail.splitlines()[:1] == (["noise of wrong"] if trouble == "wrong" else [])
    assert f"rigtune_worker {trouble} --request" in failure.command


def test_other_variables_or_ranks_need_another_start(python, tmp_path):
    jobs = [
        job("one", python),
        job("layers", python, environment={"NCCL_P2P_DISABLE": "1"}),
        job("two", python),
    ]
    assert [entry.row.id for entry in sharing_starts(jobs)] == ["one", "two", "layers"]
    one, two, layers = pids(ended(jobs, tmp_path))
    assert one == two != layers


class KernelTimes(NamedTuple):
    user: float
    idle: float


def test_work_of_ranks_that_stay_is_not_that_of_others(monkeypatch):
    times = iter((KernelTimes(100.0, 100.0), KernelTimes(100.0, 100.0), KernelTimes(100.5, 100.5)))
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(times))
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True); input()"
    watch = Watch(MachineFacts())
    watch.begin()
    with psutil.Popen((sys.executable, "-c", burn), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as rank:
        rank.stdout.readline()
        watch.end()
        rank.kill()
    assert watch.others_cpu_share == pytest.approx(0.0, abs=0.1)


def test_each_job_reports_its_place_and_the_time_that_the_rest_takes(python, tmp_path):
    costs_s = {"one": 1e4, "two": 1e3, "three": 1e2}
    jobs = [msgspec.structs.replace(job(name, python), cost_s=cost_s) for name, cost_s in costs_s.items()]
    watch = Watch(MachineFacts())
    events = list(run_jobs(jobs, tmp_path, watch=watch, stop=lambda: False, device="all CPUs"))
    reports = [event for event in events if isinstance(event, Progress) and event.remaining_s is not None]
    assert {(event.done, event.total) for event in reports} == {(0, 3), (1, 3), (2, 3)}
    # The present job takes its cost at most, and the later jobs their whole cost.
    later_s = {0: 1100.0, 1: 100.0, 2: 0.0}
    for event in reports:
        left_s = event.remaining_s - later_s[event.done]
        assert 0.5 * jobs[event.done].cost_s < left_s <= jobs[event.done].cost_s
