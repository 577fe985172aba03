"""Lists of hosts for mpirun and deepspeed: one name per line, followed by `slots=8` or `:8`.

Source: Open MPI's manual page of mpirun, Hydra's documentation (`name:8`), deepspeedai/DeepSpeed,
launcher/runner.py.
"""

from __future__ import annotations

import re

from recipes.lint.document import Document, Entry, Place, lines_of
from recipes.lint.readers.waivers import waived_in

_HOST = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)(?::(?P<count>\d+))?"
    r"(?:\s+(?:slots\s*=\s*(?P<slots>\d+)|max[_-]slots=\d+)\b.*)?\s*"
)


def is_hostfile(text: str) -> bool:
    """Return whether every line that is no comment names a host."""
    lines = [line for line in lines_of(text) if line.strip() and not line.lstrip().startswith("#")]
    return bool(lines) and all(_HOST.fullmatch(line.strip()) for line in lines)


def read(name: str, text: str) -> Document:
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
            problems.append(f"line {number}: no host")
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
        waived=waived_in(text),
        problems=tuple(problems[:20]),
    )
