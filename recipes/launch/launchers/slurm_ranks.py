"""Slurm: a batch script that starts one task per rank, without torchrun."""

from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.script_parts import with_rank_environment
from recipes.launch.slurm_script import slurm_files

SCRIPT = "train-ranks.sbatch"


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the batch script and the tests of a node."""
    return slurm_files(with_rank_environment(recipe, files), files, SCRIPT, per_rank=True)


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that submits the job."""
    del recipe  # the script has the job's sizes
    return ("sbatch", f"{folder}/{SCRIPT}", "--", *arguments)
