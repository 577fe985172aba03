"""The files of every launcher: scripts are executable, and batch scripts and other files are not."""

from __future__ import annotations

import pytest

from recipes.launch.launch_files import launch_files
from recipes.launch.launcher_table import LAUNCHERS, LauncherRow
from recipes.launch.recipe import Command, Recipe
from tests.support.manifests import IMAGE

SLOTS = {
    "container_image": IMAGE,
    "role": "arn:aws:iam::123456789012:role/Training",
    "instance_type": "ml.p5.48xlarge",
    "bucket": "s3://my-bucket",
}
PROGRAMS = {"horovodrun": "horovod", "ray": "ray-train"}


@pytest.mark.parametrize("row", LAUNCHERS, ids=lambda row: row.id)
def test_scripts_are_executable_except_those_that_sbatch_reads(make_recipe, row: LauncherRow):
    hosts = ("gpu1",) if row.id == "lxd" else ("gpu1", "gpu2")
    recipe: Recipe = make_recipe(
        nodes=len(hosts),
        resources={
            "hosts": hosts,
            "device": "cuda",
            "backend": "nccl",
            "device_name": "NVIDIA H100",
        },
        slots={name: text for name, text in SLOTS.items() if name in str(row.needs)},
        program=PROGRAMS.get(row.id, "own"),
        command=Command(kind="script", target="train.py"),
    )
    for file in launch_files(recipe, row.id):
        is_script = file.text.startswith("#!") and not file.path.endswith(".sbatch")
        assert file.mode == (0o755 if is_script else 0o644), file.path
