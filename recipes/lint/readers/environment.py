"""The environment of a process as lines of `NAME=value`, each value on one line."""

from __future__ import annotations

import re

from recipes.lint.document import Document, Setting
from recipes.lint.readers.span import Span

_NAME = re.compile(r"[A-Za-z_]\w*=")


def read(name: str, text: str) -> Document:
    """Return the environment as a document. Never raises an error.

    Values are taken literally, as nothing expands them any more.
    """
    span = Span.whole(text)
    settings = []
    start = 0
    for line in text.split("\n"):
        match = _NAME.match(line)
        if match:
            end = start + len(line)
            settings.append(
                Setting(
                    name=match[0][:-1],
                    value=line[match.end() :],
                    written=line[match.end() :],
                    place=span.place(start, end),
                    value_place=span.place(start + match.end(), end),
                    reaches="node",
                )
            )
        start += len(line) + 1
    return Document(name=name, kind="environment", text=text, settings=tuple(settings))
