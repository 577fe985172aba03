"""Files with one entry on each line: variables (.env, environments, nccl.conf) and lists of hosts."""

import re

from recipes.lint.document import Document, Entry, Place, Setting, lines_of
from recipes.lint.readers.span import Span

_LINE = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.]*)[ \t]*=[ \t]*(.*)$", re.MULTILINE)
_QUOTED = re.compile(r"""(["'])(.*)\1(?:\s+#.*)?$""")
_COMMENT = re.compile(r"(^|\s+)#.*$")
_VARIABLE = re.compile(r"(?<!\\)\$(\{|[A-Za-z_])")


def dotenv(name: str, text: str) -> Document:
    """Return the file as a document. Never raises an error."""
    span = Span.whole(text)
    problems = [
        f"line {number}: not NAME=value"
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip() and not line.lstrip().startswith("#") and not _LINE.match(line)
    ]
    return Document(
        name=name,
        kind="dotenv",
        text=text,
        settings=tuple(_setting(span, match) for match in _LINE.finditer(text)),
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


_NAME_SIGN = re.compile(r"[A-Za-z_]\w*=")


def environment(name: str, text: str) -> Document:
    """Return the environment as a document. Never raises an error.

    Values are taken literally, because no shell expands them any more.
    """
    span = Span.whole(text)
    settings = []
    start = 0
    for line in text.split("\n"):
        match = _NAME_SIGN.match(line)
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


def nccl_conf(name: str, text: str) -> Document:
    """Return the file as a document. Never raises an error.

    Lines without `=`, which NCCL ignores, are problems.
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
        problems=tuple(problems),
    )


def settings_in(span: Span) -> tuple[Setting, ...]:
    """Return the variables that NCCL takes from the text of an `nccl.conf`."""
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


_HOST = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)(?::(?P<count>\d+))?"
    r"(?:\s+(?:slots\s*=\s*(?P<slots>\d+)|max[_-]slots=\d+)\b.*)?\s*"
)


def is_hostfile(text: str) -> bool:
    """Return whether every line is a host or a comment."""
    lines = [line for line in lines_of(text) if line.strip() and not line.lstrip().startswith("#")]
    return bool(lines) and all(_HOST.fullmatch(line.strip()) for line in lines)


def hostfile(name: str, text: str) -> Document:
    """Return the list as a document. Never raises an error.

    Entries are `hosts[0].name`, and `hosts[0].slots` if the line states slots.
    """
    entries: list[Entry] = []
    problems: list[str] = []
    count = 0
    for number, line in enumerate(lines_of(text), start=1):
        plain = line.partition("#")[0].strip()
        if not plain:
            continue
        match = _HOST.fullmatch(plain)
        if match is None:
            problems.append(f"line {number}: not a host")
            continue
        place = Place(line=number)
        entries.append(Entry(path=f"hosts[{count}].name", value=match["name"], place=place))
        slots = match["slots"] or match["count"]
        if slots is not None and len(slots) < 6:
            entries.append(Entry(path=f"hosts[{count}].slots", value=int(slots), place=place))
        count += 1
    return Document(
        name=name,
        kind="hostfile",
        text=text,
        entries=tuple(entries),
        problems=tuple(problems[:20]),
    )
