"""The replacement of a program's output folder, so that a short run overwrites no checkpoint."""

import msgspec

from recipes.launch.placeholders import has_placeholder
from recipes.launch.recipe import Recipe

OUTPUT_OPTIONS = (
    "--output_dir",
    "--output-dir",
    "--save",
    "--job.dump_folder",
    "--dump_folder",
    "--default_root_dir",
    "--checkpoint_dir",
    "--checkpoint-dir",
    "--out_dir",
    "--out-dir",
    "--save_dir",
    "--save-dir",
)
"""Options with which training programs take the folder of their checkpoints.

Sources, read 2026-11: huggingface/transformers, training_args.py (also TRL, LLaMA-Factory, ms-swift);
NVIDIA/Megatron-LM, arguments.py; pytorch/torchtitan, config (job.dump_folder, 0.2; dump_folder, 0.3);
Lightning, Trainer; karpathy/nanoGPT, train.py; the others are usual names in users' scripts.
"""


_SLOTS = ("output", "checkpoints")
"""Slots of launch files for the folders that a program writes to."""


def with_own_output(recipe: Recipe, folder: str) -> Recipe | None:
    """Return the recipe whose program writes its results and checkpoints to `folder`.

    The slots and the arguments that name an output folder are replaced. The result is None if a user's
    command has neither an option of `OUTPUT_OPTIONS` nor a placeholder of such a slot, because the program
    may then write its checkpoints anywhere.
    """
    arguments = list(recipe.command.arguments)
    escaped = folder.replace("{", "{{").replace("}", "}}")
    is_safe = recipe.command.kind == "program"  # the configuration of such a program uses the slots
    for place, argument in enumerate(arguments):
        name, joined, _ = argument.partition("=")
        is_safe |= any(has_placeholder((argument,), slot) for slot in _SLOTS)
        if name not in OUTPUT_OPTIONS:
            continue
        if joined:
            arguments[place], is_safe = f"{name}={escaped}", True
        elif place + 1 < len(arguments):
            arguments[place + 1], is_safe = escaped, True
    if not is_safe:
        return None
    command = msgspec.structs.replace(recipe.command, arguments=tuple(arguments))
    return with_output_slots(msgspec.structs.replace(recipe, command=command), folder)


def with_output_slots(recipe: Recipe, folder: str) -> Recipe:
    """Return the recipe with `folder` in the slots for results and checkpoints; plan.json states them too."""
    slots = {**recipe.slots, **dict.fromkeys(_SLOTS, folder)}
    return msgspec.structs.replace(recipe, slots=slots)
