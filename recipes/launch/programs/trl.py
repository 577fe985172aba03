"""TRL: `trl sft` with a YAML file of the plan, or the user's script with the plan as options."""

from pathlib import PurePosixPath

from recipes.launch.hf_arguments import (
    HfArguments,
    hf_arguments,
    hf_environment,
    hf_option_files,
    hf_options,
    hf_remarks,
    require_known_arguments,
)
from recipes.launch.known_names import known_names
from recipes.launch.places import require_places
from recipes.launch.plan_remarks import batch_words, beyond_files, reduction_remarks, tokenizer_remarks
from recipes.launch.program_files import FolderFile, ProgramFiles, Word, own_words, torch_agent
from recipes.launch.recipe import Artifact, Command, Recipe, program_arguments
from recipes.launch.settings_tree import Tree, yaml_text
from recipes.launch.user_arguments import without_decisions

CONFIG = "sft.yaml"
SFT = "trl.scripts.sft"
"""Module that `trl sft` starts."""
_PLACES = {"--model_name_or_path": "model", "--dataset_name": "data"}
"""Arguments without which `trl sft` cannot start, with the slots that fill them."""


def write(recipe: Recipe) -> ProgramFiles:
    """Return the command with the plan's arguments of SFTConfig and ModelConfig.

    `trl sft`, which needs no script of the user, takes them from `sft.yaml`; a script, or a command with
    another --config, takes them as options. Raises UsageError if `trl sft` gets no model or no data, and for
    a plan that the Trainer cannot follow.
    """
    arguments, theirs = hf_arguments(recipe), program_arguments(recipe)
    is_sft = _is_sft(recipe.command)
    if is_sft and recipe.command.kind == "script":  # the word `sft` of `trl sft`
        theirs = theirs[1:]
    own = without_decisions(theirs, arguments.decided)
    defaults = {name: value for name, value in arguments.defaults.items() if name not in own.names}
    tree = defaults | _plan(recipe, arguments)
    # the script has no argument for a tokenizer: it uses the model's tokenizer
    tree.pop("tokenizer_name", None)
    require_known_arguments("trl", tree)
    if is_sft:
        require_places(recipe, _PLACES, tree.keys() | own.names, f"-m {SFT}")
    command = ("-m", SFT) if is_sft else own_words(recipe, ())
    if is_sft and "config" not in own.names:
        header = (
            f"Written by rigtune for TRL {known_names('trl').version}. Options of the command line win.",
            batch_words(recipe),
        )
        words: tuple[Word, ...] = (*command, "--config", FolderFile(name=CONFIG), *own.kept)
        files: tuple[Artifact, ...] = (Artifact(path=CONFIG, text=yaml_text(tree, header)),)
    else:
        words = (*command, *own.kept, *hf_options(tree))
        files = hf_option_files(tree)
    return ProgramFiles(
        words=words,
        agent=torch_agent(recipe),
        files=files,
        environment=hf_environment(recipe),
        modules=("torch", "trl", *(() if recipe.job.tuning == "full" else ("peft",))),
        notes=(
            f"The arguments have the names of TRL {known_names('trl').version}",
            "The plan counts full sequences; with `--packing true` TRL fills them",
            *own.notes,
            *tokenizer_remarks(recipe),
            *hf_remarks(recipe),
            *reduction_remarks(recipe),
            *beyond_files(recipe),
        ),
    )


def _is_sft(command: Command) -> bool:
    """Return whether the command is `trl sft`: no command of the user, the console script, or its module."""
    if command.kind == "script":
        return PurePosixPath(command.target).name == "trl" and command.arguments[:1] == ("sft",)
    return command.kind == "program" or command.target == SFT


def _plan(recipe: Recipe, arguments: HfArguments) -> Tree:
    plan = arguments.plan
    if recipe.job.tuning == "qlora" and "fsdp" in plan:
        # FSDP shards only floating-point tensors
        return {**plan, "bnb_4bit_quant_storage": "bfloat16"}
    return plan
