"""The warning about a user's program that takes no decision of the plan."""

from collections.abc import Mapping

import msgspec

from probes.base.units import plural
from recipes.launch.placeholders import has_placeholder, names_placeholder
from recipes.launch.recipe import Command, Recipe, settings
from recipes.launch.reference_files import PACKAGE
from recipes.planning.plan import OWN_PROGRAM

UNTOLD = "is told nothing of the plan"
"""Words by which the warning is recognised among other notes."""
_SIGNS = ("RIGTUNE_RECIPE", "rigtune_helper", "train_loop_per_worker")
"""Words that show that a program reads the plan by itself."""
_USERS_CODE = (OWN_PROGRAM, "ray-train")
"""Programs that only start the user's torch code, which itself must follow the plan."""


_LOOP = ".backward("
"""Text that occurs in a source with a training loop; other sources do not show what is applied."""
_SHARDS = ("fully_shard", "FullyShardedDataParallel", "FSDP")
_APPLIED_BY = (
    ("strategy", ("strategy", "fsdp"), {"fsdp": _SHARDS, "hsdp": _SHARDS}),
    ("precision", ("precision",), {"bf16": ("bfloat16", "bf16"), "fp16": ("float16", "fp16", ".half(")}),
    (
        "activation_checkpointing",
        ("activation_checkpointing",),
        {"full": ("checkpoint_wrapper", "checkpointing", "utils.checkpoint")},
    ),
)
"""Decisions with the placeholders that state them, and the words with which a source applies each value."""


def _not_applied(command: Command, values: Mapping[str, object], text: str) -> str:
    """Return the warning about decisions that neither an argument states nor the source mentions."""
    lost = [
        (decision, str(values[decision]))
        for decision, placeholders, words_of in _APPLIED_BY
        if (words := words_of.get(str(values[decision])))
        and not any(has_placeholder(command.arguments, name) for name in placeholders)
        and not any(word in text for word in words)
    ]
    if not lost or _LOOP not in text:
        return ""
    them = "it" if len(lost) == 1 else "them"
    stated = ", ".join(f"{decision.replace('_', ' ')} {value}" for decision, value in lost)
    return (
        f"{command.target} {UNTOLD}'s {stated}: no argument has "
        f"{', '.join(f'{{{decision}}}' for decision, _ in lost)}, and its source does not mention {them}. "
        f"Without {them}, memory and speed differ from the prediction."
    )


def untold_warning(command: Command, program: str, values: Mapping[str, object], text: str) -> str:
    """Return the warning that a program takes no decision of the plan, or lacks decisive ones; else empty.

    `values` are the values of the placeholders; `text` is the source of the program, empty if it could not be
    read.
    """
    is_rigtunes = command.kind == "module" and command.target.partition(".")[0] == PACKAGE
    is_own = command.kind in ("script", "module") and program in _USERS_CODE and not is_rigtunes
    if not is_own or any(sign in text for sign in _SIGNS):
        return ""
    if names_placeholder(command.arguments):
        return _not_applied(command, values, text)
    steps = plural(int(str(values["grad_accum"])), "accumulation step")
    return (
        f"{command.target} {UNTOLD}: it must itself use {values['strategy']}, {values['precision']}, "
        f"micro-batch {values['micro_batch']} x {steps}, activation checkpointing "
        f"{values['activation_checkpointing']} and learning rate {values['learning_rate']}. Add "
        "{micro_batch} and other names of `rigtune list placeholders` to its arguments, or let it import the "
        "file of `rigtune export --helper`."
    )


def with_untold_note(recipe: Recipe, text: str) -> Recipe:
    """Return the recipe with the warning of `untold_warning` in its notes, or without it if it does not
    apply.
    """
    warning = untold_warning(recipe.command, recipe.program, settings(recipe), text)
    kept = tuple(note for note in recipe.notes if UNTOLD not in note)
    notes = (*kept, f"Warning: {warning}") if warning else kept
    return recipe if set(notes) == set(recipe.notes) else msgspec.structs.replace(recipe, notes=notes)
