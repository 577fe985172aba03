"""TrainingArguments of Hugging Face's Trainer, which several programs build on."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from probes.base.errors import UsageError
from recipes.launch.known_names import require_known
from recipes.launch.layer_classes import layer_class_of
from recipes.launch.offloading import zero_offload
from recipes.launch.plan_remarks import require_gpus_for_shards
from recipes.launch.program_files import FolderFile, Word
from recipes.launch.program_limits import recipe_settings
from recipes.launch.recipe import Artifact, Environment, Recipe
from recipes.launch.settings_tree import Tree, dotted_names, json_text, tree_of, variables_of
from recipes.launch.slots import slot_value
from recipes.planning.programs import program_named
from recipes.predict.stacks import load_stacks

_OPTIMIZERS = {
    "adamw": "adamw_torch_fused",
    "adamw-8bit": "adamw_8bit",
    "adamw-4bit": "adamw_torch_4bit",
    "adafactor": "adafactor",
    "lion": "lion_32bit",
    "lion-8bit": "lion_8bit",
    "sgd": "sgd",
}
_SCHEDULES = ("linear", "polynomial")
"""Schedules that the Trainer calls by rigtune's name; `programs.toml` has the names of the others."""
_FILES = {"fsdp_config": "fsdp_config.json", "deepspeed": "ds_config.json"}
"""Arguments whose value on a command line is the name of a file, with this name."""
_OTHER_NAMES = frozenset({
    *("activation_checkpointing", "gradient_checkpointing", "bf16", "fp16", "warmup_ratio", "optim", "fsdp"),
    *("fsdp_config", "fsdp_transformer_layer_cls_to_wrap", "deepspeed", "lr_scheduler_kwargs"),
    *("parallelism_config", "use_cpu", "no_cuda", "auto_find_batch_size"),
})  # fmt: skip
"""Further arguments that a user must not set, because they would change decisions of the plan."""
_PLACES = {
    "model_name_or_path": "model",
    "tokenizer_name": "tokenizer",
    "dataset_name": "data",
    "output_dir": "output",
}
"""Arguments of Hugging Face's example scripts, with the slots that fill them."""
_SECONDS = re.compile(r"(\d+) s")


class HfArguments(NamedTuple):
    """Arguments of the plan, and default arguments, which the user's own arguments replace."""

    plan: Tree
    defaults: Tree

    @property
    def decided(self) -> frozenset[str]:
        """Names of the arguments that state decisions of the plan."""
        return _OTHER_NAMES | self.plan.keys()


def hf_arguments(recipe: Recipe) -> HfArguments:
    """Return the plan as TrainingArguments.

    Raises UsageError for an optimizer or a schedule that the Trainer does not have, and for sharded
    parameters on a CPU.
    """
    require_gpus_for_shards(recipe)
    plan = tree_of(recipe_settings(recipe))
    plan["optim"] = _optimizer(recipe)
    _require_schedule(recipe, plan[program_named(recipe.program).settings["lr_schedule"]])
    if "fsdp_config" in plan:
        layer = layer_class_of(recipe)
        plan["fsdp_config"] |= {
            "reshard_after_forward": True,
            **({"transformer_layer_cls_to_wrap": [layer]} if layer else {}),
            **({"cpu_offload": True} if recipe.parallelism.offload != "none" else {}),
            "state_dict_type": "SHARDED_STATE_DICT",
            "cpu_ram_efficient_loading": True,
        }
    if "deepspeed" in plan:
        plan["deepspeed"] = _deepspeed(recipe, plan["deepspeed"])
        require_known("deepspeed", dotted_names(plan["deepspeed"]))
    if recipe.resources.device == "cpu":
        plan["use_cpu"] = True
    return HfArguments(plan, dict(_defaults(recipe)))


def require_known_arguments(program_id: str, tree: Tree) -> None:
    """Raise LookupError for an argument that the program does not know.

    The block `deepspeed` has names of its own; a tokenizer is an argument of the user's script.
    """
    names = dotted_names({**tree, "deepspeed": None})
    require_known(program_id, (name for name in names if name != "tokenizer_name"))


def hf_environment(recipe: Recipe) -> tuple[Environment, ...]:
    """Return the variables that accelerate and DeepSpeed read inside the Trainer."""
    sizes = variables_of(recipe_settings(recipe))
    hybrid = {**sizes, "ACCELERATE_USE_PARALLELISM_CONFIG": "true"} if sizes else {}
    on_cpu = recipe.resources.device == "cpu" and recipe.parallelism.candidate.sharding != "none"
    why = {"DS_ACCELERATOR": "DeepSpeed otherwise looks for a GPU."}
    return tuple(
        Environment(
            name=name,
            value=value,
            why=why.get(
                name,
                "TrainingArguments have no setting for copies of shards; accelerate reads this variable.",
            ),
            source="accelerate 1.15.0, accelerate/parallelism_config.py"
            if name in hybrid
            else "DeepSpeed 0.19.8, accelerator/real_accelerator.py",
        )
        for name, value in {**hybrid, **({"DS_ACCELERATOR": "cpu"} if on_cpu else {})}.items()
    )


def hf_options(tree: Mapping[str, object]) -> Iterator[Word]:
    """Yield the arguments as options of a command line; an argument in `_FILES` gets the name of its file as
    its value.
    """
    for name, value in tree.items():
        yield f"--{name}"
        if name in _FILES:
            yield FolderFile(name=_FILES[name])
        elif isinstance(value, dict):
            yield json.dumps(value)
        elif name != "fsdp":  # a value after --fsdp would be read as an old sharding strategy
            yield str(value).lower() if isinstance(value, bool) else str(value)


def hf_option_files(tree: Mapping[str, Tree]) -> tuple[Artifact, ...]:
    """Return the files that `hf_options` names."""
    return tuple(
        Artifact(path=path, text=json_text(tree[name])) for name, path in _FILES.items() if name in tree
    )


def hf_remarks(recipe: Recipe) -> tuple[str, ...]:
    """Return what the Trainer does differently from the plan."""
    convergence = recipe.convergence
    if convergence.schedule == "linear" and convergence.final_share:
        return (f"The Trainer's linear schedule ends at 0, not at {convergence.final_share:g} of the peak",)
    return ()


def _optimizer(recipe: Recipe) -> str:
    try:
        return _OPTIMIZERS[recipe.job.optimizer]
    except KeyError:
        raise UsageError(
            f"rigtune has no argument of the Trainer for the optimizer {recipe.job.optimizer}",
            f"set job.optimizer to one of {', '.join(_OPTIMIZERS)}, or plan with --program own",
        ) from None


def _require_schedule(recipe: Recipe, name: str) -> None:
    words = program_named(recipe.program).values["lr_schedule"]
    if name not in (*words.values(), *_SCHEDULES):
        raise UsageError(
            f"the Trainer has no learning rate schedule {recipe.convergence.schedule}",
            f"set convergence.schedule to one of {', '.join((*words, *_SCHEDULES))}",
        )


def _deepspeed(recipe: Recipe, block: Tree) -> Tree:
    """Return DeepSpeed's configuration; for `auto` the Trainer fills in the value of its own argument."""
    size = load_stacks()["deepspeed"].memory.bucket_elements
    return {
        "zero_optimization": {
            **block["zero_optimization"],
            "reduce_bucket_size": int(size),
            **zero_offload(recipe),
        },
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "data_types": {"grad_accum_dtype": recipe.convergence.accumulation_dtype},
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
    }


def _defaults(recipe: Recipe) -> Iterator[tuple[str, object]]:
    """Yield arguments that the user's own replace: paths, data loading, logs, checkpoints and the timeout."""
    for name, slot in _PLACES.items():
        if value := slot_value(recipe, slot):
            yield name, value
    if not slot_value(recipe, "output") and (folder := slot_value(recipe, "checkpoints")):
        yield "output_dir", folder
    yield "do_train", True
    yield "logging_steps", 10
    if recipe.checkpoints and recipe.checkpoints.every_steps:
        yield "save_steps", recipe.checkpoints.every_steps
    decided = {chosen.name: chosen.value for chosen in recipe.decisions}
    if decided.get("num_workers", "").isdigit():
        yield "dataloader_num_workers", int(decided["num_workers"])
    if seconds := _SECONDS.fullmatch(decided.get("process_group_timeout", "")):
        yield "ddp_timeout", int(seconds[1])
