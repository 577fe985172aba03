"""A source that reads each answer only once, for any number of collectors."""

import threading
from collections.abc import Callable
from typing import TypeVar, cast

from probes.base.record import Unknown
from probes.sources.base import CommandResult, NvmlValue, PassingSource, Source

T = TypeVar("T")


class _Question:
    """A question and its answer; other threads with the same question wait for the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.answers: list[object] = []


class AskedOnce(PassingSource):
    """Shares one answer among all threads that ask the same question: a command, NVML call, file or folder.

    Facts that several collectors need are therefore read only once, at one moment.
    """

    def __init__(self, inner: Source) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self._questions: dict[tuple[object, ...], _Question] = {}

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        return self._once(("run", *argv), lambda: self._inner.run(argv, timeout_s=timeout_s))

    def nvml(self, call: str, *args: int) -> NvmlValue | Unknown:
        return self._once(("nvml", call, *args), lambda: self._inner.nvml(call, *args))

    def read(self, path: str) -> bytes | Unknown:
        return self._once(("read", path), lambda: self._inner.read(path))

    def names(self, directory: str) -> tuple[str, ...] | Unknown:
        return self._once(("names", directory), lambda: self._inner.names(directory))

    def _once(self, key: tuple[object, ...], ask: Callable[[], T]) -> T:
        with self._lock:
            question = self._questions.setdefault(key, _Question())
        with question.lock:
            if not question.answers:
                question.answers.append(ask())
        return cast("T", question.answers[0])
