"""Containers that files start with `docker run` and similar commands or as services of compose."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator

from recipes.lint.document import Command, Document, Entry, Place
from recipes.lint.views import TRAINERS, commands, nodes_of, number, option, resolved, starts, words


class Container:
    """The options of one container and the commands that it starts."""

    def __init__(
        self,
        document: Document,
        place: Place,
        line: str,
        inner: tuple[Command, ...],
        *,
        command: Command | None = None,
        entries: tuple[Entry, ...] = (),
    ) -> None:
        self.document = document
        self.place = place
        self.line = line
        """All options in a line: the words of a command, or `key=value` of a service."""
        self.inner = inner
        """Commands that run in the container."""
        self.command = command
        """The `docker run` command; None for a service."""
        self.entries = entries
        """Entries of the service with their whole paths."""

    def has(self, expression: str) -> bool:
        return re.search(expression, self.line) is not None

    @property
    def uses_gpus(self) -> bool:
        """Whether the container requests NVIDIA's GPUs."""
        return self.has(
            r"--gpus\b|--runtime[= ]nvidia|--device[= ]nvidia\.com|devices\[\d+\]\.(?:capabilities|driver)|"
            r"runtime=nvidia|\bgpus="
        )

    @property
    def trains(self) -> bool:
        return any(starts(command) in (*TRAINERS, "mpirun", "horovodrun") for command in self.inner)

    @property
    def is_distributed(self) -> bool:
        """Whether its ranks communicate with those of other machines."""
        return self.nodes > 1

    @property
    def nodes(self) -> int:
        counts = [
            number(resolved(self.document, option(command, "nnodes", "num-machines")))
            for command in self.inner
        ]
        return max([count for count in counts if count is not None] or [nodes_of(self.document) or 1])

    @property
    def ranks(self) -> int | None:
        counts = [
            number(resolved(self.document, option(command, "nproc-per-node", "num-processes", "num-gpus")))
            for command in self.inner
        ]
        return next((count for count in counts if count is not None), None)


def _is_inside(outer: tuple[str, ...], command: Command) -> bool:
    return command.inside[: len(outer)] == outer


def containers_of(document: Document) -> Iterator[Container]:
    """Yield the containers that a file starts."""
    for command in commands(document, "docker", "podman", "nerdctl"):
        line = words(command)
        if re.match(r"(?:container )?(?:run|create)\b", line):
            # the commands right behind `docker run` that it encloses
            below = (*command.inside, command.program)
            after = document.commands[document.commands.index(command) + 1 :]
            inner = tuple(itertools.takewhile(functools.partial(_is_inside, below), after))
            yield Container(document, command.place, line, inner, command=command)
    if document.kind == "compose":
        names = dict.fromkeys(
            match[1] for item in document.entries if (match := re.match(r"services\.([^.\[]+)", item.path))
        )
        for name in names:
            mine = [item for item in document.entries if item.path.startswith(f"services.{name}.")]
            if not mine:  # a service that is no mapping
                continue
            first, final = mine[0].place.line, max(item.place.end_line or item.place.line for item in mine)
            inner = tuple(command for command in document.commands if first <= command.place.line <= final)
            line = " ".join(f"{item.path.removeprefix(f'services.{name}.')}={item.value}" for item in mine)
            yield Container(document, mine[0].place, line, inner, entries=tuple(mine))
