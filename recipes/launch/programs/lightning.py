"""PyTorch Lightning: the user's script, and `lightning.json` with the arguments of its `Trainer(...)`."""

from collections.abc import Iterator

from probes.base.errors import UsageError
from recipes.launch.known_names import known_names, require_known
from recipes.launch.layer_classes import layer_class_of
from recipes.launch.plan_remarks import (
    batch_words,
    beyond_files,
    placeholder_remarks,
)
from recipes.launch.program_files import FolderFile, ProgramFiles, Word, own_words, torch_agent
from recipes.launch.program_limits import recipe_settings, require_script
from recipes.launch.recipe import Artifact, Environment, Recipe, program_arguments
from recipes.launch.settings_tree import Tree, dotted_names, json_text, tree_of
from recipes.launch.slots import slot_value

CONFIG = "lightning.json"


def write(recipe: Recipe) -> ProgramFiles:
    """Return the user's command and `lightning.json`; an argument of this name becomes the file's path.

    Raises UsageError without a script of the user, and for sharded training states on a CPU.
    """
    require_script(recipe.program, recipe.command)
    if recipe.resources.device == "cpu" and recipe.parallelism.candidate.sharding != "none":
        raise UsageError(
            "Lightning's strategies for FSDP and DeepSpeed refuse a CPU",
            'set parallelism.strategy = "ddp", or plan with --program own',
        )
    config = _config(recipe)
    require_known("lightning", dotted_names(config))
    words: tuple[Word, ...] = own_words(recipe, program_arguments(recipe))
    return ProgramFiles(
        words=tuple(FolderFile(name=CONFIG) if word == CONFIG else word for word in words),
        agent=torch_agent(recipe),
        files=(Artifact(path=CONFIG, text=json_text(config)),),
        rank_environment=(
            Environment(
                name="TORCHELASTIC_RUN_ID",
                value="rigtune",
                why="Lightning then takes the ranks from the launcher's variables and starts none itself.",
                source="Lightning 2.6.6, lightning/fabric/plugins/environments/torchelastic.py",
            ),
        ),
        modules=("torch", "lightning"),
        notes=(*_notes(recipe), *placeholder_remarks(recipe), *beyond_files(recipe)),
    )


def _config(recipe: Recipe) -> Tree:
    parallelism = recipe.parallelism
    config: Tree = {
        "accelerator": "cpu" if recipe.resources.device == "cpu" else "gpu",
        "num_nodes": parallelism.nodes,
        "devices": parallelism.ranks_per_node,
        **tree_of(recipe_settings(recipe)),
        "log_every_n_steps": 10,
    }
    if _clips_in_script(recipe) or not recipe.convergence.gradient_clipping:
        config.pop("gradient_clip_val", None)
    if folder := slot_value(recipe, "output") or slot_value(recipe, "checkpoints"):
        config["default_root_dir"] = folder
    return config


def _clips_in_script(recipe: Recipe) -> bool:
    """Return whether the script must clip gradients, because the Trainer refuses to, as with FSDPStrategy."""
    clipping = recipe.convergence.gradient_clipping
    return clipping > 0 and recipe.parallelism.candidate.sharding == "zero3"


def _notes(recipe: Recipe) -> Iterator[str]:
    parallelism = recipe.parallelism
    recomputes = parallelism.activation_checkpointing != "none"
    yield f"{CONFIG} has the names of Lightning {known_names('lightning').version}; {batch_words(recipe)}"
    if CONFIG not in recipe.command.arguments:
        yield (
            f"Warning: no argument of your script is {CONFIG}: add this name; your script must pass the "
            "file's content to Trainer(**settings)"
        )
    if parallelism.candidate.sharding == "zero3":
        layer = layer_class_of(recipe) or "the class of the layers"
        policies = [f"auto_wrap_policy={{{layer}}}"]
        policies += [f"activation_checkpointing_policy={{{layer}}}"] * recomputes
        policies += ["cpu_offload=True"] * (parallelism.offload != "none")
        yield (
            f"Warning: the strategy fsdp shards the model as one unit; your script must replace it by "
            f"FSDPStrategy({', '.join(policies)})"
        )
    elif recomputes:
        yield "Warning: your script must call gradient_checkpointing_enable() of the model"
    if _clips_in_script(recipe):
        yield (
            "Warning: Lightning clips no norm of gradients under FSDP; your script must call "
            f"clip_grad_norm_({recipe.convergence.gradient_clipping:g}) of the sharded model in "
            "configure_gradient_clipping"
        )
    if recipe.checkpoints and recipe.checkpoints.every_steps:
        yield (
            "Warning: your script must save checkpoints: "
            f"ModelCheckpoint(every_n_train_steps={recipe.checkpoints.every_steps})"
        )
