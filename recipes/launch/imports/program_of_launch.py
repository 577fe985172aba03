"""The training software of an imported launch."""

from collections.abc import Sequence

from recipes.launch.imports.chains import Chain, options_of
from recipes.launch.imports.training_files import LaunchFile
from recipes.planning.programs import OWN, program_of_command

_SIGNS = {
    "tensor-model-parallel-size": "megatron",
    "per-device-train-batch-size": "hf-trainer",
    "training.seq-len": "torchtitan",
    "job.config-file": "torchtitan",
}
"""Options by which a program is recognised."""


def program_of_launch(chain: Chain | None, files: Sequence[LaunchFile]) -> str:
    """Return the id of the program that the command or the files show; `own` if they show none."""
    if chain is not None:
        named = program_of_command(chain.words)
        if named is not None:
            return named.id
    owners = {file.owner for file in files}
    for owner in ("torchtitan", "axolotl", "hf-trainer"):
        if owner in owners:
            return owner
    options = set() if chain is None else {use.name for use in options_of(chain.leaf, of_program=True)}
    for option, program in _SIGNS.items():
        if option in options:
            return program
    launchers = () if chain is None else chain.launchers
    if "accelerate" in launchers or "accelerate" in owners:
        return "accelerate"
    return "deepspeed" if "deepspeed" in launchers or "deepspeed" in owners else OWN
