"""Horovod with torch or TensorFlow: horovodrun starts the ranks, once for the whole job."""

from recipes.launch.node_files import node_file
from recipes.launch.plan_remarks import LEARNING_RATE, beyond_files, unstated
from recipes.launch.program_files import FolderFile, ProgramFiles, own_words
from recipes.launch.program_limits import require_script
from recipes.launch.recipe import Environment, Recipe, program_arguments
from recipes.launch.slots import slot_value

STARTER = "horovod_job.py"
_OPEN_MPI = tuple(
    Environment(
        name=name,
        value=value,
        why="Horovod's own setting of Open MPI.",
        source="Horovod 0.28.1, docs/mpi.rst and horovod/runner/mpi_run.py",
    )
    for name, value in (("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "^openib"))
)
"""Settings of Open MPI, which horovodrun gives as options; other kinds of MPI ignore the variables."""


def write(recipe: Recipe) -> ProgramFiles:
    """Return the command of the file that calls horovodrun; the other form is the user's command for every
    rank.

    Raises UsageError without a script of the user.
    """
    require_script(recipe.program, recipe.command)
    parallelism = recipe.parallelism
    sizes = (f"--nodes={parallelism.nodes}", f"--ranks-per-node={parallelism.ranks_per_node}")
    words, notes = own_words(recipe, program_arguments(recipe)), (*_notes(recipe), *beyond_files(recipe))
    return ProgramFiles(
        words=(FolderFile(name=STARTER), *sizes, "--", *words),
        processes="job",
        files=(node_file(STARTER),),
        modules=("horovod",),
        notes=(*_ssh_notes(recipe), *notes),
        uses_ssh=True,
        otherwise=ProgramFiles(
            words=words, processes="task", modules=("horovod",), environment=_OPEN_MPI, notes=notes
        ),
    )


def _notes(recipe: Recipe) -> tuple[str, ...]:
    parallelism = recipe.parallelism
    places = {"micro_batch": "batch of a rank"}
    if parallelism.grad_accum > 1:
        places["grad_accum"] = "backward_passes_per_step of DistributedOptimizer"
    places["learning_rate"] = LEARNING_RATE
    if parallelism.precision != "fp32":
        places["precision"] = "number format of matrix products"
    if parallelism.activation_checkpointing != "none":
        places["activation_checkpointing"] = "recomputation of activations"
    return unstated(recipe, places)


def _ssh_notes(recipe: Recipe) -> tuple[str, ...]:
    if recipe.parallelism.nodes == 1:
        return ()
    image = slot_value(recipe, "container_image")
    inside = f", and there into a container of {image}" if image else ""
    return (
        f"horovodrun starts the ranks over ssh, in Slurm too: the first node needs ssh to the others{inside}",
    )
