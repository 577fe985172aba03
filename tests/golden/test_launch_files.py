"""Compare launch scripts byte for byte.

After a wanted change, run RIGTUNE_UPDATE_GOLDEN=1 pytest tests/golden, and read the diff.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from recipes.launch.recipe import Command, Environment, Prediction, Recipe

FOLDER = Path(__file__).parent / "launch"

CPU = {
    "resources": {"device_name": "AMD EPYC", "python": "/opt/venv/bin/python", "cpus_per_node": 2},
    "environment": (
        Environment(
            name="OMP_NUM_THREADS",
            value="1",
            why="One thread per physical core of the rank; more only take turns.",
            source="torch.distributed.run, which sets 1 where nothing is set",
        ),
    ),
    "predicted": Prediction(
        step_time_s=0.05, step_time_low_s=0.04, step_time_high_s=0.06, peak_memory_bytes=4e8
    ),
    "notes": (
        "strategy = ddp (modelled): every rank holds the whole model.",
        "micro_batch = 2 (user): pinned.",
    ),
}
H100 = {
    "title": "Llama 3 8B on 4 x 8 NVIDIA H100",
    "nodes": 4,
    "ranks_per_node": 8,
    "parallelism": {"strategy": "fsdp", "activation_checkpointing": "full", "precision": "bf16"},
    "environment": (
        Environment(
            name="NCCL_IB_HCA",
            value="=mlx5_0,mlx5_3",
            why="Two of the ports belong to storage. The equals sign asks for exact names: "
            "mlx5_1 alone would match mlx5_10 too.",
            source="NCCL user guide, environment variables",
        ),
        Environment(
            name="HYDRA_FULL_ERROR",
            value="$HOME it's",
            why="A value that a shell\nwould read.",
            source="user",
        ),
    ),
    "command": Command(
        kind="script",
        target="train it.py",
        arguments=("--batch={micro_batch}", "--lr", "{learning_rate}", "it's $HOME", '{{"a": 1}}'),
        working_directory="/home/someone/my project",
    ),
    "predicted": Prediction(step_time_s=1.5, peak_memory_bytes=6e10),
}
GPU_SITE = {
    "device": "cuda",
    "backend": "nccl",
    "device_name": "NVIDIA H100",
    "python": "/opt/my venv/bin/python",
    "cpus_per_node": 96,
    "partition": "gpu",
    "account": "lab",
    "time_limit": "24:00:00",
}

CASES = {
    "one-node": ("torchrun", CPU),
    "hosts": ("torchrun", {**H100, "resources": {**GPU_SITE, "hosts": ("gpu1", "gpu2", "gpu3", "gpu4")}}),
    "no-hosts": ("torchrun", {"nodes": 2}),
    "slurm-gpu": ("slurm", {**H100, "resources": GPU_SITE}),
    "slurm-cpu": ("slurm", {**CPU, "nodes": 2}),
    "slurm-one-node": ("slurm", CPU),
    "mpi-hosts": ("mpi", {**H100, "resources": {**GPU_SITE, "hosts": ("gpu1", "gpu2", "gpu3", "gpu4")}}),
    "mpi-no-hosts": ("mpi", {"nodes": 2}),
    "mpi-one-node": ("mpi", CPU),
}


def scripts(launcher: str, recipe: Recipe) -> dict[str, str]:
    artifacts = importlib.import_module(f"recipes.launch.launchers.{launcher}").render(recipe)
    return {
        artifact.path: artifact.text
        for artifact in artifacts
        if artifact.path.endswith((".sh", ".sbatch", ".toml"))
    }


@pytest.mark.parametrize("case", CASES)
def test_scripts_are_as_they_were_read_and_approved(make_recipe, case):
    launcher, fields = CASES[case]
    produced = scripts(launcher, make_recipe(**fields))
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        shutil.rmtree(FOLDER / case, ignore_errors=True)
        for name, text in produced.items():
            (FOLDER / case).mkdir(parents=True, exist_ok=True)
            (FOLDER / case / name).write_text(text)
    approved = {path.name: path.read_text() for path in (FOLDER / case).iterdir()}
    assert produced == approved


@pytest.mark.parametrize("case", CASES)
def test_scripts_are_valid_bash_without_shellcheck_findings(case):
    files = sorted(str(path) for path in (FOLDER / case).iterdir() if path.suffix != ".toml")
    assert files
    for file in files:
        subprocess.run(("bash", "-n", file), check=True)
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed; bash -n passed")
    checked = subprocess.run(
        ("shellcheck", "--shell=bash", *files), capture_output=True, text=True, check=False
    )
    assert checked.stdout == ""
