"""Test that the batch scripts of eight jobs without a published layout pass the points below."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from assistant.cli import command_line
from recipes.launch.recipe import Recipe
from recipes.launch.recipe_file import load_recipe

JOBS = {
    "qlora of 70b on two consumer GPUs": (
        "llama-2-70b",
        "--gpu",
        "RTX 4090",
        "--gpus",
        "2",
        "--tuning",
        "qlora",
    ),
    "lora of 8b on two consumer GPUs": ("llama-3-8b", "--gpu", "RTX 4090", "--gpus", "2", "--tuning", "lora"),
    "lora of 70b on eight H100": ("llama-3-70b", "--gpu", "H100", "--gpus", "8", "--tuning", "lora"),
    "7b on eight A100": ("llama-2-7b", "--gpu", "A100-SXM-80GB", "--gpus", "8"),
    "7b on sixteen nodes": (
        "llama-2-7b",
        "--gpu",
        "H100",
        "--gpus",
        "8",
        "--nodes",
        "16",
        "--network",
        "8x400G IB",
    ),
    "mixtral on four nodes": (
        *("mixtral-8x7b", "--gpu", "H100", "--gpus", "8", "--nodes", "4"),
        *("--network", "8x400G IB", "--program", "megatron"),
    ),
    "vit-l on eight A100": ("ViT-L", "--gpu", "A100-SXM-80GB", "--gpus", "8", "--image-size", "224"),
    "bert-large on sixteen V100": ("bert-large", "--gpu", "V100", "--gpus", "8", "--nodes", "2"),
}
SLOTS = {
    "account": "lab",
    "time": "24:00:00",
    "modules": "cuda/12.8",
    "workdir": "/shared/project",
    "data": "/data/corpus",
    "checkpoints": "/shared/checkpoints",
    "tokenizer": "/data/tokenizer.model",
}


class Export(NamedTuple):
    """The files of one job."""

    recipe: Recipe
    script: str
    all_text: str
    """Text of the script, of plan.json and of the program's files."""


POINTS: dict[str, Callable[[Export], bool]] = {
    "1 time limit": lambda job: "\n#SBATCH --time=24:00:00\n" in job.script,
    "2 account": lambda job: "\n#SBATCH --account=lab\n" in job.script,
    "3 signal before the limit": lambda job: "\n#SBATCH --signal=B:USR1@" in job.script,
    "4 activation of the environment": lambda job: "\nmodule load cuda/12.8 || exit\n" in job.script,
    "5 working directory": lambda job: "\ncd -- /shared/project\n" in job.script,
    "6 preflight": lambda job: "preflight.sh" in job.script,
    "7 logs per rank": lambda job: "--log-dir" in job.script and "NCCL_DEBUG_FILE" in job.script,
    "8 restart after a failure": lambda job: "\n#SBATCH --requeue\n" in job.script,
    "9 data and checkpoints": lambda job: (
        "/data/corpus" in job.all_text and "/shared/checkpoints" in job.all_text
    ),
    "10 every decision reaches the program": lambda job: (
        not [note for note in job.recipe.notes if "told nothing" in note]
        and str(job.recipe.parallelism.micro_batch) in job.all_text
        and "export RIGTUNE_RECIPE=" in job.script
    ),
}


@pytest.fixture(scope="module", params=JOBS)
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Export:
    folder = tmp_path_factory.mktemp("job")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        patch.delenv("RIGTUNE_SITE", raising=False)
        name = "pretrain_gpt.py" if "megatron" in JOBS[request.param] else "train.py"
        Path(name).write_text("import rigtune_helper\n")
        program = ("--", name) if name != "train.py" else ("--", name, "--batch", "{micro_batch}")
        assert command_line(["plan", *JOBS[request.param], "-q", "-o", "recipe.toml", *program]) == 0
        slots = [word for slot, value in SLOTS.items() for word in ("--slot", f"{slot}={value}")]
        assert command_line(["export", "recipe.toml", "--to", "slurm", "-q", "--out", "out", *slots]) == 0
        recipe = load_recipe(Path("out/recipe.toml").read_text(), "recipe.toml")
        texts = [path.read_text() for path in Path("out").iterdir() if path.name != "recipe.toml"]
        assert json.loads(Path("out/plan.json").read_text())["world_size"] == recipe.parallelism.world_size
        return Export(recipe, Path("out/train.sbatch").read_text(), "\n".join(texts))


@pytest.mark.parametrize("point", POINTS)
def test_the_script_of_a_job_passes_each_point(job: Export, point: str) -> None:
    assert POINTS[point](job), job.script


def test_offloading_reaches_the_program_and_the_prediction(job: Export) -> None:
    """Weights in the host's memory are a decision; a script without it would run out of memory."""
    is_offloaded = job.recipe.parallelism.offload != "none"
    assert is_offloaded == (job.recipe.model_id == "llama-2-70b")
    assert f'"offload": "{job.recipe.parallelism.offload}"' in job.all_text
    assert not [note for note in job.recipe.notes if "are needed, and only" in note]


def test_no_variable_is_set_twice(job: Export) -> None:
    names = [line.split("=")[0] for line in job.script.splitlines() if line.startswith("export ")]
    assert len(names) == len(set(names))
