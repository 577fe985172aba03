"""Slurm: a batch script that starts one torchrun per node."""

from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.script_parts import companions, render_script

SCRIPT = "train.sbatch"


def render(recipe: Recipe) -> tuple[Artifact, ...]:
    """Return the batch script, then the other files. Raises UsageError for a contradictory recipe."""
    return (Artifact(path=SCRIPT, text=render_script("slurm.sbatch.j2", recipe)), *companions(recipe))


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that submits the job."""
    return ("sbatch", f"{folder}/{SCRIPT}", "--", *arguments)
