"""Compare the configuration files of programs byte for byte; lint finds nothing in scripts that name them.

After a wanted change, run RIGTUNE_UPDATE_GOLDEN=1 pytest tests/golden, and read the diff.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from recipes.launch.launch_files import launch_files, program_files
from recipes.launch.program_limits import require_runnable
from recipes.launch.recipe import CheckpointSettings, Command, Convergence, Job
from tests.support.lint_command import lint

FOLDER = Path(__file__).parent / "configurations"
SCRIPT = Command(
    kind="script",
    target="train.py",
    arguments=("--batch-size", "{micro_batch}", "--lr", "{learning_rate}", "--data", "/data/it's $HOME"),
)
CLUSTER = {
    "nodes": 2,
    "ranks_per_node": 8,
    "resources": {
        "device": "cuda",
        "backend": "nccl",
        "device_name": "NVIDIA H100",
        "python": "/opt/my venv/python",
    },
    "convergence": Convergence(learning_rate=3e-5, warmup_steps=100, steps=1000, gradient_clipping=1.0),
    "checkpoints": CheckpointSettings(every_steps=200),
}
SLOTS = {"model": "org/Llama", "data": "/data/chats", "output": "/shared/out"}
FULL = {"precision": "bf16", "activation_checkpointing": "full"}
FSDP = {"strategy": "fsdp", **FULL}
ZERO = {"strategy": "zero2", **FULL}
HALF = {"strategy": "zero1", "precision": "fp16"}

CASES = {
    "deepspeed-slurm": ("slurm", {"program": "deepspeed", "parallelism": FSDP}),
    "deepspeed-mpi": (
        "mpi",
        {"program": "deepspeed", "parallelism": {"strategy": "zero1", "precision": "fp16"}},
    ),
    "accelerate-torchrun": (
        "torchrun",
        {"program": "accelerate", "parallelism": FSDP},
    ),
    "accelerate-hybrid-mpi": (
        "mpi",
        {"program": "accelerate", "parallelism": {"strategy": "hsdp", "dp": 2, "fsdp": 8, **FULL}},
    ),
    "accelerate-zero-slurm": (
        "slurm",
        {"program": "accelerate", "parallelism": ZERO},
    ),
    "hf-trainer-torchrun": (
        "torchrun",
        {"program": "hf-trainer", "parallelism": FSDP},
    ),
    "hf-trainer-file-slurm": (
        "slurm",
        {
            "program": "hf-trainer",
            "parallelism": ZERO,
            "command": Command(kind="script", target="train.py", arguments=("training_arguments.json",)),
            "slots": SLOTS,
        },
    ),
    "trl-torchrun": (
        "torchrun",
        {
            "program": "trl",
            "parallelism": FSDP,
            "command": Command(kind="program"),
            "job": Job(tuning="qlora", fine_tuning=True),
            "slots": SLOTS,
        },
    ),
    "axolotl-slurm": (
        "slurm",
        {
            "program": "axolotl",
            "parallelism": FSDP,
            "command": Command(kind="program"),
            "job": Job(fine_tuning=True),
            "slots": SLOTS,
        },
    ),
    "llama-factory-slurm": (
        "slurm",
        {
            "program": "llama-factory",
            "parallelism": ZERO,
            "command": Command(kind="program"),
            "job": Job(tuning="lora", adapter_rank=16),
            "slots": SLOTS,
        },
    ),
    "lightning-torchrun": (
        "torchrun",
        {
            "program": "lightning",
            "parallelism": ZERO,
            "command": Command(kind="script", target="train.py", arguments=("--trainer", "lightning.json")),
        },
    ),
    "ms-swift-torchrun": (
        "torchrun",
        {
            "program": "ms-swift",
            "parallelism": FSDP,
            "command": Command(kind="program"),
            "slots": SLOTS,
        },
    ),
}


@pytest.fixture
def recipe_of(make_recipe):
    """Return the recipe of a case, for a model with the layers of Llama."""

    def make(case):
        recipe = make_recipe(**{**CLUSTER, "command": SCRIPT, **CASES[case][1]})
        recipe = msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id="llama-3-8b"))
        require_runnable(recipe)
        return recipe

    return make


@pytest.mark.parametrize("case", CASES)
def test_configuration_files_are_as_they_were_read_and_approved(recipe_of, case):
    produced = {file.path: file.text for file in program_files(recipe_of(case)).files}
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        shutil.rmtree(FOLDER / case, ignore_errors=True)
        for name, text in produced.items():
            (FOLDER / case).mkdir(parents=True, exist_ok=True)
            (FOLDER / case / name).write_text(text)
    assert produced == {path.name: path.read_text() for path in (FOLDER / case).iterdir()}


@pytest.mark.parametrize("case", CASES)
def test_scripts_and_configurations_have_no_findings(recipe_of, case, tmp_path):
    artifacts = launch_files(recipe_of(case), CASES[case][0])
    for artifact in artifacts:
        (tmp_path / artifact.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / artifact.path).write_text(artifact.text)
    names = [artifact.path for artifact in artifacts if artifact.path != "plan.json"]
    linted = lint(*names, cwd=tmp_path)
    assert linted.returncode == 0, linted.stdout
    assert "nothing found" in linted.stdout
    scripts = [str(tmp_path / name) for name in names if name.endswith((".sh", ".sbatch"))]
    for script in scripts:
        subprocess.run(("bash", "-n", script), check=True)
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed; bash -n passed")
    checked = subprocess.run(
        ("shellcheck", "--shell=bash", *scripts), capture_output=True, text=True, check=False
    )
    assert checked.stdout == ""
