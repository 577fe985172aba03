"""A source that asks slow things once, however many collectors want them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar, cast

from probes.record import Unknown
from probes.sources.base import CommandResult, NvmlValue, Source

T = TypeVar("T")


class AskedOnce:
    """Stands before `source` for one gathering: equal commands and NVML calls of several threads share one answer.

    Files are cheap and go straight through.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._answers: dict[tuple[object, ...], Future[object]] = {}

    @property
    def title(self) -> str:
        return self._source.title

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        return self._once(("run", *argv), lambda: self._source.run(argv, timeout_s=timeout_s))

    def nvml(self, call: str, *args: int) -> NvmlValue | Unknown:
        return self._once(("nvml", call, *args), lambda: self._source.nvml(call, *args))

    def read(self, path: str) -> bytes | Unknown:
        return self._source.read(path)

    def names(self, directory: str) -> tuple[str, ...] | Unknown:
        return self._source.names(directory)

    def link(self, path: str) -> str | Unknown:
        return self._source.link(path)

    def env(self, name: str) -> str | Unknown | None:
        return self._source.env(name)

    def _once(self, key: tuple[object, ...], ask: Callable[[], T]) -> T:
        with self._lock:
            answer = self._answers.get(key)
            first = answer is None
            if answer is None:
                answer = self._answers[key] = Future()
        if first:
            try:
                answer.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - raised again for everyone who asked
                answer.set_exception(error)
        return cast("T", answer.result())
