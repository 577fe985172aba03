"""A launch file as rules see it: what it sets, starts, and asks the scheduler or the container for, each with
its place.
"""

from __future__ import annotations

import functools
import re
from typing import Literal

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
    """The lines of a file as editors and shells count them: a form feed or a Unicode separator ends none."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


class Place(Record, kw_only=True):
    """Where something stands. Lines and columns from 1; `end_column` is after the last character."""

    line: int
    column: int = 1
    end_line: int | None = None
    end_column: int | None = None


class Setting(Record, kw_only=True):
    """An environment variable that the file sets or unsets for what it starts."""

    name: str
    value: str | None
    """None where it is unset, or where the value cannot be known before the run (`is_literal` is False
    then).
    """
    written: str
    """The value as written, with quotes and expansions."""
    is_literal: bool = True
    """Whether the value is known: written out, or of variables that the same file sets."""
    place: Place
    """Of `NAME=value` as a whole; of the name, where name and value are two things (YAML, `setenv`)."""
    value_place: Place | None = None
    """Of the value alone, with its quotes."""
    is_exported: bool = True
    """False for a variable of the shell alone, which no process gets."""
    is_conditional: bool = False
    """In a branch or a loop: it may never happen."""
    reaches: Reach = "all"
    """Who gets it: every process of the job, those of this node alone, or one command."""


class Argument(Record, kw_only=True):
    """A word of a command."""

    text: str
    """Without quotes; variables that the file sets are filled in, others stand as written:
    `$SLURM_PROCID`.
    """
    is_literal: bool = True
    """Whether nothing is left to expand."""
    place: Place


class Command(Record, kw_only=True):
    """A command that the file starts, with launchers unwrapped: `srun ... torchrun ... train.py` is three
    nested commands.
    """

    program: str
    """Base name of the program: `torchrun`, `srun`, `mpirun`, `python`, `accelerate`, `docker`."""
    arguments: tuple[Argument, ...]
    """Its own: what it starts is a command of its own, which has it in `inside`. A script is a command too:
    `train.py`.
    """
    options: dict[str, str] = {}
    """Options by their long name without dashes, `_` as `-`; `true` for switches. Where an option that
    makes a list is repeated (`-x`, `--env`, `--volume` ...) its values are separated by line breaks."""
    place: Place
    inside: tuple[str, ...] = ()
    """Programs that start it, outermost first."""
    settings: tuple[Setting, ...] = ()
    """Set for this command alone: `A=1 cmd`, `mpirun -x A=1`."""
    exported: tuple[Setting, ...] = ()
    """What the script around it has exported where it starts, each name once."""
    in_single_quotes: bool = False
    """Part of `bash -c '...'`, where variables expand on the node that runs it. So also where double quotes
    escape what differs between nodes (`\\$SLURM_PROCID`).
    """
    is_conditional: bool = False
    """In a branch or a loop."""


class Directive(Record, kw_only=True):
    """A request to a scheduler: `#SBATCH --nodes=2`."""

    name: str
    """Long name without dashes."""
    value: str
    place: Place
    is_read: bool = True
    """False after the first command, where the scheduler has stopped reading."""


class Entry(Record, kw_only=True):
    """A key of a structured file (YAML, JSON), by its path:
    `spec.template.spec.containers[0].resources.limits.memory`.
    """

    path: str
    value: str | int | float | bool | None
    place: Place
    """Of the value."""


class Fault(Record, kw_only=True):
    """Where a file stops being what its kind is written in: no program reads it."""

    reason: str
    place: Place


_LAUNCHERS = frozenset(
    {"torchrun", "accelerate", "accelerate-launch", "deepspeed", "horovodrun", "srun", "composer"}
)
_MPI_OR_HELD = re.compile(r"mpirun|mpiexec|orterun|prterun|\$\{?[A-Za-z_]")
"""Those of MPI, which have endings, and a launcher that a variable holds: `$LAUNCHER train.py`."""


def is_launch(command: Command) -> bool:
    """Whether it starts ranks, or is started by what does."""
    programs = (*command.inside, command.program)
    return any(program in _LAUNCHERS or _MPI_OR_HELD.match(program) is not None for program in programs)


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
    """Rule ids (or `all`) that a comment waives, by the line they hold for; 0 for the whole file."""
    problems: tuple[str, ...] = ()
    """What of the file could not be read, with its line; the file itself may be sound."""
    faults: tuple[Fault, ...] = ()
    """Errors of syntax, which are the file's own."""

    @functools.cached_property
    def given(self) -> tuple[Setting, ...]:
        """All that processes get from the file: all of them, or one command."""
        seen = {
            (item.name, item.place.line, item.written): item for item in self.settings if item.is_exported
        }
        for command in self.commands:
            for item in command.settings:
                if item.is_exported:
                    seen.setdefault((item.name, item.place.line, item.written), item)
        return tuple(seen.values())

    @functools.cached_property
    def own_users(self) -> dict[int, list[Command]]:
        """By the identity of a setting: the commands that have it as their own."""
        found: dict[int, list[Command]] = {}
        for command in self.commands:
            for item in command.settings:
                found.setdefault(id(item), []).append(command)
        return found

    @functools.cached_property
    def values_told(self) -> dict[tuple[str, bool], frozenset[str | None]]:
        """What `reach` has found out before, by name."""
        return {}

    @functools.cached_property
    def shared(self) -> dict[str, Setting]:
        """What all processes get, wherever in the file it stands: in containers, which are started with
        it.
        """
        if self.kind in ("shell", "sbatch"):
            return {}
        return {item.name: item for item in self.settings if item.is_exported and item.reaches != "command"}

    @functools.cached_property
    def exports(self) -> dict[int, dict[str, Setting]]:
        """Each `Command.exported`, of which many commands have the same, by its identity: its settings by
        name.
        """
        several = {id(command.exported): command.exported for command in self.commands}
        return {key: {item.name: item for item in exported} for key, exported in several.items()}

    @functools.cached_property
    def environments(self) -> tuple[dict[str, Setting], ...]:
        """What ranks get, once for each way that the file gives it; all of the file where it shows no
        launch.
        """
        if self.kind not in ("shell", "sbatch") or not self.launches:
            return (
                {item.name: item for item in self.given if item.value is not None or not item.is_literal},
            )
        several = {(id(launch.exported), launch.settings): launch for launch in self.launches}
        return tuple(
            self.exports[id(launch.exported)] | {item.name: item for item in launch.settings}
            for launch in several.values()
        )

    @functools.cached_property
    def launches(self) -> tuple[Command, ...]:
        """The commands of a script that start ranks, as far as they show it; `$LAUNCHER` may be one."""
        return tuple(command for command in self.commands if is_launch(command))

    @functools.cached_property
    def last_given(self) -> dict[str, Setting]:
        """What ranks get: the last of each name that a launch of the script gets, or the last in a file that
        shows no launch.
        """
        if self.kind not in ("shell", "sbatch") or not self.launches:
            return {item.name: item for item in self.given}
        return {item.name: item for launch in self.launches for item in (*launch.exported, *launch.settings)}

    @functools.cached_property
    def lines(self) -> tuple[str, ...]:
        """The text without line breaks; line 1 is at 0."""
        return tuple(lines_of(self.text))
