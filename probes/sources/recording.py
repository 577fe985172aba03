"""A source that records the answers of another source."""

from __future__ import annotations

import datetime
import threading

from probes.base.record import Unknown, printable
from probes.sources.base import CommandResult, Given, NvmlValue, Source
from probes.sources.recording_draft import Answers
from probes.sources.stored import Recording


class RecordingSource:
    """Passes every question on to `inner` and records its answers. Threads may share a source.

    If a question is asked twice, the last answer is kept. Paths that are not UTF-8 are kept in printable
    form.
    """

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self._answers = Answers()
        self._lock = threading.Lock()

    @property
    def title(self) -> str:
        return self._inner.title

    @property
    def is_live(self) -> bool:
        return self._inner.is_live

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

    def expect(self, device: int, like: int) -> None:
        self._inner.expect(device, like)

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

    def close(self) -> None:
        self._inner.close()

    def recording(self, title: str) -> Recording:
        """Return everything that was answered so far."""
        created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        with self._lock:
            return self._answers.recording(title, created)
