"""Test a fleet on a real Ray cluster of three local nodes, one of which dies during the run.

Needs RIGTUNE_RAY_PYTHON, an interpreter with Ray.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from assistant.engines import ray_engine
from assistant.engines.engine_table import choose_engine
from assistant.usecases.fleet.check_fleet import FleetRun, check_fleet

pytestmark = [pytest.mark.slow]
PYTHON = os.environ.get("RIGTUNE_RAY_PYTHON", "")

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
for _ in range(2):
    cluster.add_node(num_cpus=1)
print("ADDRESS", cluster.address, flush=True)
sys.stdin.readline()
cluster.remove_node([node for node in cluster.list_all_nodes() if not node.head][0], allow_graceful=False)
print("KILLED", flush=True)
sys.stdin.readline()
cluster.shutdown()
"""
NODE = """
import json, os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
(folder / str(os.getpid())).touch()
for _ in range(1200):
    if (folder / "go").exists():
        break
    time.sleep(0.1)
assert "CUDA_VISIBLE_DEVICES" not in os.environ
print("noise")
print("@rigtune " + json.dumps({"verdict": "PASS", "version": "1"}), flush=True)
"""


@pytest.fixture
def cluster() -> Iterator[subprocess.Popen[str]]:
    if not PYTHON:
        pytest.skip("RIGTUNE_RAY_PYTHON does not name an interpreter with Ray")
    with subprocess.Popen(
        (PYTHON, "-c", CLUSTER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.communicate("\n\n", timeout=120)


def line_with(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if line.startswith(word))


def test_a_node_that_dies_has_no_answer_and_the_others_do(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", line_with(cluster, "ADDRESS").split()[1])
    script, marks = tmp_path / "node.py", tmp_path / "marks"
    script.write_text(NODE)
    marks.mkdir()
    row, reason = choose_engine("ray", has_pattern=False)
    run = FleetRun(
        engine=row,
        engine_reason=reason,
        nodes=ray_engine.nodes(""),
        command=(sys.executable, str(script), str(marks)),
        limit_s=120,
        folder=tmp_path / "run",
    )
    assert len(run.nodes) == 3
    # the node dies when all three tasks run, and only then may the others answer
    watcher = f"until [ $(ls {marks} | wc -l) = 3 ]; do sleep 0.2; done; echo; sleep 5; touch {marks}/go"
    with subprocess.Popen(("sh", "-c", watcher), stdout=cluster.stdin):
        *_, end = check_fleet(run)
    outcomes = Counter(node.outcome for node in end.result.nodes)
    assert outcomes == {"ok": 2, "no-answer": 1}, end.result.nodes
    assert (len(end.result.good), end.result.bad) == (2, ())
    (lost,) = (node for node in end.result.nodes if node.outcome == "no-answer")
    assert "Died" in lost.detail
