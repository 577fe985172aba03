"""Test that Lightning trains as `lightning.json` states: ranks, accumulation, precision, clipping, steps."""

from __future__ import annotations

import json

import pytest

from recipes.launch.known_names import known_names
from recipes.launch.recipe import Command, Convergence
from tests.support.hf_programs import SCRIPTS, program_python, reports, run_script

pytestmark = pytest.mark.slow

NAMES = """
import inspect, json
from lightning.pytorch import Trainer
print(json.dumps(list(inspect.signature(Trainer.__init__).parameters)))
"""


@pytest.fixture
def python():
    return program_python("RIGTUNE_LIGHTNING_PYTHON", "lightning")


@pytest.mark.parametrize("launcher", ["torchrun", "mpi"])
def test_two_ranks_train_one_network(make_recipe, export, tmp_path, python, launcher):
    recipe = make_recipe(
        program="lightning",
        command=Command(
            kind="script",
            target=str(SCRIPTS / "lightning_train.py"),
            arguments=("lightning.json", "{learning_rate}", "{micro_batch}"),
        ),
        resources={"device": "cpu", "python": python},
        parallelism={"precision": "bf16"},
        convergence=Convergence(learning_rate=3e-2, warmup_steps=0, steps=12, gradient_clipping=0.5),
    )
    script = export(launcher, recipe, tmp_path)
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    ranks = reports(run_script(script, **variables))
    assert [(rank["rank"], rank["world"]) for rank in ranks] == [(0, 2), (1, 2)]
    for rank in ranks:
        # two batches are accumulated in every step
        assert (rank["steps"], rank["batches"], rank["clipping"]) == (12, 24, 0.5)
        assert (rank["precision"], rank["strategy"]) == ("bf16-mixed", "DDPStrategy")
        assert sum(rank["losses"][-4:]) < sum(rank["losses"][:4])
    assert ranks[0]["weight"] == ranks[1]["weight"]
    assert ranks[0]["losses"] != ranks[1]["losses"]


def test_the_installed_version_reads_every_known_name(python):
    installed = set(json.loads(run_script(python, "-c", NAMES).splitlines()[-1]))
    assert known_names("lightning").names - installed == set()
