"""Replace, wherever they occur, the hosts whose names are known before any text is read."""

import re
from collections.abc import Iterator, Mapping

from probes.redaction.placeholders import Span

_KERNEL = re.compile(r"(?:node|cpu|eth|ib|nvidia|gpu|nvme|sd[a-z]|rank|mlx\d_)(?:0|[1-9]\d?)", re.IGNORECASE)
_RUN = re.compile(r"[0-9A-Za-z]+")


def is_kernel_form(name: str) -> bool:
    """Return whether the kernel's tools name parts of a machine like this: `gpu1`, but not `gpu01`."""
    return _KERNEL.fullmatch(name) is not None


class HostNames:
    """Known hosts with their placeholders.

    Every run of letters and digits in a text is looked up among the first runs of the names, so that the
    time does not depend on the number of names. A host name such as `gpu1` is replaced only in this spelling,
    because `GPU1` is a GPU.
    """

    def __init__(self, hosts: Mapping[str, str], *, spares_parts: bool) -> None:
        """Store the placeholders by name.

        With `spares_parts`, names that are also parts of machines (`node0`) stay unless a text labels them.
        """
        self._hosts: dict[str, str] = {}
        self._exact: set[str] = set()
        self._shapes: dict[str, set[tuple[int, int]]] = {}
        """Place of the first run and length of the names, by this run."""
        for name, placeholder in hosts.items():
            for spelling in (name, name.partition(".")[0]):
                self._hosts.setdefault(spelling.lower(), placeholder)
                if is_kernel_form(spelling):
                    self._exact.add(spelling)
                    if spares_parts:
                        continue
                if first := _RUN.search(spelling.lower()):
                    self._shapes.setdefault(first[0], set()).add((first.start(), len(spelling)))

    def placeholder(self, name: str) -> str | None:
        """Return the placeholder of a host in lower case, with or without its domain; None if unknown."""
        return self._hosts.get(name) or self._hosts.get(name.partition(".")[0])

    def replaces(self, name: str) -> bool:
        """Return whether `spans` yields every spelling of this name, which is given in lower case."""
        return name in self._hosts and not is_kernel_form(name)

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the known hosts in a text."""
        for run in _RUN.finditer(text) if self._shapes else ():
            for before, length in self._shapes.get(run[0].lower(), ()):
                start = run.start() - before
                end = start + length
                name = text[max(start, 0) : end]
                if start < 0 or name.lower() not in self._hosts or _is_inside_a_word(text, start, end):
                    continue
                if name in self._exact or not is_kernel_form(name):
                    yield Span(start, end, "hostname", self._hosts[name.lower()])


def _is_inside_a_word(text: str, start: int, end: int) -> bool:
    return _RUN.fullmatch(text[start - 1 : start]) is not None or _RUN.match(text, end) is not None


NO_HOSTS = HostNames({}, spares_parts=True)
