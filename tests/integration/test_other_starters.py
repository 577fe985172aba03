"""Test the scripts for accelerate and DeepSpeed with the real tools.

RIGTUNE_ACCELERATE_PYTHON and RIGTUNE_DEEPSPEED_PYTHON name interpreters that have these tools.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from recipes.launch.recipe import Command
from tests.support.resuming import LIMIT_S

pytestmark = pytest.mark.slow

DEVICES = {
    "accelerate": {"device": "cuda", "backend": "nccl"},  # accelerate starts several ranks only on GPUs
    "deepspeed": {"device": "cpu", "backend": "gloo"},
}
PROGRAM = """\
import os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")
line = " ".join(os.environ[name] for name in names) + f" {sys.argv[1:]} {os.environ['RIGTUNE_RECIPE']}"
open(f"rank-{os.environ['RANK']}", "w").write(line)
"""


@pytest.fixture(params=DEVICES)
def starter(request) -> tuple[str, str]:
    """Return a launcher and the interpreter that has its tool."""
    name = f"RIGTUNE_{request.param.upper()}_PYTHON"
    if name not in os.environ:
        pytest.skip(f"{name} names no interpreter")
    return request.param, os.environ[name]


@pytest.mark.parametrize("nodes", [1, 2])
def test_every_rank_gets_its_place_and_the_arguments(starter, make_recipe, export, tmp_path, nodes):
    launcher, python = starter
    (tmp_path / "train it.py").write_text(PROGRAM)
    recipe = make_recipe(
        nodes=nodes,
        command=Command(kind="script", target="train it.py", arguments=("it's", "{{}}")),
        resources={**DEVICES[launcher], "python": python},
    )
    script = export(launcher, recipe, tmp_path / "a launch")
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "RIGTUNE_PREFLIGHT": "1"}
    jobs = [
        subprocess.Popen(
            (script, *((str(node),) if nodes > 1 else ()), "--", "$HOME `id`", ":"),
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(nodes)
    ]
    for job in jobs:
        output, _ = job.communicate(timeout=LIMIT_S)
        assert job.returncode == 0, output
    arguments = ["it's", "{}", "$HOME `id`", ":"]
    for rank in range(2 * nodes):
        expected = f"{rank} {2 * nodes} {rank % 2} 127.0.0.1 {arguments} {tmp_path}/a launch/plan.json"
        assert (tmp_path / f"rank-{rank}").read_text() == expected
    assert any(path.is_file() for path in (tmp_path / "logs").rglob("*"))
