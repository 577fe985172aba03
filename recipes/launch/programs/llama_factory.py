"""LLaMA-Factory: `llamafactory-cli train` with the plan as a YAML file, or as overrides of a user's file."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.launch.accelerate_fsdp import fsdp_block, fsdp_variables
from recipes.launch.hf_arguments import (
    HfArguments,
    hf_arguments,
    hf_environment,
    hf_remarks,
    require_known_arguments,
)
from recipes.launch.known_names import known_names, require_known
from recipes.launch.places import require_places
from recipes.launch.plan_remarks import batch_words, beyond_files, reduction_remarks, tokenizer_remarks
from recipes.launch.program_files import FolderFile, ProgramFiles, Word, own_words, torch_agent
from recipes.launch.recipe import Artifact, Command, Environment, Recipe, program_arguments
from recipes.launch.settings_tree import Tree, dotted_values, yaml_text
from recipes.launch.slots import slot_value
from recipes.launch.user_arguments import without_decisions

CONFIG = "llama_factory.yaml"
_LAUNCHER = "llamafactory.launcher"
"""Module that `llamafactory-cli train` starts on every rank."""
_CLI = ("llamafactory-cli", "lmf")
_PLACES = {"model_name_or_path": "model", "dataset": "data"}
_FILE_ENDINGS = (".yaml", ".yml", ".json")
_DATA_FILES = (".json", ".jsonl", ".csv", ".parquet", ".arrow", ".txt")
_OFF = {
    **dict.fromkeys(("deepspeed", "fsdp", "quantization_bit")),
    **dict.fromkeys(("bf16", "fp16", "pure_bf16", "fp8"), False),
}
"""Values that disable settings of a user's file, for those settings that the plan does not have."""
_OTHER_NAMES = frozenset({"lora_rank", "lora_target", "use_unsloth", "use_unsloth_gc"})
"""Further settings that would contradict the plan."""
_PLAIN = re.compile(r"[\w./@+-]+")


def write(recipe: Recipe) -> ProgramFiles:
    """Return `-m llamafactory.launcher llama_factory.yaml`, with that file.

    If the user's command has a file, it is kept, and the plan's settings follow as overrides. Raises
    UsageError if neither such a file nor a slot names the model and the data, for a slot `data` that names a
    single file, and for a plan that the Trainer cannot follow.
    """
    arguments, theirs = hf_arguments(recipe), program_arguments(recipe)
    is_cli = _is_cli(recipe.command)
    if is_cli and theirs[:1] == ("train",):
        theirs = theirs[1:]
    file = theirs[0] if theirs and theirs[0].endswith(_FILE_ENDINGS) else ""
    plan = _plan(recipe, arguments)
    decided = arguments.decided | plan.keys() | _OFF.keys() | _OTHER_NAMES
    own = without_decisions(tuple(_options(theirs[bool(file) :])), decided)
    places = {name: value for name, value in _places(recipe, arguments).items() if name not in own.names}
    kept = tuple(word.removeprefix("--") for word in own.kept)
    words: tuple[Word, ...] = ("-m", _LAUNCHER) if is_cli else own_words(recipe, ())
    files: tuple[Artifact, ...] = ()
    if file:
        tree = places | {name: value for name, value in _OFF.items() if name not in plan} | plan
        words = (*words, file, *kept, *_overrides(tree))
    else:
        tree = {"stage": _stage(recipe), "do_train": True, "logging_steps": 10, **places, **plan}
        require_places(recipe, _PLACES, tree.keys() | own.names, "llamafactory-cli train mine.yaml")
        words = (*words, FolderFile(name=CONFIG), *kept)
        files = (Artifact(path=CONFIG, text=yaml_text(tree, _header(recipe))),)
    require_known_arguments("llama-factory", tree)
    return ProgramFiles(
        words=words,
        agent=torch_agent(recipe),
        files=files,
        environment=(*hf_environment(recipe), *_sharding(recipe)),
        modules=("torch", "llamafactory"),
        notes=(
            *_notes(recipe),
            *own.notes,
            *hf_remarks(recipe),
            *tokenizer_remarks(recipe),
            *reduction_remarks(recipe),
            *beyond_files(recipe),
        ),
    )


def _is_cli(command: Command) -> bool:
    """Return whether the command is `llamafactory-cli train`: no command of the user, the console script, or
    its module.
    """
    if command.kind == "script":
        return PurePosixPath(command.target).name in _CLI
    return command.kind == "program" or command.target == _LAUNCHER


def _plan(recipe: Recipe, arguments: HfArguments) -> Tree:
    return {"finetuning_type": "full", **arguments.plan}


def _stage(recipe: Recipe) -> str:
    return "sft" if recipe.job.continues else "pt"


def _places(recipe: Recipe, arguments: HfArguments) -> Tree:
    """Return model, data, output and checkpoints; a path or a name of a hub needs no `dataset_info.json`."""
    names = ("model_name_or_path", "output_dir", "save_steps", "dataloader_num_workers", "ddp_timeout")
    places = {name: arguments.defaults[name] for name in names if name in arguments.defaults}
    data = slot_value(recipe, "data")
    if data.endswith(_DATA_FILES):
        raise UsageError(
            f"LLaMA-Factory reads no single file {quoted(data)}",
            "give --slot data=FOLDER that holds the file, a name of the Hugging Face hub, or a name from "
            "data/dataset_info.json",
        )
    if data:
        places["dataset"] = data
    if "/" in data:
        places["dataset_dir"] = "ONLINE"
    return places


def _options(arguments: tuple[str, ...]) -> Iterator[str]:
    """Yield `name=value` and `--name value` as `--name=value`, and a bare `--name` as `--name=true`."""
    waiting = ""
    for word in arguments:
        if waiting and not word.startswith("--"):
            yield f"{waiting}={word}"
            waiting = ""
            continue
        if waiting:
            yield f"{waiting}=true"
        waiting = word if word.startswith("--") and "=" not in word else ""
        if not waiting:
            yield f"--{word.removeprefix('--')}"
    if waiting:
        yield f"{waiting}=true"


def _overrides(tree: Tree) -> Iterator[str]:
    """Yield the settings as `name=value`; LLaMA-Factory reads the values as YAML."""
    for name, value in dotted_values(tree):
        text = value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)
        yield f"{name}={text}"


def _header(recipe: Recipe) -> tuple[str, ...]:
    version = known_names("llama-factory").version
    return (
        f"Written by rigtune for LLaMA-Factory {version}. NAME=VALUE after the file's name wins.",
        batch_words(recipe),
    )


def _sharding(recipe: Recipe) -> Iterable[Environment]:
    """Yield the variables of `accelerate launch`, by which LLaMA-Factory recognises FSDP2."""
    if recipe.parallelism.candidate.sharding != "zero3":
        return
    # LLaMA-Factory saves the trained model only if the state is whole
    block = {"fsdp_version": 2, **fsdp_block(recipe), "fsdp_state_dict_type": "FULL_STATE_DICT"}
    require_known("accelerate", (f"fsdp_config.{name}" for name in block))
    for name, value in fsdp_variables(block).items():
        yield Environment(
            name=name,
            value=value,
            why="LLaMA-Factory takes FSDP2 from accelerate's variables.",
            source="LLaMA-Factory 0.9.5, model/model_utils/checkpointing.py; accelerate, utils/launch.py",
        )


def _notes(recipe: Recipe) -> tuple[str, ...]:
    notes = [
        f"The settings have the names of LLaMA-Factory {known_names('llama-factory').version}",
        "A started job continues from the newest checkpoint in output_dir",
    ]
    if _stage(recipe) == "sft":
        notes += [
            "The chat template is that of the tokenizer; a base model needs template=NAME",
            "The plan counts full sequences; packing=true fills them",
        ]
    return tuple(notes)
