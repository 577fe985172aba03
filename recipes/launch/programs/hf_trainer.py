"""Hugging Face Trainer: the user's script with TrainingArguments, as options or as one JSON file."""

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
from recipes.launch.plan_remarks import beyond_files, reduction_remarks
from recipes.launch.program_files import FolderFile, ProgramFiles, Word, own_words, torch_agent
from recipes.launch.program_limits import require_script
from recipes.launch.recipe import Artifact, Recipe, program_arguments
from recipes.launch.settings_tree import json_text
from recipes.launch.user_arguments import without_decisions

ARGUMENTS = "training_arguments.json"
_FILE_ENDINGS = (".json", ".yaml", ".yml")


def write(recipe: Recipe) -> ProgramFiles:
    """Return the user's command with the plan's TrainingArguments.

    They are options, or the file `training_arguments.json` if this name is the script's only argument. Raises
    UsageError without a script of the user, for another file as the only argument, and for a plan that the
    Trainer cannot follow.
    """
    require_script(recipe.program, recipe.command)
    arguments, theirs = hf_arguments(recipe), program_arguments(recipe)
    own = without_decisions(theirs, arguments.decided)
    defaults = {name: value for name, value in arguments.defaults.items() if name not in own.names}
    tree = defaults | arguments.plan
    require_known_arguments("hf-trainer", tree)
    words: tuple[Word, ...]
    files: tuple[Artifact, ...]
    if len(theirs) == 1 and theirs[0].endswith(_FILE_ENDINGS):
        if theirs[0] != ARGUMENTS:
            raise UsageError(
                f"a script whose only argument is the file {quoted(theirs[0])} would not see the plan",
                f"give the arguments themselves, or name {ARGUMENTS}, which rigtune then writes",
            )
        words = (*own_words(recipe, ()), FolderFile(name=ARGUMENTS))
        files = (Artifact(path=ARGUMENTS, text=json_text(tree)),)
    else:
        words = (*own_words(recipe, own.kept), *hf_options(tree))
        files = hf_option_files(tree)
    return ProgramFiles(
        words=words,
        agent=torch_agent(recipe),
        files=files,
        environment=hf_environment(recipe),
        modules=("torch", "transformers", "accelerate"),
        notes=(
            f"The arguments have the names of transformers {known_names('hf-trainer').version}",
            *own.notes,
            *_notes(recipe),
            *hf_remarks(recipe),
            *reduction_remarks(recipe),
            *beyond_files(recipe),
        ),
    )


def _notes(recipe: Recipe) -> tuple[str, ...]:
    if recipe.job.tuning == "full":
        return ()
    return (
        f"Warning: your script must add the adapters of rank {recipe.job.adapter_rank} (peft.LoraConfig)",
    )
