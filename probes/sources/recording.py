"""Collect answers for a recording, and record the answers of another source."""

import datetime
import posixpath
import threading
from typing import Any

from probes.base.record import Unknown, printable
from probes.sources.base import CommandResult, Given, NvmlValue, PassingSource, Source
from probes.sources.stored import CommandAnswer, Content, NvmlAnswer, Recording, to_content


class Answers:
    """Collects answers by question. A later answer replaces the earlier one, but pasted texts are added."""

    def __init__(self) -> None:
        self.commands: dict[tuple[str, ...], CommandAnswer] = {}
        self.files: dict[str, Content] = {}
        self.directories: dict[str, tuple[str, ...] | Unknown] = {}
        self.links: dict[str, str | Unknown] = {}
        self.calls: dict[tuple[str, tuple[int, ...]], NvmlAnswer] = {}
        self.env: dict[str, str | Unknown | None] = {}
        self.given: dict[str, tuple[Given, ...]] = {}

    def exact(self) -> tuple[dict[Any, Any], ...]:
        """Return the tables in which each question has only one answer.

        Directories can be listed in parts.
        """
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
        """Add a small file of one line, like the files of sysfs."""
        self.files[path] = f"{text}\n"

    def nvml(self, call: str, *args: int, value: NvmlValue | Unknown) -> None:
        failure = value if isinstance(value, Unknown) else None
        self.calls[call, args] = NvmlAnswer(
            call=call, args=args, value=None if failure else value, failure=failure
        )

    def give(self, kind: str, given: tuple[Given, ...]) -> None:
        """Add pasted texts of a kind, without repetitions."""
        self.given[kind] = tuple(dict.fromkeys((*self.given.get(kind, ()), *given)))

    def list_directories(self) -> None:
        """List every directory that contains a file or link, for sources that contain whole trees."""
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


class RecordingSource(PassingSource):
    """Passes every question on to `inner` and records its answers. Threads may share a source.

    If a question is asked twice, the last answer is kept. Paths that are not UTF-8 are kept in printable
    form.
    """

    def __init__(self, inner: Source) -> None:
        super().__init__(inner)
        self._answers = Answers()
        self._lock = threading.Lock()

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        result = self._inner.run(argv, timeout_s=timeout_s)
        with self._lock:
            self._answers.command(tuple(map(printable, argv)), result)
        return result

    def read(self, path: str) -> bytes | Unknown:
        data = self._inner.read(path)
        with self._lock:
            self._answers.file(printable(path), data)
        return data

    def names(self, directory: str) -> tuple[str, ...] | Unknown:
        names = self._inner.names(directory)
        with self._lock:
            self._answers.directories[printable(directory)] = names
        return names

    def link(self, path: str) -> str | Unknown:
        target = self._inner.link(path)
        with self._lock:
            self._answers.links[printable(path)] = target
        return target

    def nvml(self, call: str, *args: int) -> NvmlValue | Unknown:
        value = self._inner.nvml(call, *args)
        with self._lock:
            self._answers.nvml(call, *args, value=value)
        return value

    def env(self, name: str) -> str | Unknown | None:
        value = self._inner.env(name)
        with self._lock:
            self._answers.env[name] = value
        return value

    def given(self, kind: str) -> tuple[Given, ...]:
        given = self._inner.given(kind)
        with self._lock:
            self._answers.give(kind, given)
        return given

    def recording(self, title: str) -> Recording:
        """Return all answers so far."""
        created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        with self._lock:
            return self._answers.recording(title, created)
