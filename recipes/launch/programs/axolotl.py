"""axolotl: `axolotl train` with a YAML file of the plan, or with the user's file and the plan as options."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.launch.hf_arguments import (
    HfArguments,
    hf_arguments,
    hf_environment,
    hf_option_files,
    hf_remarks,
    require_known_arguments,
)
from recipes.launch.known_names import known_names
from recipes.launch.places import require_places
from recipes.launch.plan_remarks import batch_words, beyond_files, reduction_remarks
from recipes.launch.program_files import FolderFile, ProgramFiles, Word, torch_agent
from recipes.launch.recipe import Artifact, Recipe, program_arguments
from recipes.launch.settings_tree import Tree, yaml_text
from recipes.launch.slots import slot_value
from recipes.launch.user_arguments import without_decisions

CONFIG = "axolotl.yaml"
_TRAIN = "axolotl.cli.train"
"""Module that `axolotl train` starts on every rank."""
_PLACES = {"base_model": "model", "datasets": "data"}
_OFF = {
    **dict.fromkeys(("deepspeed", "fsdp", "fsdp_config", "fsdp_version", "adapter")),
    **dict.fromkeys(("load_in_4bit", "load_in_8bit", "fp16", "fp8", "gradient_checkpointing"), False),
    **dict.fromkeys(("dp_shard_size", "dp_replicate_size", "tensor_parallel_size", "warmup_ratio")),
}
"""Values that disable settings of a user's file, for those settings that the plan does not have."""
_OTHER_NAMES = frozenset(
    {"lora_r", "lora_target_linear", "batch_size", "num_epochs", "context_parallel_size"}
)
"""Further settings that would contradict the plan."""


def write(recipe: Recipe) -> ProgramFiles:
    """Return `-m axolotl.cli.train axolotl.yaml`, with that file.

    If the user's command has a file, it is kept, and the plan's settings follow as options. Raises UsageError
    on a CPU, for another command than `axolotl train`, if neither such a file nor a slot names the model and
    the data, and for a plan that the Trainer cannot follow.
    """
    if recipe.resources.device == "cpu":
        raise UsageError("axolotl trains only on GPUs", "plan for GPUs, or with --program trl")
    arguments, theirs = hf_arguments(recipe), _arguments(recipe)
    plan = _plan(recipe, arguments)
    file = theirs[0] if theirs and not theirs[0].startswith("-") else ""
    own = without_decisions(
        theirs[bool(file) :], arguments.decided | plan.keys() | _OFF.keys() | _OTHER_NAMES
    )
    places = {name: value for name, value in _places(recipe, arguments).items() if name not in own.names}
    words: tuple[Word, ...] = ("-m", _TRAIN)
    left_out: tuple[str, ...] = ()
    if file:
        # axolotl takes data as a list of blocks, which no option states
        if places.pop("datasets", None):
            left_out = (f"Warning: the slot data is left out: {file} must name the data itself",)
        tree = places | {name: value for name, value in _OFF.items() if name not in plan} | plan
        words = (*words, file, *own.kept, *_options(tree))
        files = hf_option_files({name: tree[name] for name in ("deepspeed",) if tree[name]})
    else:
        tree = {**_file_defaults(recipe, own.names), **places, **plan}
        require_places(recipe, _PLACES, tree.keys() | own.names, "axolotl train mine.yaml")
        words = (*words, FolderFile(name=CONFIG), *own.kept)
        files = (Artifact(path=CONFIG, text=yaml_text(tree, _header(recipe))),)
    require_known_arguments("axolotl", tree)
    return ProgramFiles(
        words=words,
        agent=torch_agent(recipe),
        files=files,
        environment=hf_environment(recipe),
        modules=("torch", "axolotl"),
        notes=(
            f"The keys are those of axolotl {known_names('axolotl').version}, which drops unknown ones",
            "A started job continues from the newest checkpoint in output_dir",
            "The plan counts full sequences; sample_packing: true fills them",
            *own.notes,
            *left_out,
            *hf_remarks(recipe),
            *reduction_remarks(recipe),
            *beyond_files(recipe),
        ),
    )


def _arguments(recipe: Recipe) -> tuple[str, ...]:
    """Return the user's arguments after `axolotl train`. Raises UsageError for another command."""
    command, arguments = recipe.command, program_arguments(recipe)
    if command.kind == "program" or command.target == _TRAIN:
        return arguments
    if PurePosixPath(command.target).name == "axolotl" and arguments[:1] == ("train",):
        return arguments[1:]
    raise UsageError(
        f"rigtune starts `axolotl train`, not {quoted(command.target)}",
        "give `-- axolotl train mine.yaml`; a script of your own is a plan for hf-trainer",
    )


def _plan(recipe: Recipe, arguments: HfArguments) -> Tree:
    plan = dict(arguments.plan)
    plan["optimizer"] = plan.pop("optim")
    if "fsdp_config" in plan:
        shards = dict(plan["fsdp_config"])
        # axolotl takes one class as a word, and saves a whole model after the last step
        layers = shards.pop("transformer_layer_cls_to_wrap", [])
        offload = {"offload_params": True} if shards.pop("cpu_offload", False) else {}
        plan["fsdp_config"] = {
            **shards,
            **offload,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            **({"transformer_layer_cls_to_wrap": layers[0]} if layers else {}),
            "final_state_dict_type": "FULL_STATE_DICT",
        }
    return plan


def _places(recipe: Recipe, arguments: HfArguments) -> Tree:
    """Return the settings of model, tokenizer, data, output and checkpoints that slots and the plan state."""
    names = ("output_dir", "save_steps", "dataloader_num_workers", "ddp_timeout")
    places = {name: arguments.defaults[name] for name in names if name in arguments.defaults}
    if model := slot_value(recipe, "model"):
        places["base_model"] = model
    if tokenizer := slot_value(recipe, "tokenizer"):
        places["tokenizer_config"] = tokenizer
    if data := slot_value(recipe, "data"):
        kind = "chat_template" if recipe.job.continues else "completion"
        places["datasets"] = [{"path": data, "type": kind}]
    return places


def _file_defaults(recipe: Recipe, stated: frozenset[str]) -> Tree:
    defaults: Tree = {"logging_steps": 10, "auto_resume_from_checkpoints": True}
    if recipe.job.tuning != "full":
        # axolotl has no default; twice the rank is common
        defaults["lora_alpha"] = 2 * recipe.job.adapter_rank
    return {name: value for name, value in defaults.items() if name not in stated}


def _options(tree: Tree) -> Iterator[Word]:
    """Yield the settings as options; axolotl reads their values as Python, and `a__b` as the key b of a."""
    for name, value in tree.items():
        if name == "deepspeed" and value:
            yield "--deepspeed"
            yield FolderFile(name="ds_config.json")
        elif isinstance(value, dict):
            yield from (f"--{name}__{key}={inner}" for key, inner in value.items())
        else:
            yield f"--{name}={value}"


def _header(recipe: Recipe) -> tuple[str, ...]:
    version = known_names("axolotl").version
    return (
        f"Written by rigtune for axolotl {version}. --NAME=VALUE after the file's name wins.",
        batch_words(recipe),
    )
