"""Test workers that are killed, hang, write garbage, or lack memory or disk space.

Each failure is one line, other results are kept, and no process is left.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from assistant.usecases import measure as measuring
from assistant.usecases.bench import bench_run
from assistant.usecases.bench.bench_suite import jobs_of
from assistant.usecases.events import BenchFailed, Event
from assistant.usecases.measure import MeasureOptions, measure_machine
from probes.bench import bench_requests
from probes.facts import Cpu, MachineFacts
from probes.facts.measurements import BenchFailure, MeasurementSet

FACTS = MachineFacts(gpus=(), cpu=Cpu(physical_cores=2, logical_cpus=2, allowed_cpus=2))
MEMORY_GROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Assert that no descendant of this process and no other process with the mark of this run is left."""
    before = _workers()
    yield
    assert psutil.Process().children(recursive=True) == []
    assert _workers() - before == set()


def _workers() -> set[int]:
    processes = set()
    for process in psutil.process_iter(["cmdline", "status"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE and str(os.getpid()) in _environment(process):
            processes.add(process.pid)
    return processes


def _environment(process: psutil.Process) -> str:
    try:
        return process.environ().get("RIGTUNE_TEST_RUN", "")
    except psutil.Error:
        return ""


@pytest.fixture(autouse=True)
def marked(monkeypatch):
    """Mark every process that is started from here on, even if its parents end."""
    monkeypatch.setenv("RIGTUNE_TEST_RUN", str(os.getpid()))


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Limit each benchmark to one second and to its first four cases."""

    def shortened(*arguments):
        jobs, prevented = jobs_of(*arguments)
        requests = [replace(job.request, budget_s=1.0, cases=job.request.cases[:4]) for job in jobs]
        return [replace(job, request=request) for job, request in zip(jobs, requests, strict=True)], prevented

    monkeypatch.setattr(measuring, "jobs_of", shortened)


@pytest.fixture
def trouble(monkeypatch) -> Callable[[str], None]:
    """Return a function that makes a rank fail right after its second case: `kill:1`, `hang:1`,
    `garbage:0`, `fill:0`.
    """

    def cause(kind_and_rank: str) -> None:
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support" / "trouble"))
        monkeypatch.setenv("RIGTUNE_TEST_TROUBLE", kind_and_rank)

    return cause


def measure(python: str, *only: str, ranks: int = 2, **more) -> tuple[MeasurementSet, list[Event]]:
    options = MeasureOptions(python=python, only=only, force=True, ranks_per_node=ranks, **more)
    events = list(measure_machine(FACTS, options))
    return events[-1].result, events


def the_failure(result: MeasurementSet, bench_id: str) -> BenchFailure:
    (failure,) = (failure for failure in result.failures if failure.bench_id == bench_id)
    assert "\n" not in failure.message
    return failure


def test_a_killed_rank_is_named_and_the_next_benchmark_runs(torch_python, tmp_path, trouble):
    trouble("kill:1")
    result, events = measure(torch_python, "collectives", "storage", work_directory=str(tmp_path / "work"))
    failure = the_failure(result, "collectives")
    assert failure.kind == "crashed"
    assert "rank 1" in failure.message
    assert "signal 9 (SIGKILL)" in failure.message
    assert "rigtune_worker collectives" in failure.command
    assert {m.bench_id for m in result.measurements} == {"collectives", "storage"}
    assert [e.failure for e in events if isinstance(e, BenchFailed)] == list(result.failures)


@pytest.mark.slow
def test_a_rank_that_hangs_is_ended_with_the_one_that_waits_for_it(
    torch_python, tmp_path, trouble, monkeypatch
):
    trouble("hang:1")
    monkeypatch.setattr(bench_run, "_PREPARE_S", 3.0)
    monkeypatch.setattr(bench_requests, "_OVERRUN", 1.0)
    result, _ = measure(torch_python, "collectives", work_directory=str(tmp_path / "work"))
    assert the_failure(result, "collectives").kind == "timeout"


def test_garbage_in_outputs_and_answers_costs_nothing_but_itself(torch_python, tmp_path, trouble):
    trouble("garbage:0")
    result, _ = measure(torch_python, "storage", work_directory=str(tmp_path / "work"))
    assert result.failures == ()
    assert len(result.measurements) > 1
    assert all("made" not in m.parameters for m in result.measurements)


def interpreter(tmp_path: Path, name: str, script: str) -> str:
    """Return the path of an interpreter that is a shell script, like wrappers of conda and modules."""
    path = tmp_path / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_without_torch_what_needs_none_is_measured_all_the_same(tmp_path):
    python = interpreter(tmp_path, "bare", f'exec {sys.executable} -S "$@"')
    result, _ = measure(python, "gemm", "storage", "train-step", work_directory=str(tmp_path / "work"))
    assert {m.bench_id for m in result.measurements} == {"storage"}
    causes = {the_failure(result, bench_id).message for bench_id in ("gemm", "train-step")}
    assert len(causes) == 1
    assert "no torch" in causes.pop()


def test_a_torch_that_is_too_old_is_one_line(tmp_path, monkeypatch):
    old = tmp_path / "old" / "torch"
    (old / "distributed").mkdir(parents=True)
    (old / "__init__.py").write_text("__version__ = '1.13.1'\nclass version: cuda = None\n")
    (old / "distributed" / "__init__.py").write_text("def is_available(): return False\n")
    monkeypatch.setenv("PYTHONPATH", str(old.parent))
    result, _ = measure(sys.executable, "gemm")
    failure = the_failure(result, "gemm")
    assert failure.kind == "no_interpreter"
    assert "has torch 1.13.1, but the workers need 2.4 or newer" in failure.message


@pytest.mark.slow
def test_refused_memory_is_reported_as_such(torch_python, tmp_path):
    """Limit the address space so that torch can start, but its large buffers do not fit."""
    python = interpreter(
        tmp_path, "small", f'[ "$2" = rigtune_worker.vet ] || ulimit -v 1500000\nexec {torch_python} "$@"'
    )
    result, _ = measure(python, "memory-copy", ranks=1, work_directory=str(tmp_path / "work"))
    assert {failure.kind for failure in result.failures} <= {"out_of_memory", "crashed"}
    assert "out_of_memory" in {failure.kind for failure in result.failures}


@pytest.mark.root
def test_a_worker_that_the_kernel_kills_for_memory_is_reported_as_such(torch_python, tmp_path):
    parent = next(path for path in MEMORY_GROUPS if path.is_dir())
    group = parent / f"rigtune-test-{os.getpid()}"
    group.mkdir()
    try:
        limit = next(
            group / name for name in ("memory.limit_in_bytes", "memory.max") if (group / name).exists()
        )
        limit.write_text(str(100 * 2**20))
        enter = f'[ "$2" = rigtune_worker.vet ] || echo $$ > {group}/cgroup.procs'
        python = interpreter(tmp_path, "tight", f'{enter}\nexec {torch_python} "$@"')
        result, _ = measure(python, "memory-copy", ranks=1, work_directory=str(tmp_path / "work"))
    finally:
        group.rmdir()
    failure = the_failure(result, "memory-copy")
    assert failure.kind == "out_of_memory"
    assert "the kernel killed it because memory ran out" in failure.message


@pytest.mark.root
def test_a_full_disk_is_named_and_what_was_written_stays(torch_python, tmp_path, trouble):
    trouble("fill:0")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)), check=True)

    try:
        result, _ = measure(torch_python, "gemm", "memory-copy", ranks=1, work_directory=str(disk))
    finally:
        subprocess.run(("umount", str(disk)), check=True)
    assert {m.bench_id for m in result.measurements} == {"gemm"}
    for bench_id in ("gemm", "memory-copy"):
        words = the_failure(result, bench_id).message
        assert "full" in words or "No space left" in words
