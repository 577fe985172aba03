"""Divide a pasted terminal session at its commands and headings, and list the parts that no parser reads.

A section begins at a prompt with a command (`$ lspci -vv`, `root@node1:~# ibstat`), or at a heading that
names a command between rows of equal characters (`=== dmesg ===`). A heading that begins with a capital
letter (`==== NVSMI LOG ====`) belongs to the output of a tool and begins no section.
"""

from typing import NamedTuple

from probes.base.patterns import pattern
from probes.catalogue.text_kinds import KINDS

_PROMPT = pattern(
    r"(?:\([\w.-]{1,40}\) )?(?:\$|\[?[\w.-]{1,64}@[\w.-]{1,64}[ :][^\s$#%>]{0,120}[ ]?[$#%])[ ]{1,3}"
    r"(?:sudo )?([\w./~-][^\n]{0,199})"
)
_HEADING = pattern(
    r"[ \t]*(?:={3,60}|-{3,60}|#{3,60}|\*{3,60})[ \t]*(?:\$ )?([a-z/][^\n=*]{1,120}?)[ \t]*[=*#-]{0,60}"
)
_MOST_SECTIONS = 200


class Section(NamedTuple):
    """One part of a session."""

    line: int
    """Number of the section's first line, from 1."""
    title: str
    text: str


def unread_sections(text: str) -> tuple[Section, ...]:
    """Return the sections with output that no kind of text recognises."""
    return tuple(
        section
        for section in _sections(text)
        if any(line.strip() for line in section.text.split("\n")[1:])
        and not any(kind.recognise(section.text) for kind in KINDS)
    )


def _sections(text: str) -> list[Section]:
    lines = text.split("\n")
    starts = [(number, title) for number, line in enumerate(lines) if (title := _title(line)) is not None][
        :_MOST_SECTIONS
    ]
    ends = (*(number for number, _ in starts), len(lines))[1:]
    return [
        Section(line=number + 1, title=title, text="\n".join(lines[number:end]))
        for (number, title), end in zip(starts, ends, strict=bool(starts))
    ]


def _title(line: str) -> str | None:
    match = _PROMPT.fullmatch(line) or _HEADING.fullmatch(line) if len(line) <= 400 else None
    return match[1].strip() if match else None
