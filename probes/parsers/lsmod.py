"""`lsmod`, and /proc/modules, which it prints."""

from __future__ import annotations

import re

from probes.patterns import pattern

_HEADER = pattern(r"^Module\s+Size\s+Used by\s*$", re.MULTILINE)
_ROW = pattern(r"([A-Za-z0-9_-]{1,64})\s+(\d{1,12})\s+(-?\d{1,9})(?:\s.*)?")


def recognise(text: str) -> bool:
    return _HEADER.search(text) is not None


def parse_lsmod(text: str) -> tuple[str, ...]:
    """Loaded modules by name, with underscores, in the order of the text; rows after the header where there is one."""
    header = _HEADER.search(text)
    rows = (_ROW.fullmatch(line[:1000].rstrip()) for line in text[header.end() if header else 0 :].splitlines())
    return tuple(dict.fromkeys(row[1].replace("-", "_") for row in rows if row is not None))
