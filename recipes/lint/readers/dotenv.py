"""`.env` files of docker compose, python-dotenv and DeepSpeed, and the output of `env`."""

from __future__ import annotations

import re

from recipes.lint.document import Document, Setting
from recipes.lint.readers.span import Span
from recipes.lint.readers.waivers import waived_in

_LINE = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.]*)[ \t]*=[ \t]*(.*)$", re.MULTILINE)
_QUOTED = re.compile(r"""(["'])(.*)\1(?:\s+#.*)?$""")
_COMMENT = re.compile(r"(^|\s+)#.*$")
_VARIABLE = re.compile(r"(?<!\\)\$(\{|[A-Za-z_])")


def read(name: str, text: str) -> Document:
    """Return the file as a document. Never raises an error."""
    span = Span.whole(text)
    problems = [
        f"line {number}: no NAME=value"
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip() and not line.lstrip().startswith("#") and not _LINE.match(line)
    ]
    return Document(
        name=name,
        kind="dotenv",
        text=text,
        settings=tuple(_setting(span, match) for match in _LINE.finditer(text)),
        waived=waived_in(text),
        problems=tuple(problems[:20]),
    )


def _setting(span: Span, match: re.Match[str]) -> Setting:
    written = match[2].rstrip()
    quoted = _QUOTED.match(written)
    value = quoted[2] if quoted else _COMMENT.sub("", written)
    is_literal = (quoted is not None and quoted[1] == "'") or not _VARIABLE.search(value)
    end = (
        match.start(2)
        + len(written if quoted is None else written[: quoted.end(2) + 1])
        - (len(written) - len(value)) * (not quoted)
    )
    return Setting(
        name=match[1],
        value=value if is_literal else None,
        written=written,
        is_literal=is_literal,
        place=span.place(match.start(1), end),
        value_place=span.place(match.start(2), end),
    )
