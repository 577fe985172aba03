"""Hugging Face accelerate: `accelerate launch` runs the user's script with a YAML file of the layout."""

from collections.abc import Iterable

from recipes.launch.accelerate_fsdp import fsdp_block, fsdp_variables, variable_text
from recipes.launch.known_names import known_names, require_known
from recipes.launch.layer_classes import layer_class_of
from recipes.launch.plan_remarks import (
    batch_words,
    beyond_files,
    placeholder_remarks,
    reduction_remarks,
    require_gpus_for_shards,
)
from recipes.launch.program_files import ProgramFiles, accelerate_agent, own_words, torch_agent
from recipes.launch.program_limits import recipe_settings, require_script
from recipes.launch.recipe import Artifact, Environment, Recipe, program_arguments
from recipes.launch.settings_tree import Tree, dotted_names, tree_of, variables_of, yaml_text

CONFIG = "accelerate.yaml"
_SOURCE = "accelerate 1.15.0, accelerate/utils/launch.py"


def write(recipe: Recipe) -> ProgramFiles:
    """Return the user's command, `accelerate launch` as its agent, and `accelerate.yaml`.

    A launcher that starts each rank itself sets the variables that `accelerate launch` would set. Raises
    UsageError without a script of the user, and for sharded parameters on a CPU.
    """
    require_script(recipe.program, recipe.command)
    require_gpus_for_shards(recipe)
    settings = recipe_settings(recipe)
    config = _config(recipe)
    require_known("accelerate", dotted_names(config))
    on_cpu = recipe.resources.device == "cpu"
    version = known_names("accelerate").version
    header = (
        f"Written by rigtune for accelerate {version}. The launch script states the numbers of ranks.",
        f"{batch_words(recipe)}.",
        "The learning rate and the batch size of the DataLoader are your script's.",
    )
    of_rank = tuple(_variables(_rank_variables(config), "accelerate launch would set it."))
    accumulation = _variables(
        variables_of(settings), "Accelerator() accumulates gradients over this number of micro-batches."
    )
    return ProgramFiles(
        words=own_words(recipe, program_arguments(recipe)),
        # `accelerate launch --cpu` starts one process, or uses MPI; torch's agent starts all ranks
        agent=torch_agent(recipe) if on_cpu else accelerate_agent(recipe, CONFIG),
        files=(Artifact(path=CONFIG, text=yaml_text(config, header)),),
        environment=(*accumulation, *(of_rank if on_cpu else ())),
        rank_environment=() if on_cpu else of_rank,
        modules=("torch", "accelerate"),
        notes=(*_notes(recipe), *reduction_remarks(recipe), *beyond_files(recipe)),
    )


def _config(recipe: Recipe) -> Tree:
    parallelism, convergence = recipe.parallelism, recipe.convergence
    config: Tree = {
        "compute_environment": "LOCAL_MACHINE",
        **tree_of(recipe_settings(recipe)),
        # the address of the first machine is the one that the launch script gives
        "same_network": True,
        "rdzv_backend": "static",
    }
    if recipe.resources.device == "cpu":
        config |= {"use_cpu": True, "distributed_type": "MULTI_CPU"}
    if "fsdp_config" in config:
        config["fsdp_config"] |= fsdp_block(recipe)
    if "deepspeed_config" in config:
        config["deepspeed_config"] |= {
            "gradient_accumulation_steps": parallelism.grad_accum,
            "gradient_clipping": convergence.gradient_clipping,
            # one launcher per machine, as for the other types
            "deepspeed_multinode_launcher": "standard",
            **({"offload_optimizer_device": "cpu"} if parallelism.offload != "none" else {}),
        }
    return config


def _rank_variables(config: Tree) -> dict[str, str]:
    """Return the variables that `accelerate launch` makes of its configuration."""
    variables = {"ACCELERATE_MIXED_PRECISION": str(config["mixed_precision"])}
    if config.get("use_cpu"):
        variables["ACCELERATE_USE_CPU"] = "true"
    if "fp8_config" in config:
        variables["ACCELERATE_FP8_BACKEND"] = config["fp8_config"]["backend"]
    if "fsdp_config" in config:
        variables |= fsdp_variables(config["fsdp_config"])
    for name, value in config.get("parallelism_config", {}).items():
        variables[name.upper()] = variable_text(value)
    if "parallelism_config" in config:
        variables["ACCELERATE_USE_PARALLELISM_CONFIG"] = "true"
    if "deepspeed_config" in config:
        block = config["deepspeed_config"]
        variables |= {
            "ACCELERATE_USE_DEEPSPEED": "true",
            "ACCELERATE_DEEPSPEED_ZERO_STAGE": variable_text(block["zero_stage"]),
            "ACCELERATE_GRADIENT_CLIPPING": variable_text(block["gradient_clipping"]),
        }
        if "offload_optimizer_device" in block:
            variables["ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"] = block["offload_optimizer_device"]
    return variables


def _variables(values: dict[str, str], why: str) -> Iterable[Environment]:
    for name, value in values.items():
        yield Environment(name=name, value=value, why=why, source=_SOURCE)


def _notes(recipe: Recipe) -> tuple[str, ...]:
    parallelism = recipe.parallelism
    notes = [f"{CONFIG} has the names of accelerate {known_names('accelerate').version}"]
    notes += placeholder_remarks(recipe)
    sharding = parallelism.candidate.sharding
    if parallelism.activation_checkpointing != "none" and sharding != "zero3":
        notes.append("Warning: your script must call gradient_checkpointing_enable() of the model")
    if sharding == "zero3" and not layer_class_of(recipe):
        notes.append(
            f"rigtune does not know the layer class of {recipe.model_id}; accelerate takes the model's own "
            "_no_split_modules"
        )
    return tuple(notes)
