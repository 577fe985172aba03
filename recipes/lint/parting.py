"""Files with several containers: the variables of one container do not reach the others."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from recipes.lint.document import Document, Place

_CONTAINER = {
    "kubernetes": re.compile(r".*?\b(?:initContainers|containers|ephemeralContainers)\[\d+\](?=\.)"),
    "compose": re.compile(r"services\.[^.\[]+(?=[.\[])"),
}


def parted(document: Document) -> tuple[Document, ...]:
    """Return one document per container; the document itself if it has at most one container.

    Parts outside of containers (a ConfigMap, the values of a chart) are a document of their own.
    """
    lines = _lines_of_containers(document)
    if len(lines) < 2:
        return (document,)
    parts = [
        msgspec.structs.replace(
            document,
            settings=tuple(item for item in document.settings if _is_in(item.place, [each])),
            commands=tuple(item for item in document.commands if _is_in(item.place, [each])),
            entries=tuple(item for item in document.entries if _is_in(item.place, [each])),
        )
        for each in lines
    ]
    # the part outside of containers keeps all entries of the file
    outside = msgspec.structs.replace(
        document,
        settings=tuple(item for item in document.settings if not _is_in(item.place, lines)),
        commands=tuple(item for item in document.commands if not _is_in(item.place, lines)),
    )
    return tuple(part for part in (outside, *parts) if part.settings or part.commands) or (document,)


def _lines_of_containers(document: Document) -> list[range]:
    """Return the lines of each container."""
    expression = _CONTAINER.get(document.kind)
    lines: dict[str, range] = {}
    for entry in document.entries if expression is not None else ():
        match = expression.match(entry.path) if expression is not None else None
        if match is not None:
            known = lines.get(match[0], range(entry.place.line, entry.place.line))
            last = max(known.stop, (entry.place.end_line or entry.place.line) + 1)
            lines[match[0]] = range(min(known.start, entry.place.line), last)
    return list(lines.values())


def _is_in(place: Place, lines: Iterable[range]) -> bool:
    return any(place.line in each for each in lines)
