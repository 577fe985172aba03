"""TensorFlow: one process per node with all its GPUs, which finds the other nodes in TF_CONFIG."""

from probes.base.errors import UsageError
from probes.base.record import quoted
from probes.base.units import plural
from recipes.launch.node_files import node_file
from recipes.launch.placeholders import has_placeholder
from recipes.launch.plan_remarks import LEARNING_RATE, beyond_files, unstated
from recipes.launch.program_files import FolderFile, ProgramFiles, Word, own_words
from recipes.launch.program_limits import program_row, require_script
from recipes.launch.recipe import Recipe, program_arguments
from recipes.launch.slots import slot_value

STARTER = "tensorflow_node.py"
SLOT = "parameter_servers"


def write(recipe: Recipe) -> ProgramFiles:
    """Return the command of the file that sets TF_CONFIG and then runs the user's command.

    The slot `parameter_servers` chooses ParameterServerStrategy. Raises UsageError without a script of the
    user, and for an impossible number of parameter servers.
    """
    require_script(recipe.program, recipe.command)
    servers = _parameter_servers(recipe)
    options: tuple[Word, ...] = ("--parameter-servers", str(servers)) if servers else ()
    return ProgramFiles(
        words=(FolderFile(name=STARTER), *options, *own_words(recipe, program_arguments(recipe))),
        processes="node",
        files=(node_file(STARTER),),
        modules=("tensorflow",),
        notes=(*_notes(recipe, servers), *beyond_files(recipe)),
    )


def _parameter_servers(recipe: Recipe) -> int:
    """Return the number of nodes with a parameter server, which may be 0."""
    stated, nodes = slot_value(recipe, SLOT), recipe.parallelism.nodes
    if not stated:
        return 0
    if not stated.isascii() or not stated.isdecimal() or not 1 <= int(stated) <= nodes:
        raise UsageError(
            f"slot {SLOT}: {quoted(stated)} is not a number of nodes from 1 to {nodes}",
            "give the number of nodes that also run a parameter server, or leave the slot out",
        )
    return int(stated)


def strategy_name(recipe: Recipe, servers: int) -> str:
    """Return the class of `tf.distribute` that the user's program must create."""
    if servers:
        return "ParameterServerStrategy"
    return "MultiWorkerMirroredStrategy" if recipe.parallelism.nodes > 1 else "MirroredStrategy"


def _notes(recipe: Recipe, servers: int) -> tuple[str, ...]:
    parallelism = recipe.parallelism
    notes = [
        f"Your program must create tf.distribute.{strategy_name(recipe, servers)} before it builds the model"
    ]
    if servers:
        counted = plural(servers, "parameter server")
        notes.append(
            f"Your program runs on the first node, as the chief; the chief and {counted} use no "
            "GPU. The plan's time and memory are those of synchronous training"
        )
    places = {"global_batch": "Dataset.batch, over all replicas", "learning_rate": LEARNING_RATE}
    notes += unstated(recipe, places)
    if parallelism.precision != "fp32" and not has_placeholder(recipe.command.arguments, "precision"):
        policy = program_row(recipe).values["precision"][parallelism.precision]
        notes.append(f"Warning: your program must call mixed_precision.set_global_policy('{policy}')")
    if parallelism.grad_accum > 1:
        notes.append(
            "Warning: tf.distribute does not accumulate gradients; your loop must sum "
            f"{parallelism.grad_accum} micro-batches"
        )
    if recipe.resources.device == "cpu" and parallelism.ranks_per_node > 1:
        notes.append(
            f"Warning: on a CPU TensorFlow has one replica per node, so {parallelism.nodes} in all, not "
            f"{parallelism.world_size}"
        )
    return tuple(notes)
