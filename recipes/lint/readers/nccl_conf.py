"""`/etc/nccl.conf` and `~/.nccl.conf`, as NCCL itself reads them.

Source: NVIDIA/nccl, src/misc/param.cc, setEnvFile: a line that begins with `#` is skipped; the name is the
text before the first `=`, the value all after it. There are no quotes and no comments after a value, and
blanks are kept.
"""

from __future__ import annotations

from recipes.lint.document import Document, Setting
from recipes.lint.readers.span import Span
from recipes.lint.readers.waivers import waived_in


def read(name: str, text: str) -> Document:
    """Return the file as a document. Never raises an error.

    Lines without `=` are problems: NCCL ignores them.
    """
    span = Span.whole(text)
    problems = [
        f"line {number}: not NAME=value, so NCCL ignores the line"
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip() and not line.startswith("#") and "=" not in line
    ]
    return Document(
        name=name,
        kind="nccl-conf",
        text=text,
        settings=settings_in(span),
        waived=waived_in(text),
        problems=tuple(problems),
    )


def settings_in(span: Span) -> tuple[Setting, ...]:
    """Return the variables that NCCL takes from such a text."""
    settings = []
    start = 0
    for line in span.text.split("\n"):
        name, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            settings.append(
                Setting(
                    name=name,
                    value=value,
                    written=value,
                    place=span.place(start, start + len(line)),
                    value_place=span.place(start + len(name) + 1, start + len(line)),
                    reaches="node",
                )
            )
        start += len(line) + 1
    return tuple(settings)
