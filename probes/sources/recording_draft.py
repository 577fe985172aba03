"""Collect answers for a recording."""

from __future__ import annotations

import posixpath
from typing import Any

from probes.base.record import Unknown
from probes.sources.base import CommandResult, Given, NvmlValue
from probes.sources.stored import CommandAnswer, Content, NvmlAnswer, Recording, to_content


class Answers:
    """Collects answers by question. A later answer to the same question replaces the earlier answer."""

    def __init__(self) -> None:
        self.commands: dict[tuple[str, ...], CommandAnswer] = {}
        self.files: dict[str, Content] = {}
        self.directories: dict[str, tuple[str, ...] | Unknown] = {}
        self.links: dict[str, str | Unknown] = {}
        self.calls: dict[tuple[str, tuple[int, ...]], NvmlAnswer] = {}
        self.env: dict[str, str | Unknown | None] = {}
        self.given: dict[str, tuple[Given, ...]] = {}

    def exact(self) -> tuple[dict[Any, Any], ...]:
        """Return the tables in which a question has one answer; a directory can be listed in parts."""
        return self.commands, self.files, self.links, self.calls, self.env

    def command(self, argv: tuple[str, ...], result: CommandResult) -> None:
        self.commands[argv] = CommandAnswer(
            argv=argv,
            exit_code=result.exit_code,
            stdout=to_content(result.stdout),
            stderr=to_content(result.stderr),
            failure=result.failure,
        )

    def file(self, path: str, data: bytes | Unknown) -> None:
        self.files[path] = to_content(data)

    def text(self, path: str, text: object) -> None:
        """Add a small file of one line, like those of sysfs."""
        self.files[path] = f"{text}\n"

    def nvml(self, call: str, *args: int, value: NvmlValue | Unknown) -> None:
        failure = value if isinstance(value, Unknown) else None
        self.calls[call, args] = NvmlAnswer(
            call=call, args=args, value=None if failure else value, failure=failure
        )

    def give(self, kind: str, given: tuple[Given, ...]) -> None:
        """Add pasted texts of a kind, each once."""
        self.given[kind] = tuple(dict.fromkeys((*self.given.get(kind, ()), *given)))

    def list_directories(self) -> None:
        """List every directory that contains a file or link, for sources that hold whole trees."""
        children: dict[str, set[str]] = {}
        for path in (*self.files, *self.links, *self.directories):
            child = path
            while child not in ("/", ""):
                parent, name = posixpath.split(child)
                known = children.setdefault(parent, set())
                if name in known:
                    break
                known.add(name)
                child = parent
        self.directories.update((directory, tuple(sorted(names))) for directory, names in children.items())

    def recording(self, title: str, created: str = "") -> Recording:
        return Recording(
            title=title,
            created=created,
            commands=tuple(self.commands.values()),
            files=dict(self.files),
            directories=dict(self.directories),
            links=dict(self.links),
            nvml=tuple(self.calls.values()),
            env=dict(self.env),
            given={kind: given for kind, given in self.given.items() if given},
        )
