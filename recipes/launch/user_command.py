"""The user's own training command as a recipe's command."""

from pathlib import PurePosixPath

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.launch.imports.unwrapping import unwrap
from recipes.launch.recipe import Command, kind_of_file
from recipes.launch.recipe_file import require_command


def user_command(words: tuple[str, ...]) -> Command:
    """Return `script.py ARGS`, `python script.py ARGS` or `-m module ARGS` as a command.

    A launcher before the program (`torchrun`, `accelerate launch`, `mpirun` ...) is left out. A program of
    nccl-tests, such as `all_reduce_perf`, is recognised by its name.
    Without words the command is the reference workload. Raises UsageError for an unknown placeholder and for
    a target that is neither a script nor a module.
    """
    words = unwrap(words).words
    if words and PurePosixPath(words[0]).name.startswith("python"):
        words = words[1:]
    if not words:
        return Command(kind="reference")
    is_module = words[0] == "-m"
    if words[0].startswith("-") and not is_module:
        raise UsageError(
            f"your program: {quoted(words[0])} is an option, and no script is named before it",
            "give the path of the script; write ./ before a name that begins with a dash",
        )
    target, *arguments = words[is_module:] or ("",)
    command = Command(
        kind="module" if is_module else kind_of_file(target),
        target=target,
        arguments=tuple(arguments),
    )
    require_command(command)
    return command
