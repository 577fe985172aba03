"""A source that answers each question once, however many collectors ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar, cast

from probes.base.record import Unknown
from probes.sources.base import CommandResult, Given, NvmlValue, Source

T = TypeVar("T")


class _Question:
    """A question and its answer; other threads that ask meanwhile wait for the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.answers: list[object] = []


class AskedOnce:
    """Shares one answer among all threads that ask `source` the same command, NVML call or file.

    All facts of one gathering are therefore of one moment, and two collectors that walk all processes do it
    once.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._questions: dict[tuple[object, ...], _Question] = {}

    @property
    def title(self) -> str:
        return self._source.title

    @property
    def is_live(self) -> bool:
        return self._source.is_live

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        return self._once(("run", *argv), lambda: self._source.run(argv, timeout_s=timeout_s))

    def nvml(self, call: str, *args: int) -> NvmlValue | Unknown:
        return self._once(("nvml", call, *args), lambda: self._source.nvml(call, *args))

    def expect(self, device: int, like: int) -> None:
        self._source.expect(device, like)

    def read(self, path: str) -> bytes | Unknown:
        return self._once(("read", path), lambda: self._source.read(path))

    def names(self, directory: str) -> tuple[str, ...] | Unknown:
        return self._once(("names", directory), lambda: self._source.names(directory))

    def link(self, path: str) -> str | Unknown:
        return self._source.link(path)

    def env(self, name: str) -> str | Unknown | None:
        return self._source.env(name)

    def given(self, kind: str) -> tuple[Given, ...]:
        return self._source.given(kind)

    def close(self) -> None:
        self._source.close()

    def _once(self, key: tuple[object, ...], ask: Callable[[], T]) -> T:
        with self._lock:
            question = self._questions.setdefault(key, _Question())
        with question.lock:
            if not question.answers:
                question.answers.append(ask())
        return cast("T", question.answers[0])
