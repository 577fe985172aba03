"""Run Ray Train by the exported scripts on two hosts in network namespaces: each host has a worker.

Needs root. RIGTUNE_RAY_PYTHON names an interpreter with torch and ray[train].
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from recipes.launch.recipe import Command, Environment
from tests.support.hf_programs import SCRIPTS
from tests.support.ssh_hosts import ssh_lab

pytestmark = [pytest.mark.root, pytest.mark.slow]

LIMIT_S = 480
HOSTS = ("rigtune-ray1", "rigtune-ray2")
NASTY = ("it's", "$HOME `id`")


@pytest.fixture(scope="module")
def ray_python():
    python = os.environ.get("RIGTUNE_RAY_PYTHON")
    if not python:
        pytest.skip("needs torch and ray[train]: set RIGTUNE_RAY_PYTHON")
    return python


@pytest.fixture(scope="module")
def lab(ray_python, tmp_path_factory):
    with ssh_lab(tmp_path_factory.mktemp("ssh"), HOSTS) as hosts:
        yield hosts


@pytest.fixture
def run_job(lab, ray_python, make_recipe, export, tmp_path):
    """Return `run_job(script, *arguments)`, which runs a job on both hosts.

    It returns the exit code, the output and the reports of the job.
    """

    def run(script, *arguments):
        answers = tmp_path / "answers"
        answers.mkdir()
        recipe = make_recipe(
            program="ray-train",
            nodes=2,
            ranks_per_node=1,
            command=Command(kind="script", target=str(script), arguments=(str(answers), *arguments)),
            environment=(Environment(name="MY_VALUE", value="it's", why="w", source="s"),),
            resources={"python": ray_python, "hosts": HOSTS},
            slots={"checkpoints": str(tmp_path / "checkpoints")},
        )
        job = lab.start(export("ray", recipe, tmp_path / "launch"), cwd=tmp_path)
        output, _ = job.communicate(timeout=LIMIT_S)
        reports = [json.loads(path.read_text()) for path in sorted(answers.iterdir())]
        return job.returncode, output, reports

    return run


def test_a_script_runs_once_per_host_as_under_torchrun(run_job):
    code, output, reports = run_job(SCRIPTS / "ray_train.py", *NASTY)
    assert code == 0, output
    assert [report["rank"] for report in reports] == [0, 1]
    assert {report["host"] for report in reports} == set(HOSTS)
    for report in reports:
        assert (report["local_rank"], report["world"], report["sum"]) == (0, 2, 3.0)
        assert report["words"] == list(NASTY)
        assert (report["variable"], report["plan"]) == ("it's", "mini")
    assert not list((Path.home() / ".ray").glob("rigtune-mini-*.token"))


def test_a_worker_function_gets_the_plan(run_job):
    code, output, reports = run_job(SCRIPTS / "ray_loop.py")
    assert code == 0, output
    assert {report["host"] for report in reports} == set(HOSTS)
    assert [(report["sum"], report["batch"]) for report in reports] == [(3.0, 2), (3.0, 2)]
