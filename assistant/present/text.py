"""Words, glyphs and styles that every page shares.

Colour is never the only signal: a status is a glyph, a word and a colour. Whatever comes from a machine or a
file goes through `clean`, since a recording may hold escape sequences.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from probes.base.record import Reason, T, Unknown
from probes.judging.findings import Status

DIM = "dim"
GOOD = "green"
BAD = "bold red"
CAUTION = "yellow"
ODD = "magenta"
STRONG = "bold"
CODE = "cyan"

READING = Text("reading …", style=DIM)
_NAME_WIDTH = 10
_FEWEST_SILENT = 2
"""Rows without a value that share one."""
_LONGEST = 2000
"""Characters of one value; more is not for the eye."""


class StatusWords(NamedTuple):
    """How a status is written."""

    glyph: str
    word: str
    style: str


STATUS_WORDS = {
    Status.FAIL: StatusWords("✗", "FAIL", BAD),
    Status.UNKNOWN: StatusWords("?", "unknown", ODD),
    Status.WARN: StatusWords("!", "WARN", CAUTION),
    Status.PASS: StatusWords("✓", "ok", GOOD),
    Status.SKIP: StatusWords("-", "skip", DIM),
}


PROBLEMS_FIRST = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.PASS, Status.SKIP)
"""The order in which a person reads; a verdict ranks what is unknown above a warning."""


class Panel(NamedTuple):
    """A titled piece of a page."""

    title: str
    body: RenderableType


def clean(value: object) -> str:
    """`value` as one line without control characters, cut where it is absurdly long."""
    text = " ".join(str(value)[: _LONGEST + 1].split())
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "…"
    return "".join(character if _is_printable(character) else "?" for character in text)


def clean_block(value: str) -> str:
    """The same for text of several lines, which keep their indentation."""
    lines = value.expandtabs(4).splitlines()
    return "\n".join("".join(c if _is_printable(c) else "?" for c in line) for line in lines)


def _is_printable(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def plain(value: object, style: str = "") -> Text:
    """`value` as clean text; words of the machine are never taken for markup."""
    return Text(clean(value), style=style)


def status_text(status: Status, width: int = 0) -> Text:
    """Glyph and word in the status's colour."""
    words = STATUS_WORDS[status]
    return Text(f"{words.glyph} {words.word}".ljust(width), style=words.style)


def shown(value: T | Unknown, how: Callable[[T], str] = str) -> Text:
    """A known value as `how` writes it; an unknown one as a question mark with its reason."""
    if isinstance(value, Unknown):
        return plain(f"? {value.reason.value.replace('_', ' ')}", DIM)
    return plain(how(value))


def short(value: T | Unknown | None, how: Callable[[T], str] = str) -> str:
    """The same for narrow columns: `?` where it is unknown, `-` where there is none."""
    if isinstance(value, Unknown):
        return "?"
    return "-" if value is None else clean(how(value))


def joined(*lines: Text) -> Text:
    return Text("\n").join(lines)


def pairs(rows: list[tuple[str, Text]], width: int = 0) -> Table:
    """Names on the left, values on the right."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=DIM, no_wrap=True, min_width=width)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    return table


def frameless(*columns: str, style: str = DIM) -> Table:
    """A table without frames: headings, then rows that wrap within their columns."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=style, expand=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def settled(rows: list[tuple[str, Text]], complete: bool) -> Table:
    """Rows as a table; what is unknown while the machine is being read says so, and what no source tells
    shares a row then.
    """
    silence = Reason.NOT_RECORDED.value.replace("_", " ")
    if not complete:
        return pairs(
            [(name, READING if text.plain.startswith(f"? {silence}") else text) for name, text in rows],
            _NAME_WIDTH,
        )
    silent = [name for name, text in rows if text.plain == f"? {silence}"]
    if len(silent) < _FEWEST_SILENT:
        return pairs(rows, _NAME_WIDTH)
    told = [row for row in rows if row[0] not in silent]
    return pairs([*told, ("unknown", Text(f"? {silence}: {', '.join(silent)}", style=DIM))], _NAME_WIDTH)


def folded(indices: Sequence[int]) -> str:
    """`0-3,6` for 0, 1, 2, 3, 6."""
    parts: list[list[int]] = []
    for index in sorted(indices):
        if parts and index == parts[-1][-1] + 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def trouble(message: str, hint: str) -> Text:
    """What went wrong, and what to do."""
    first = Text(f"✗ {clean(message)}", style=BAD)
    return joined(first, Text(f"  {clean(hint)}")) if hint else first


def key_table(groups: Sequence[tuple[str, Sequence[tuple[str, str, str]]]]) -> Table:
    """Keys with title and help under the headings of their groups."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=STRONG, no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style=DIM)
    for heading, rows in groups:
        if table.row_count:
            table.add_row()
        table.add_row("", Text(heading, style=STRONG), "")
        for row in rows:
            table.add_row(*row)
    return table


def bug_words(error: str, saved_in: str) -> Text:
    """What a person can do about a bug; `saved_in` is empty where the traceback could not be saved."""
    where = (
        f"The traceback was saved in {clean(saved_in)}" if saved_in else "The traceback could not be saved"
    )
    return joined(
        Text(clean(error), style=BAD),
        Text(f"{where}."),
        Text(
            "Please report it with that file and, if you can, a recording: rigtune probe --record machine.json"
        ),
        Text("Everything that was learned so far is kept; r reads the machine again.", style=DIM),
    )
