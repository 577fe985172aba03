"""The command that starts the training, unwrapped from the launchers and wrappers around it."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from probes.base.record import Record
from recipes.launch.imports.spelled_settings import module_of
from recipes.launch.recipe import Command as Program
from recipes.launch.recipe import CommandKind, kind_of_file
from recipes.lint.document import Argument, Command, Document, Place
from recipes.lint.readers.grammars import GRAMMARS, SHELLS, Grammar
from recipes.lint.readers.launching import Launches, Start, plain_inline
from recipes.lint.readers.options import Argued, Use, parse_options
from recipes.lint.views import starts
from recipes.planning.programs import program_of_command

PER_NODE = ("torchrun", "accelerate", "deepspeed", "composer")
"""Launchers that run once on each node and start the ranks of their node."""
PER_RANK = ("srun", "mpirun", "horovodrun")
"""Launchers that start every rank themselves, or one agent on every node."""
LAUNCHERS = (*PER_NODE, *PER_RANK)
_OWNERS = {"srun": "slurm", "sbatch": "slurm", "salloc": "slurm", "deepspeed": "deepspeed-launcher"}
_SCRIPT = re.compile(r"\.(py|pyz)$")
_SHELL_SCRIPT = re.compile(r"\.(sh|bash|sbatch|slurm)$")
_IDLE = frozenset({"env", *SHELLS, "exec", "command", "nohup", "time", "setpriv"})
"""Wrappers that change nothing for the program except its variables, which a recipe keeps."""
_NO_PROGRAMS = frozenset({"python", "tee", "echo", "cat", "hostname", "env"})


STRUCTURE = ("module", "m", "no-python")
"""Options of launchers that only state how to read the rest of the command."""
EXTRA_ARGUMENTS = ("$@", "${@}", "$*")
"""Words for the arguments with which a script is started; rigtune's scripts pass such arguments on too."""


class Chain(Record, kw_only=True):
    """A command with the launchers around it, outermost first."""

    commands: tuple[Command, ...]

    @property
    def leaf(self) -> Command:
        return self.commands[-1]

    @property
    def launchers(self) -> tuple[str, ...]:
        """Launchers of ranks in the chain, outermost first."""
        names = [starts(command) for command in self.commands]
        return tuple(name for name in names if name in LAUNCHERS)

    @property
    def starts_script(self) -> bool:
        """Return whether the last command is another shell script, such as `srun bash node.sh`."""
        return _SHELL_SCRIPT.search(self.leaf.program) is not None

    @property
    def words(self) -> tuple[str, ...]:
        """Program and arguments of the last command."""
        return words_of(self.leaf)

    @property
    def is_module(self) -> bool:
        """Return whether the last command is a Python module (`-m NAME`)."""
        above = self.commands[-2] if len(self.commands) > 1 else None
        if above is None:
            return False
        if above.program == "python":
            return "module" in above.options
        modules = GRAMMARS.get(above.program, Grammar()).modules
        return not modules.isdisjoint(above.options)

    @property
    def is_training(self) -> bool:
        """Return whether the last command can be a training program."""
        is_launcher = starts(self.leaf) in LAUNCHERS
        if (
            self.leaf.written in EXTRA_ARGUMENTS
            or self.leaf.program in _NO_PROGRAMS
            or self.starts_script
            or is_launcher
        ):
            return False
        under = {starts(command) for command in self.commands[:-1]}
        is_python = bool(under & {"python", *PER_NODE})
        return (
            is_python
            or _SCRIPT.search(self.leaf.program) is not None
            or program_of_command(self.words) is not None
        )


def words_of(command: Command) -> tuple[str, ...]:
    """Return the program and the arguments of a command."""
    return (command.written, *(argument.text for argument in command.arguments))


def chains(document: Document) -> tuple[Chain, ...]:
    """Return the chain of every innermost command of a document, in order."""
    open_chain: list[Command] = []
    result: list[Chain] = []
    for command in document.commands:
        depth = len(command.inside)
        fits = tuple(each.program for each in open_chain[:depth]) == command.inside
        if open_chain and not (fits and depth == len(open_chain)):
            result.append(Chain(commands=tuple(open_chain)))
        open_chain = [*open_chain[:depth], command] if fits else [command]
    return (*result, Chain(commands=tuple(open_chain))) if open_chain else ()


def main_chain(candidates: Sequence[Chain]) -> Chain | None:
    """Return the chain that most certainly starts the training, by `certainty`. A training program has
    precedence over a shell script. None if no command starts a training program or a shell script.
    """
    training = [chain for chain in candidates if chain.is_training]
    scripts = [chain for chain in candidates if chain.starts_script]
    for group in (training, scripts):
        if group:
            return max(group, key=certainty)
    return None


def certainty(chain: Chain) -> tuple[bool, int, bool, int]:
    """Return how certain it is that a chain starts the training; a larger tuple is more certain."""
    per_node = any(name in PER_NODE for name in chain.launchers)
    return (
        per_node,
        len(chain.launchers),
        not chain.leaf.is_conditional,
        len(chain.leaf.arguments),
    )


class OptionUse(Record, kw_only=True):
    """An option of a launcher or of a program, as the command line states it."""

    owner: str
    """Row of `spellings.toml`; the name of the program if no row describes it."""
    name: str
    value: str
    written: str
    """The words of the option, joined by blanks."""
    is_literal: bool
    place: Place
    value_place: Place


def owner_of(command: Command) -> str:
    """Return the name of the row of `spellings.toml` that describes the options of a command.

    There may be no such row.
    """
    name = starts(command)
    return _OWNERS.get(name, name)


def options_of(command: Command, *, of_program: bool = False) -> tuple[OptionUse, ...]:
    """Return all options of a command in order; `of_program` reads them as those of a training program."""
    arguments = command.arguments
    grammar = Grammar() if of_program else GRAMMARS.get(command.program, Grammar())
    argued = [Argued(item.text, item.place, is_literal=item.is_literal) for item in arguments]
    parsed = parse_options(argued, grammar, starts=False)
    uses = [_use(use, arguments, owner_of(command)) for use in parsed.uses]
    return tuple(each for use in uses for each in (use, *(_inner(use) if of_program else ())))


def _inner(use: OptionUse) -> Iterator[OptionUse]:
    """Yield the settings in a JSON object, such as the value of `--lr_scheduler_kwargs`."""
    if not (use.is_literal and use.value.startswith("{")):
        return
    with contextlib.suppress(msgspec.DecodeError):
        for name, value in msgspec.json.decode(use.value, type=dict[str, Any]).items():
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            place = msgspec.structs.replace(use.value_place, end_column=None)
            yield msgspec.structs.replace(use, name=f"{use.name}.{name}", value=text, value_place=place)


def overrides_of(command: Command, sign: str) -> tuple[OptionUse, ...]:
    """Return the arguments of a program that are settings, such as `KEY=VALUE` if `sign` is `=`."""
    return tuple(
        OptionUse(
            owner=owner_of(command),
            name=word.text.partition(sign)[0],
            value=word.text.partition(sign)[2],
            written=word.text,
            is_literal=word.is_literal,
            place=word.place,
            value_place=word.place,
        )
        for word in command.arguments
        if sign in word.text and not word.text.startswith("-")
    )


def _use(use: Use, arguments: tuple[Argument, ...], owner: str) -> OptionUse:
    words = arguments[use.begin : use.end]
    return OptionUse(
        owner=owner,
        name=use.name,
        value=use.value,
        written=" ".join(word.text for word in words),
        is_literal=all(word.is_literal for word in words),
        place=words[0].place,
        value_place=words[-1].place,
    )


def is_idle(command: Command) -> bool:
    """Return whether the wrapper may be left out without telling the user."""
    return command.program in _IDLE and not (command.program == "env" and command.options)


def program_in(chain: Chain) -> Program:
    """Return the program of a chain, with its own arguments, as a recipe states it.

    Braces are doubled, because a recipe's arguments may contain placeholders in braces.
    """
    words = tuple(word for word in chain.words if word not in EXTRA_ARGUMENTS)
    module = module_of(words)
    if module:
        return Program(kind="module", target=module, arguments=tuple(map(escaped, words[2:])))
    kind: CommandKind = "module" if chain.is_module else kind_of_file(words[0])
    return Program(kind=kind, target=words[0], arguments=tuple(map(escaped, words[1:])))


def escaped(text: str) -> str:
    """Return a text with doubled braces, as the arguments of a recipe need it."""
    return text.replace("{", "{{").replace("}", "}}")


def chain_of_words(words: Sequence[str]) -> Chain | None:
    """Return the chain of a command line that a shell has already divided into words.

    The column of each place is the number of the word, counted from 1. None if the words start no program.
    """
    argued = [Argued(word, Place(line=1, column=at)) for at, word in enumerate(words, start=1)]
    launches = Launches(lambda _span, _start: None, plain_inline)
    launches.start(argued, Start())
    document = Document(name="", kind="shell", text="", commands=tuple(launches.commands))
    candidates = chains(document)
    return candidates[-1] if candidates else None
