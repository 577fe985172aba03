"""Run a torch parameter server (RPC) as the user's own program: RANK gives every rank its role."""

from __future__ import annotations

import os
import subprocess

import pytest

from recipes.launch.recipe import Command
from tests.support.hf_programs import SCRIPTS

pytestmark = pytest.mark.slow

LIMIT_S = 240


def test_the_trainers_reach_the_server_of_rank_0(make_recipe, export, torch_python, tmp_path):
    command = Command(kind="script", target=str(SCRIPTS / "parameter_server_rpc.py"))
    recipe = make_recipe(ranks_per_node=3, command=command, resources={"python": torch_python})
    script = export("torchrun", recipe, tmp_path / "launch")
    done = subprocess.run(
        (script,),
        cwd=tmp_path,
        env={**os.environ, "RIGTUNE_PREFLIGHT": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # two trainers, three gradients of 1 each, step 0.5
    assert "server has -3.0 of 2 trainers" in done.stdout + done.stderr
