"""Compare the launch files of programs with files of their own byte for byte.

After a wanted change, run RIGTUNE_UPDATE_GOLDEN=1 pytest tests/golden, and read the diff.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from recipes.launch.launch_files import launch_files
from tests.support.linting import judge, read
from tests.support.program_recipes import program_recipe

FOLDER = Path(__file__).parent / "programs"
SLOTS = {"data": "/data/corpus", "tokenizer": "/data/tokenizer", "checkpoints": "/shared/me/checkpoints"}
THREE_KINDS = {"fsdp": 4, "tp": 4, "pp": 4, "grad_accum": 32, "activation_checkpointing": "full"}

MEGATRON = {
    "strategy": "zero1",
    "dp": 4,
    "tp": 4,
    "pp": 4,
    "vp": 2,
    "pipeline_schedule": "interleaved",
    "grad_accum": 32,
}

COPIES = ("recipe.toml", "plan.json", "files.yaml")
"""Files that repeat others; files.yaml is the ConfigMap with all of them."""
POD = {"container_image": "registry.example.org/team/train:1.2", "volume_claim": "corpus:/data"}
CASES = {
    "megatron-slurm": (
        "slurm",
        {"program": "megatron", "layout": MEGATRON, "slots": {**SLOTS, "workdir": "/src/Megatron-LM"}},
    ),
    "megatron-jobset": (
        "jobset",
        {"program": "megatron", "layout": MEGATRON, "slots": {**SLOTS, **POD, "workdir": "/src/Megatron-LM"}},
    ),
    "torchtitan-pytorchjob": (
        "pytorchjob",
        {"program": "torchtitan", "layout": THREE_KINDS, "slots": {**SLOTS, **POD}},
    ),
    "torchtitan-slurm": ("slurm", {"program": "torchtitan", "layout": THREE_KINDS, "slots": SLOTS}),
    "torchtune-torchrun": (
        "torchrun",
        {"program": "torchtune", "layout": {"fsdp": 8, "grad_accum": 4, "activation_checkpointing": "full"}},
    ),
    "torchtitan-torchrun": (
        "torchrun",
        {"program": "torchtitan", "layout": {"fsdp": 8, "grad_accum": 16, "precision": "fp8"}},
    ),
}


def _folder(case: str) -> Path:
    return FOLDER / case


@pytest.mark.parametrize("case", CASES)
def test_files_are_as_they_were_read_and_approved(case):
    launcher, fields = CASES[case]
    artifacts = launch_files(program_recipe(**fields), launcher)
    produced = {each.path: each.text for each in artifacts if each.path not in COPIES}
    folder = _folder(case)
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, text in produced.items():
            (folder / name).write_text(text)
    assert produced == {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("case", CASES)
def test_scripts_and_modules_are_valid(case):
    for path in sorted(_folder(case).iterdir()):
        if path.suffix == ".py":
            ast.parse(path.read_text())
        if path.suffix not in (".sh", ".sbatch"):
            continue
        subprocess.run(("bash", "-n", str(path)), check=True)
        if shutil.which("shellcheck"):
            subprocess.run(("shellcheck", "--shell=bash", str(path)), check=True)


@pytest.mark.parametrize("case", CASES)
def test_lint_finds_nothing_in_the_scripts(case):
    scripts = [path for path in sorted(_folder(case).iterdir()) if path.suffix in (".sh", ".sbatch")]
    findings = [each for path in scripts for each in judge(read(path.name, path.read_text()))]
    assert [(each.rule_id, each.message) for each in findings] == []
