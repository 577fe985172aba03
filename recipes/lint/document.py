"""The parsed launch file that rules judge: its settings, commands and requests, each with its place."""

import functools
import re
from typing import Literal

from probes.base.grouping import grouped
from probes.base.record import Record

DocumentKind = Literal[
    "shell",
    "sbatch",
    "dockerfile",
    "compose",
    "kubernetes",
    "accelerate",
    "deepspeed",
    "tf-config",
    "nccl-conf",
    "dotenv",
    "environment",
    "devcontainer",
    "python",
    "hostfile",
]

Reach = Literal["all", "node", "command"]


def lines_of(text: str) -> list[str]:
    """Return the lines of a file, divided as in editors and shells.

    A form feed or a Unicode separator does not end a line.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


class Place(Record, kw_only=True):
    """Lines and columns of a part of the file, counted from 1; `end_column` is after the last character."""

    line: int
    column: int = 1
    end_line: int | None = None
    end_column: int | None = None


class Setting(Record, kw_only=True):
    """An environment variable that the file sets or unsets for the programs that it starts."""

    name: str
    value: str | None
    """None if the variable is unset, or if the value is unknown before the run (`is_literal` is False then).
    """
    written: str
    """The value as written, with quotes and expansions."""
    is_literal: bool = True
    """True if the value is known: written in full, or made of variables that the same file sets."""
    place: Place
    """Place of `NAME=value`; place of the name if name and value are separate (YAML, `setenv`)."""
    value_place: Place | None = None
    """Place of the value alone, with its quotes."""
    is_exported: bool = True
    """False for a variable of the shell alone, which no process gets."""
    is_conditional: bool = False
    """True if the setting is in a branch or a loop, which may never run."""
    reaches: Reach = "all"
    """Receivers of the value: all processes of the job, the processes of this node, or one command."""


class Argument(Record, kw_only=True):
    """A word of a command."""

    text: str
    """Text without quotes.

    Variables that the file sets are replaced by their values; others remain, such as `$SLURM_PROCID`.
    """
    is_literal: bool = True
    """True if no variable is left to expand."""
    place: Place


class Command(Record, kw_only=True):
    """A command that the file starts.

    A launcher and the command that it starts are two commands: `srun torchrun train.py` is three commands.
    """

    program: str
    """Base name of the program: `torchrun`, `srun`, `mpirun`, `python`, `accelerate`, `docker`."""
    arguments: tuple[Argument, ...]
    """Arguments of the command itself.

    The inner command of a launcher is a separate command, whose `inside` names the launcher. A script is a
    command too: `train.py`.
    """
    options: dict[str, str] = {}
    """Values of options by long name, without leading dashes and with `-` for `_`; `true` for a switch.

    If an option that makes a list is repeated (`-x`, `--env`, `--volume` ...), line breaks separate its
    values.
    """
    place: Place
    written: str = ""
    """The program with its folder, before `program` reduces the text to one name."""
    is_literal: bool = True
    """True if no variable is left to expand in the name of the program."""
    inside: tuple[str, ...] = ()
    """Programs that start the command, outermost first."""
    settings: tuple[Setting, ...] = ()
    """Variables set for this command alone: `A=1 cmd`, `mpirun -x A=1`."""
    exported: tuple[Setting, ...] = ()
    """Variables that the script around the command exports at this point, each name once."""
    in_single_quotes: bool = False
    """True if variables expand on the node that runs the command: it is part of `bash -c '...'`.

    Also true in double quotes if a backslash protects the parts that differ between nodes
    (`\\$SLURM_PROCID`).
    """
    is_conditional: bool = False
    """True if the command is in a branch or a loop."""


class Directive(Record, kw_only=True):
    """A request to a scheduler: `#SBATCH --nodes=2`."""

    name: str
    """Long name without dashes."""
    value: str
    place: Place
    scheduler: Literal["SBATCH", "PBS", "BSUB"] = "SBATCH"
    """Word after `#`."""
    is_read: bool = True
    """False after the first command, because the scheduler reads no requests after a command."""


class Entry(Record, kw_only=True):
    """A value of a structured file (YAML, JSON) and its path.

    A path is for example `spec.template.spec.containers[0].resources.limits.memory`.
    """

    path: str
    value: str | int | float | bool | None
    place: Place
    """Place of the value."""


class Fault(Record, kw_only=True):
    """A syntax error that prevents every program from reading the file."""

    reason: str
    place: Place


_LAUNCHERS = frozenset(
    {"torchrun", "accelerate", "accelerate-launch", "deepspeed", "horovodrun", "srun", "composer", "axolotl"}
)
_MPI_OR_VARIABLE = re.compile(r"mpirun|mpiexec|orterun|prterun|\$\{?[A-Za-z_]")
"""Launchers of MPI, also with endings (`mpiexec.hydra`), and variables for a launcher: `$LAUNCHER train.py`.
"""


def is_launch(command: Command) -> bool:
    """Return whether the command starts ranks, or a launcher starts the command."""
    programs = (*command.inside, command.program)
    return any(program in _LAUNCHERS or _MPI_OR_VARIABLE.match(program) is not None for program in programs)


class Document(Record, kw_only=True, dict=True):
    """One launch file."""

    name: str
    kind: DocumentKind
    text: str
    settings: tuple[Setting, ...] = ()
    commands: tuple[Command, ...] = ()
    directives: tuple[Directive, ...] = ()
    entries: tuple[Entry, ...] = ()
    waived: dict[int, tuple[str, ...]] = {}
    """Ids of rules (or `all`) that comments waive, by line; 0 is the whole file."""
    problems: tuple[str, ...] = ()
    """Parts of the file that the reader could not read, each with its line. The file may be correct."""
    faults: tuple[Fault, ...] = ()
    """Errors of syntax in the file."""

    @functools.cached_property
    def given(self) -> tuple[Setting, ...]:
        """All variables that the file gives to processes: to all processes or to one command."""
        settings = {
            (item.name, item.place.line, item.written): item for item in self.settings if item.is_exported
        }
        for command in self.commands:
            for item in command.settings:
                if item.is_exported:
                    settings.setdefault((item.name, item.place.line, item.written), item)
        return tuple(settings.values())

    @functools.cached_property
    def own_users(self) -> dict[int, list[Command]]:
        """Commands for which alone a setting is made (`A=1 command`), by the identity of the setting."""
        return grouped((id(item), command) for command in self.commands for item in command.settings)

    @functools.cached_property
    def value_cache(self) -> dict[tuple[str, bool], frozenset[str | None]]:
        """Values that the module `reach` has computed before, by the name of the variable."""
        return {}

    @functools.cached_property
    def shared(self) -> dict[str, Setting]:
        """Variables that all processes get, wherever the file sets them.

        Scripts have no such variables; containers start with all their variables.
        """
        if self.kind in ("shell", "sbatch"):
            return {}
        return {item.name: item for item in self.settings if item.is_exported and item.reaches != "command"}

    @functools.cached_property
    def exports(self) -> dict[int, dict[str, Setting]]:
        """Settings by name for each tuple `Command.exported`; the key is the identity of the tuple."""
        tuples = {id(command.exported): command.exported for command in self.commands}
        return {key: {item.name: item for item in exported} for key, exported in tuples.items()}

    @functools.cached_property
    def environments(self) -> tuple[dict[str, Setting], ...]:
        """Variables that ranks get: one entry for each different environment in which a launch starts.

        If the file shows no launch, these are all variables of the file.
        """
        if self.kind not in ("shell", "sbatch") or not self.launches:
            return (
                {item.name: item for item in self.given if item.value is not None or not item.is_literal},
            )
        launches = {(id(launch.exported), launch.settings): launch for launch in self.launches}
        return tuple(
            self.exports[id(launch.exported)] | {item.name: item for item in launch.settings}
            for launch in launches.values()
        )

    @functools.cached_property
    def launches(self) -> tuple[Command, ...]:
        """Commands of a script that start ranks, or that may start ranks, such as `$LAUNCHER`."""
        return tuple(command for command in self.commands if is_launch(command))

    @functools.cached_property
    def last_given(self) -> dict[str, Setting]:
        """Variables that ranks get: the last setting of each name that a launch of the script gets.

        If the file shows no launch, these are the last settings of each name in the file.
        """
        if self.kind not in ("shell", "sbatch") or not self.launches:
            return {item.name: item for item in self.given}
        return {item.name: item for launch in self.launches for item in (*launch.exported, *launch.settings)}

    @functools.cached_property
    def lines(self) -> tuple[str, ...]:
        """The text without line breaks; line 1 has index 0."""
        return tuple(lines_of(self.text))
