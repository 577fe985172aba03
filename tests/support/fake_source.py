"""A source made of dictionaries."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping

from probes.base.record import Reason, Unknown
from probes.sources.base import CommandResult, Given, NvmlValue

Answer = str | bytes | CommandResult | Unknown


class FakeSource:
    """A source that answers from given values.

    A value that was not given is Unknown with the reason `missing`; a variable that was not given is not set.
    """

    title = "fake"
    is_live = False

    def __init__(
        self,
        *,
        files: Mapping[str, str | bytes | Unknown] | None = None,
        links: Mapping[str, str] | None = None,
        commands: Mapping[str, Answer] | None = None,
        nvml: Mapping[str, NvmlValue | Unknown] | Callable[..., NvmlValue | Unknown] | None = None,
        env: Mapping[str, str] | None = None,
        given: Mapping[str, str | tuple[Given, ...]] | None = None,
        missing: Reason = Reason.TOOL_MISSING,
    ) -> None:
        self.files = dict(files or {})
        self.links = dict(links or {})
        self.commands = dict(commands or {})
        self._nvml = nvml or {}
        self._env = dict(env or {})
        self._given = dict(given or {})
        self._missing = missing
        self.asked: list[str] = []

    def _absent(self, what: str) -> Unknown:
        return Unknown(self._missing, f"{what} is not there")

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        self.asked.append(" ".join(argv))
        answer = self.commands.get(" ".join(argv), self._absent(argv[0]))
        if isinstance(answer, CommandResult):
            return answer
        if isinstance(answer, Unknown):
            return CommandResult(failure=answer)
        return CommandResult(stdout=answer.encode() if isinstance(answer, str) else answer)

    def read(self, path: str) -> bytes | Unknown:
        value = self.files.get(path, self._absent(path))
        return value.encode() if isinstance(value, str) else value

    def names(self, directory: str) -> tuple[str, ...] | Unknown:
        below = f"{directory.rstrip('/')}/"
        names_here = {
            path[len(below) :].split("/", 1)[0]
            for path in (*self.files, *self.links)
            if path.startswith(below)
        }
        return tuple(sorted(names_here)) or self._absent(directory)

    def link(self, path: str) -> str | Unknown:
        if path in self.links:
            return self.links[path]
        normal = posixpath.normpath(path)
        there = normal in self.files or not isinstance(self.names(normal), Unknown)
        return normal if there else self._absent(path)

    def nvml(self, call: str, *args: int) -> NvmlValue | Unknown:
        if callable(self._nvml):
            return self._nvml(call, *args)
        return self._nvml.get(f"{call}{args}" if args else call, self._absent(call))

    def expect(self, device: int, like: int) -> None:
        """Do nothing: the answers are already given."""

    def env(self, name: str) -> str | Unknown | None:
        if self._missing is Reason.NOT_RECORDED and name not in self._env:
            return self._absent(name)
        return self._env.get(name)

    def given(self, kind: str) -> tuple[Given, ...]:
        """Return the texts of a kind; a single text stands for one file with the name of the kind."""
        given = self._given.get(kind, ())
        return (Given(name=f"{kind}.txt", text=given),) if isinstance(given, str) else given

    def close(self) -> None:
        """Do nothing: nothing was started."""
