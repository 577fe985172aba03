"""The batch script of Slurm, with one task per node or per rank."""

import math

from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.script_parts import RESTARTS, preflight, render_script
from recipes.launch.slots import time_limit_s

_NOTICE_S = 300
_SHORTEST_NOTICE_S = 30
_MOST_OF_LIMIT = 0.1
"""Largest part of the time limit that is kept free for saving."""


def slurm_files(
    recipe: Recipe, files: ProgramFiles, script: str, *, per_rank: bool = False
) -> tuple[Artifact, ...]:
    """Return the batch script, which is named `script`, and the tests of a node.

    With `per_rank`, Slurm starts each rank as a task; otherwise one task on each node starts its ranks.
    """
    cores, ranks = recipe.resources.cpus_per_node, recipe.parallelism.ranks_per_node
    text = render_script(
        "slurm.sbatch.j2",
        recipe,
        files,
        script=script,
        per_rank=per_rank,
        cores=cores if cores is None or not per_rank else max(1, cores // ranks),
        notice=notice_s(recipe),
        restarts=RESTARTS,
    )
    return (Artifact(path=script, text=text), preflight(recipe, files))


def notice_s(recipe: Recipe) -> int:
    """Return the seconds before the time limit at which the job gets a signal to save and end.

    The notice is 300 s, or longer if two checkpoints and a step are known to need more. It is at most a tenth
    of the time limit, because Slurm sends the signal at once to a job whose limit is shorter than the notice;
    but it is at least 30 s.
    """
    needed = _NOTICE_S
    if recipe.checkpoints is not None and recipe.checkpoints.write_s is not None:
        needed = max(
            needed, math.ceil(2 * recipe.checkpoints.write_s + (recipe.predicted.step_time_s or 0.0))
        )
    limit = time_limit_s(recipe)
    return needed if limit is None else max(_SHORTEST_NOTICE_S, min(needed, int(_MOST_OF_LIMIT * limit)))
