"""Commands of a script that prepare the software: modules, Conda, a virtual environment, the folder."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from recipes.launch.imports.training_files import LaunchFile
from recipes.lint.document import Command

SLOT = "slot."
"""Beginning of the settings whose value fills a slot of the recipe (`rigtune list slots`)."""
_LOADING = ("load", "add")


class SiteCommand(NamedTuple):
    """A setting that commands of a script state."""

    setting: str
    value: str
    commands: tuple[Command, ...]


def site_commands(file: LaunchFile) -> Iterator[SiteCommand]:
    """Yield the settings of commands that always run, outside of launchers.

    All `module load` commands together are one setting; of other commands for one setting, the last applies.
    """
    plain = [
        command
        for command in file.commands
        if not command.inside
        and not command.is_conditional
        and command.is_literal
        and all(argument.is_literal and argument.text[:1] != "~" for argument in command.arguments)
    ]
    loading = [command for command in plain if _words(command)[:1] in ([name] for name in _LOADING)]
    loading = [command for command in loading if command.program in ("module", "ml")]
    if loading:
        modules = [word for command in loading for word in _words(command)[1:]]
        yield SiteCommand(f"{SLOT}modules", " ".join(modules), tuple(loading))
    last: dict[str, SiteCommand] = {}
    for command in plain:
        stated = _stated(command)
        if stated is not None:
            last[stated[0]] = SiteCommand(*stated, (command,))
    yield from last.values()


def _stated(command: Command) -> tuple[str, str] | None:
    """Return the setting that a command states, with its value; None if it states none."""
    words = [word for word in _words(command) if word != "--"]
    if command.program in ("conda", "mamba", "micromamba") and words[:1] == ["activate"] and len(words) == 2:
        return f"{SLOT}conda", words[1]
    if command.program in ("source", ".") and len(words) == 1 and words[0].endswith("/activate"):
        return f"{SLOT}setup", words[0]
    if command.program == "cd" and len(words) == 1 and words[0].startswith("/"):
        return "working_directory", words[0]
    return None


def _words(command: Command) -> list[str]:
    return [argument.text for argument in command.arguments]


def slots_in(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the slots among settings, by name."""
    return {name.removeprefix(SLOT): value for name, value in settings if name.startswith(SLOT)}
