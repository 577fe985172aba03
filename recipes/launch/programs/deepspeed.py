"""DeepSpeed: the user's script with `ds_config.json`, whose keys `recipes/data/programs.toml` states."""

from probes.base.errors import UsageError
from recipes.launch.known_names import known_names, require_known
from recipes.launch.offloading import zero_offload
from recipes.launch.plan_remarks import beyond_files
from recipes.launch.program_files import FolderFile, ProgramFiles, own_words, torch_agent
from recipes.launch.program_limits import recipe_settings, require_script
from recipes.launch.recipe import Artifact, Environment, Recipe, program_arguments
from recipes.launch.settings_tree import Tree, dotted_names, json_text, put, tree_of
from recipes.launch.user_arguments import without_decisions
from recipes.planning.programs import program_named
from recipes.predict.stacks import load_stacks

CONFIG = "ds_config.json"
_OPTIMIZERS = {"adamw": "AdamW", "lamb": "Lamb", "lion": "Lion", "sgd": "SGD"}
"""DeepSpeed's name of each optimizer that its configuration can build."""
_STAGE_3 = {
    "stage3_prefetch_bucket_size": 50_000_000,
    "stage3_param_persistence_threshold": 100_000,
    "stage3_gather_16bit_weights_on_model_save": True,
}
"""DeepSpeed's default sizes in elements, which the memory model assumes, and the saving of whole models."""


def write(recipe: Recipe) -> ProgramFiles:
    """Return the user's command with `--deepspeed --deepspeed_config ds_config.json`, and that file.

    Raises UsageError without a script of the user, and for an optimizer or a schedule that no configuration
    of DeepSpeed states.
    """
    require_script(recipe.program, recipe.command)
    config, limits = _config(recipe)
    require_known("deepspeed", dotted_names(config))
    own = without_decisions(program_arguments(recipe), {"deepspeed", "deepspeed_config"})
    words = own_words(recipe, own.kept)
    on_cpu = Environment(
        name="DS_ACCELERATOR",
        value="cpu",
        why="DeepSpeed otherwise looks for a GPU.",
        source="DeepSpeed 0.19.8, accelerator/real_accelerator.py",
    )
    return ProgramFiles(
        words=(*words, "--deepspeed", "--deepspeed_config", FolderFile(name=CONFIG)),
        agent=torch_agent(recipe),
        files=(Artifact(path=CONFIG, text=json_text(config)),),
        environment=(on_cpu,) if recipe.resources.device == "cpu" else (),
        modules=("torch", "deepspeed"),
        notes=(*own.notes, *limits, *_notes(recipe), *beyond_files(recipe)),
    )


def _config(recipe: Recipe) -> tuple[Tree, tuple[str, ...]]:
    """Return the configuration, and remarks on what it does differently from the plan."""
    convergence, stage = recipe.convergence, recipe.parallelism.strategy
    precision, limits = recipe.parallelism.precision, tuple[str, ...]()
    config = tree_of(recipe_settings(recipe))
    optimizer = _OPTIMIZERS.get(recipe.job.optimizer)
    if optimizer is None:
        raise UsageError(
            f"a configuration of DeepSpeed cannot build the optimizer {recipe.job.optimizer}",
            f"set job.optimizer to one of {', '.join(_OPTIMIZERS)}, or plan with --program own",
        )
    put(config, "optimizer.type", optimizer)
    if recipe.job.optimizer == "adamw":
        # FusedAdam would compile CUDA code at the first start; torch has a compiled kernel
        config["optimizer"]["params"] |= {"torch_adam": True, "fused": True}
    if recipe.job.optimizer == "sgd":
        put(config, "optimizer.params.momentum", convergence.beta1)
        config["zero_allow_untested_optimizer"] = True
    _put_schedule(config, recipe)
    if stage != "ddp":
        size = load_stacks()["deepspeed"].memory.bucket_elements
        put(config, "zero_optimization.reduce_bucket_size", int(size))
    elif precision != convergence.accumulation_dtype:
        put(config, "data_types.grad_accum_dtype", precision)
        limits = (
            f"Warning: without ZeRO, DeepSpeed sums gradients in {precision}, not in "
            f"{convergence.accumulation_dtype}; strategy zero1 keeps the plan's format",
        )
    if stage == "fsdp":
        config["zero_optimization"] |= _STAGE_3
    if stage != "ddp":
        config["zero_optimization"] |= zero_offload(recipe)
    # steps are printed only at the level info
    return {**config, "steps_per_print": 10, "log_level": "info"}, limits


def _put_schedule(config: Tree, recipe: Recipe) -> None:
    """Complete the block `scheduler`, whose names depend on its type."""
    convergence, kind = recipe.convergence, config["scheduler"]["type"]
    schedules = program_named("deepspeed").values["lr_schedule"]
    if kind not in schedules.values():
        raise UsageError(
            f"DeepSpeed has no learning rate schedule {convergence.schedule}",
            f"set convergence.schedule to one of {', '.join(schedules)}",
        )
    parameters = config["scheduler"]["params"]
    parameters["warmup_type"] = "linear"
    # DeepSpeed refuses 0 steps
    parameters["warmup_num_steps"] = max(1, convergence.warmup_steps)
    if kind != schedules["cosine"]:
        parameters["warmup_max_lr"] = convergence.learning_rate
        # WarmupDecayLR ends at this rate too
        is_linear = kind == schedules["linear"]
        parameters["warmup_min_lr"] = (
            convergence.learning_rate * convergence.final_share if is_linear else 0.0
        )


def _notes(recipe: Recipe) -> tuple[str, ...]:
    parallelism = recipe.parallelism
    notes = [
        f"{CONFIG} has the names of DeepSpeed {known_names('deepspeed').version}; the script takes it as "
        "deepspeed.add_config_arguments defines"
    ]
    if parallelism.activation_checkpointing != "none":
        notes.append(
            "Warning: your script must recompute activations (model.gradient_checkpointing_enable() or "
            "deepspeed.checkpointing.checkpoint); no setting of DeepSpeed does it"
        )
    if parallelism.degrees.cp > 1:
        notes.append(
            f"Warning: your script must divide each sequence over {parallelism.degrees.cp} ranks "
            "(UlyssesSPAttentionHF); the setting only counts them"
        )
    if recipe.job.tuning != "full":
        notes.append(f"Warning: your script must add the adapters of rank {recipe.job.adapter_rank}")
    if recipe.convergence.schedule == "linear" and recipe.convergence.final_share:
        notes.append("The warm-up starts at the final learning rate: DeepSpeed has one setting for both")
    return tuple(notes)
