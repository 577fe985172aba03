"""Run both strategies of TensorFlow by the exported scripts: two nodes here meet through TF_CONFIG."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from recipes.launch.recipe import Command
from tests.support.hf_programs import SCRIPTS

pytestmark = pytest.mark.slow

LIMIT_S = 300
NODES = 2


@pytest.fixture
def run_nodes(make_recipe, export, tmp_path):
    """Return `run_nodes(strategy, *arguments, **slots)`, which runs launch.sh of each node.

    It returns the exit codes, the reports and the output.
    """
    python = os.environ.get("RIGTUNE_TENSORFLOW_PYTHON")
    if not python:
        pytest.skip("needs TensorFlow: set RIGTUNE_TENSORFLOW_PYTHON")

    def run(strategy, *arguments, **slots):
        recipe = make_recipe(
            program="tensorflow",
            nodes=NODES,
            ranks_per_node=1,
            command=Command(
                kind="script",
                target=str(SCRIPTS / "tensorflow_train.py"),
                arguments=(strategy, "{grad_accum}", *arguments),
            ),
            resources={"python": python},
            slots=slots,
        )
        script = export("torchrun", recipe, tmp_path / "launch")
        variables = {"MASTER_ADDR": "127.0.0.1", "NODE_HOSTS": ",".join(["127.0.0.1"] * NODES)}
        nodes = [
            subprocess.Popen(
                (script, str(rank), str(os.getpid() % 9000)),
                cwd=tmp_path,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(NODES)
        ]
        outputs = [node.communicate(timeout=LIMIT_S)[0] for node in nodes]
        lines = [line for output in outputs for line in output.splitlines()]
        reports = [json.loads(line.removeprefix("REPORT ")) for line in lines if line.startswith("REPORT ")]
        return [node.returncode for node in nodes], reports, "\n".join(lines)

    return run


def test_every_node_is_a_worker_of_one_cluster(run_nodes):
    codes, reports, output = run_nodes("MultiWorkerMirroredStrategy")
    assert codes == [0, 0], output
    assert [report["task"] for report in reports] == [
        {"type": "worker", "index": rank} for rank in range(NODES)
    ]
    # every replica adds its number, counted from 1
    assert {(report["replicas"], report["sum"]) for report in reports} == {(2, 3.0)}


@pytest.mark.parametrize("code", [0, 7])
def test_the_chief_trains_on_a_parameter_server_and_all_end_with_its_code(run_nodes, code):
    codes, (report,), output = run_nodes("ParameterServerStrategy", str(code), parameter_servers="1")
    assert codes == [code] * NODES, output
    assert report["task"] == {"type": "chief", "index": 0}
    assert report["weight"] == 2.0
    assert report["device"].startswith("/job:ps/")
