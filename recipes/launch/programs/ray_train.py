"""Ray Train: one program for the whole job, which lets Ray start the user's script as its workers."""

from recipes.launch.node_files import node_file
from recipes.launch.program_files import FolderFile, ProgramFiles, own_words
from recipes.launch.program_limits import require_script
from recipes.launch.recipe import Recipe, program_arguments
from recipes.launch.slots import slot_value

STARTER = "ray_job.py"
MAX_FAILURES = 3
"""Number of restarts after a worker fails; it is low, because an error of the user's script counts too."""


def write(recipe: Recipe) -> ProgramFiles:
    """Return the command of the file that runs the user's script under TorchTrainer.

    Raises UsageError without a script of the user.
    """
    require_script(recipe.program, recipe.command)
    parallelism, storage = recipe.parallelism, _storage(recipe)
    settings = {
        "--name": recipe.name,
        "--nodes": str(parallelism.nodes),
        "--ranks-per-node": str(parallelism.ranks_per_node),
        "--cores": str(_cores(recipe)),
        "--backend": recipe.resources.backend,
        "--placement": placement(parallelism.nodes, parallelism.ranks_per_node),
        "--max-failures": str(MAX_FAILURES),
        **({"--storage": storage} if storage else {}),
        **({"--variables": ",".join(names)} if (names := _variables(recipe)) else {}),
    }
    options = (f"{name}={value}" for name, value in settings.items())
    words = own_words(recipe, program_arguments(recipe))
    return ProgramFiles(
        words=(FolderFile(name=STARTER), *options, "--", *words),
        processes="job",
        files=(node_file(STARTER),),
        modules=("torch", "ray"),
        notes=() if storage or parallelism.nodes == 1 else (_NO_STORAGE,),
    )


_NO_STORAGE = (
    "Warning: checkpoints of Ray Train need a folder that all nodes reach: --slot checkpoints=/shared/FOLDER"
)


def placement(nodes: int, ranks_per_node: int) -> str:
    """Return Ray's strategy for the workers; by default Ray would put several on one node."""
    if nodes == 1:
        return "STRICT_PACK"
    return "STRICT_SPREAD" if ranks_per_node == 1 else "PACK"


def _storage(recipe: Recipe) -> str:
    return slot_value(recipe, "checkpoints") or slot_value(recipe, "output")


def _cores(recipe: Recipe) -> int:
    """Return the cores of each worker, by which PACK fills a node with the right number of workers."""
    ranks = recipe.parallelism.ranks_per_node
    return max(1, (recipe.resources.cpus_per_node or ranks) // ranks)


def _variables(recipe: Recipe) -> tuple[str, ...]:
    """Return the variables for the workers, because an existing Ray cluster was started without them."""
    return tuple(dict.fromkeys(variable.name for variable in recipe.environment))
