"""Run the benchmark workers through the use case that users start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from assistant.usecases.measure import MeasureOptions, measure_machine
from probes.bench.benchmark_table import BENCHMARKS
from probes.facts import Cpu, MachineFacts, NumaNode
from tests.workers.conftest import DEADLINE_S

FACTS = MachineFacts(
    gpus=(), numa_nodes=(NumaNode(index=0),), cpu=Cpu(physical_cores=2, logical_cpus=2, allowed_cpus=2)
)


def measured(python: str, *only: str, ranks: int = 2):
    options = MeasureOptions(python=python, only=only, force=True, ranks_per_node=ranks)
    result = list(measure_machine(FACTS, options))[-1].result
    assert result.failures == ()
    return result.measurements


def test_all_reduce_over_two_ranks(torch_python, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    measurements = measured(torch_python, "collectives")
    assert list(tmp_path.iterdir()) == []
    rates = [
        m
        for m in measurements
        if m.metric == "bus_bandwidth_bytes_per_s" and m.parameters["collective"] == "all_reduce"
    ]
    sizes = [m.parameters["bytes"] for m in rates]
    assert len(sizes) >= 5  # on a busy machine no time may be left for the largest sizes
    assert sizes == [1024 * 4**power for power in range(9)][: len(sizes)]
    assert all(m.parameters["world_size"] == 2 and m.parameters["backend"] == "gloo" for m in rates)
    assert all(m.samples and min(m.samples) > 0 for m in measurements)


@pytest.mark.slow
def test_the_quick_suite(torch_python):
    measurements = measured(torch_python)
    assert {m.bench_id for m in measurements} == {
        row.id for row in BENCHMARKS if "quick" in row.suites and "GPUs" not in row.applies
    }
    assert {m.subject for m in measurements if m.bench_id == "gemm"} == {"CPU rank 0", "CPU rank 1"}
    assert {m.subject for m in measurements if m.bench_id == "train-step"} == {"1 rank", "2 ranks"}


def test_ranks_vanish_when_rigtune_is_killed(torch_python, tmp_path):
    """torch's agent starts each rank in its own session, so signals to the agent's process group miss it."""
    program = (
        "import sys; from tests.workers.test_bench import FACTS; from assistant.usecases.measure import *;"
        "options = MeasureOptions(python=sys.argv[1], only=('gemm',), force=True, "
        "work_directory=sys.argv[2]);"
        "[print(event, flush=True) for event in measure_machine(FACTS, options)]"
    )
    argv = (sys.executable, "-c", program, torch_python, str(tmp_path))
    with subprocess.Popen(argv, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as rigtune:
        assert rigtune.stdout is not None
        watched = psutil.Process(rigtune.pid)
        try:
            while "matrix multiply: dtype" not in rigtune.stdout.readline():
                assert rigtune.poll() is None
            below = watched.children(recursive=True)
        finally:
            rigtune.kill()
    assert len(below) >= 4  # guard, agent, two ranks
    _, alive = psutil.wait_procs(below, timeout=DEADLINE_S)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
