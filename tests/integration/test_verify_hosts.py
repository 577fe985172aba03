"""Test `rigtune verify` with real launchers: Slurm on virtual nodes, ssh, and mpirun. Needs root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recipes.launch.recipe_file import dump_recipe
from tests.support.slurm import slurm_cluster
from tests.support.ssh_hosts import ssh_lab

pytestmark = [pytest.mark.root, pytest.mark.slow]

LIMIT_S = 300
ROOT = Path(__file__).resolve().parents[2]
HOSTS = ("rigtune-a", "rigtune-b")
ASSERTED = {"verify-world", "verify-ranks", "verify-hosts", "verify-backend", "verify-all-reduce"}


@pytest.fixture
def command(tmp_path):
    """Return a function that returns the command which verifies a recipe with a launcher."""

    def make(recipe, launcher):
        path = tmp_path / "recipe.toml"
        path.write_text(dump_recipe(recipe))
        options = ("--launcher", launcher, "--steps", "4", "--out", str(tmp_path / "run"), "--format", "json")
        return (sys.executable, "-m", "assistant", "verify", str(path), *options)

    return make


def variables(tmp_path, environment):
    return {**environment, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path / "state")}


def proven(answer: str, code: int, world_size: int) -> dict[str, object]:
    """Return the JSON of a verification; assert that all of its assertions hold."""
    assert code == 0, answer
    result = json.loads(answer[answer.index("{") :])
    held = {each["check_id"] for each in result["findings"] if each["status"] == "PASS"}
    assert held >= ASSERTED, result["findings"]
    assert (result["world_size"], result["program"], result["steps"]) == (world_size, "reference", 4)
    return result


def test_a_slurm_job_on_two_nodes_is_proven(make_recipe, torch_python, command, tmp_path):
    recipe = make_recipe(nodes=2, ranks_per_node=2, resources={"python": torch_python, "cpus_per_node": 2})
    with slurm_cluster() as environment:
        done = subprocess.run(
            command(recipe, "slurm"),
            cwd=tmp_path,
            env=variables(tmp_path, environment),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    result = proven(done.stdout, done.returncode, 4)
    assert result["launcher"] == "slurm"
    assert "step 4/4" in Path(str(result["log"])).read_text()


def test_two_hosts_over_ssh_are_proven(make_recipe, torch_python, command, tmp_path, tmp_path_factory):
    recipe = make_recipe(nodes=2, ranks_per_node=1, resources={"python": torch_python, "hosts": HOSTS})
    with ssh_lab(tmp_path_factory.mktemp("ssh"), HOSTS) as lab:
        settings = variables(tmp_path, {})
        words = (
            "env",
            *(f"{name}={value}" for name, value in settings.items()),
            *command(recipe, "torchrun"),
            "-q",
        )
        job = lab.start(*words, cwd=tmp_path)
        output, _ = job.communicate(timeout=LIMIT_S)
    result = proven(output, job.returncode, 2)
    (hosts,) = [each for each in result["findings"] if each["check_id"] == "verify-hosts"]
    assert hosts["observed"] == "rigtune-a, rigtune-b"


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun")
def test_ranks_of_mpirun_are_proven(make_recipe, torch_python, command, tmp_path):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        command(make_recipe(resources={"python": torch_python}), "mpi"),
        cwd=tmp_path,
        env=variables(tmp_path, environment),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    proven(done.stdout, done.returncode, 2)
