"""ms-swift: `swift sft` or `swift pt` with the plan as options, and files for shards and DeepSpeed."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.launch.hf_arguments import (
    hf_arguments,
    hf_environment,
    hf_option_files,
    hf_options,
    hf_remarks,
    require_known_arguments,
)
from recipes.launch.known_names import known_names
from recipes.launch.places import require_places
from recipes.launch.plan_remarks import beyond_files, reduction_remarks, tokenizer_remarks
from recipes.launch.program_files import FolderFile, ProgramFiles, Word, torch_agent
from recipes.launch.recipe import Artifact, Recipe, program_arguments
from recipes.launch.settings_tree import Tree, json_text
from recipes.launch.slots import slot_value
from recipes.launch.user_arguments import without_decisions

SHARDS = "fsdp.json"
_COMMANDS = ("sft", "pt")
_PLACES = {"--model": "model", "--dataset": "data"}
_OTHER_NAMES = frozenset({"lora_rank", "target_modules", "quant_bits", "quant_method", "torch_dtype"})
"""Further arguments that a user must not set, because they would change decisions of the plan."""


def write(recipe: Recipe) -> ProgramFiles:
    """Return `-m swift.cli.sft` (`pt` for pretraining) with the user's arguments and the plan's.

    Raises UsageError for another command, without a model or data, and for a plan that the Trainer cannot
    follow.
    """
    arguments = hf_arguments(recipe)
    command, theirs = _command(recipe)
    plan = _plan(recipe, arguments.plan)
    own = without_decisions(theirs, arguments.decided | plan.keys() | _OTHER_NAMES)
    defaults = {
        name: value for name, value in _defaults(recipe, arguments.defaults).items() if name not in own.names
    }
    tree = defaults | plan
    require_places(recipe, _PLACES, tree.keys() | own.names, f"swift {command}")
    require_known_arguments("ms-swift", tree)
    shards = tree.pop("fsdp_config", None)
    return ProgramFiles(
        words=("-m", f"swift.cli.{command}", *own.kept, *hf_options(tree), *_shard_words(shards)),
        agent=torch_agent(recipe),
        files=(*hf_option_files(tree), *_shard_files(shards)),
        environment=hf_environment(recipe),
        modules=("torch", "swift"),
        notes=(
            f"The options have the names of ms-swift {known_names('ms-swift').version}",
            "Sequences longer than the plan's are dropped; `--packing true` joins short ones",
            *_notes(recipe),
            *own.notes,
            *tokenizer_remarks(recipe),
            *hf_remarks(recipe),
            *reduction_remarks(recipe),
            *beyond_files(recipe),
        ),
    )


def _command(recipe: Recipe) -> tuple[str, tuple[str, ...]]:
    """Return `sft` or `pt`, and the user's arguments after this word."""
    target, arguments = recipe.command.target, program_arguments(recipe)
    if recipe.command.kind == "program":
        return ("sft" if recipe.job.continues else "pt"), arguments
    if recipe.command.kind == "module" and target.startswith("swift.cli."):
        command = target.rpartition(".")[2]
    elif PurePosixPath(target).name == "swift" and arguments:
        command, *rest = arguments
        arguments = tuple(rest)
    else:
        command = ""
    if command not in _COMMANDS or any(word.endswith((".yaml", ".yml", ".json")) for word in arguments[:1]):
        raise UsageError(
            f"rigtune starts `swift sft` and `swift pt` with options, not {quoted(target)} like this",
            "give `-- swift sft --model MODEL --dataset DATA`; a script of your own is a plan for hf-trainer",
        )
    return command, arguments


def _plan(recipe: Recipe, plan: Tree) -> Tree:
    tree = {"tuner_type": "full", **plan}
    if recipe.job.tuning == "qlora" and "fsdp_config" in plan:
        # FSDP shards only floating-point tensors
        tree["bnb_4bit_quant_storage"] = "bfloat16"
    return tree


def _defaults(recipe: Recipe, defaults: Mapping[str, object]) -> Tree:
    """Return options that the user's own options replace."""
    names = ("output_dir", "logging_steps", "save_steps", "dataloader_num_workers", "ddp_timeout")
    places = {name.removeprefix("--"): slot_value(recipe, slot) for name, slot in _PLACES.items()}
    return {
        **{name: value for name, value in places.items() if value},
        # the slots have names of the Hugging Face hub; ms-swift otherwise asks ModelScope
        "use_hf": True,
        # without a folder per start, a restart can continue from its own checkpoints
        "add_version": False,
        **{name: defaults[name] for name in names if name in defaults},
    }


def _shard_words(shards: Tree | None) -> Iterator[Word]:
    if shards is not None:
        yield "--fsdp"
        yield FolderFile(name=SHARDS)


def _shard_files(shards: Tree | None) -> Iterator[Artifact]:
    if shards is not None:
        yield Artifact(path=SHARDS, text=json_text({"fsdp": "full_shard auto_wrap", "fsdp_config": shards}))


def _notes(recipe: Recipe) -> Iterator[str]:
    yield "To continue after a stop: -- --resume_from_checkpoint OUTPUT/checkpoint-N"
    if recipe.parallelism.precision != "fp32" and recipe.job.tuning == "full":
        yield f"ms-swift loads the weights in {recipe.parallelism.precision}, and updates them in this format"
