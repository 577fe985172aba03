"""Programs that start their ranks themselves: the scripts start them once per node, or once for the job."""

from __future__ import annotations

import shutil
import subprocess

import msgspec
import pytest

from recipes.launch.launch_files import find_launcher, program_files
from recipes.launch.recipe import Command, Recipe
from tests.support.launch_bench import SLURM_JOB, put_files

COMMAND = Command(kind="script", target="driver it.py", arguments=("it's",))
SCRIPTS = {"torchrun": "launch.sh", "slurm": "train.sbatch"}


def artifacts(launcher: str, recipe: Recipe, processes: str):
    files = msgspec.structs.replace(program_files(recipe), processes=processes)
    return (*find_launcher(launcher).load().render(recipe, files),)


@pytest.mark.parametrize("launcher", SCRIPTS)
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("processes", ["node", "job"])
def test_a_program_is_started_as_often_as_it_needs(  # noqa: PLR0917 - one case per combination
    make_recipe, launch_bench, tmp_path, launcher, nodes, processes
):
    recipe = make_recipe(nodes=nodes, command=COMMAND, resources={"hosts": ("a", "b")[:nodes]})
    script = put_files(tmp_path / "launch", artifacts(launcher, recipe, processes))
    (tmp_path / "launch" / "plan.json").touch()
    if shutil.which("shellcheck"):
        checked = subprocess.run(
            ("shellcheck", "--shell=bash", str(script)), capture_output=True, text=True, check=False
        )
        assert checked.stdout == ""
    starts = nodes if processes == "node" else 1
    calls = []
    for node in range(starts if launcher == "torchrun" else 1):
        rank = (str(node),) if launcher == "torchrun" and starts > 1 else ()
        variables = {**SLURM_JOB, "SLURM_JOB_NUM_NODES": str(nodes), "COMMAND": str(script)}
        outcome = launch_bench.run("bash", str(script), *rank, "--", "$HOME", **variables)
        assert outcome.exit_code == 0, outcome.words
        calls += outcome.calls
    calls = calls if launcher == "torchrun" else calls[:starts]
    assert [call.arguments for call in calls] == [["-u", "driver it.py", "it's", "$HOME"]] * starts
    assert [call.environment["NODE_RANK"] for call in calls] == [str(node) for node in range(starts)]
    assert {call.environment["NODE_COUNT"] for call in calls} == {str(nodes)}
    assert all(call.environment["MASTER_ADDR"] and call.environment["MASTER_PORT"] for call in calls)
    if nodes > 1:
        expected = "a,b" if launcher == "torchrun" else "n7,n9"
        assert {call.environment["NODE_HOSTS"] for call in calls} == {expected}
