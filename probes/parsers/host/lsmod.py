"""Parse `lsmod`, and /proc/modules, which it prints."""

from __future__ import annotations

import re

from probes.base.patterns import pattern

_HEADER = pattern(r"^Module\s+Size\s+Used by\s*$", re.MULTILINE)
_ROW = pattern(r"([A-Za-z0-9_-]{1,64})\s+(\d{1,12})\s+(-?\d{1,9})(?:\s.*)?")
_PART = pattern(
    r"^([a-z][a-z0-9_]{1,63})[ \t]+\d{3,10}[ \t]+-?\d{1,5}"
    r"(?:[ \t]+(?:-|[a-z][\w,]*)(?:[ \t]+Live[ \t].*)?)?[ \t]*$",
    re.MULTILINE,
)
"""A row of the list without its header, as `lsmod | grep` prints it."""
_OURS = frozenset(
    {
        "nvidia",
        "nvidia_uvm",
        "nvidia_peermem",
        "nv_peer_mem",
        "gdrdrv",
        "amdgpu",
        "efa",
        "ib_core",
        "mlx4_core",
        "mlx5_core",
    }
)
"""Modules whose rows identify a part of the list."""


def recognise(text: str) -> bool:
    if is_whole(text):
        return True
    return any(name in text for name in _OURS) and any(row[1] in _OURS for row in _PART.finditer(text))


def is_whole(text: str) -> bool:
    """Return whether the list is complete, so that a module that is missing from it is not loaded.

    A part of the list has no header.
    """
    return _HEADER.search(text) is not None


def parse_lsmod(text: str) -> tuple[str, ...]:
    """Return the loaded modules by name, with underscores, in the order of the text.

    Rows before a header do not count.
    """
    header = _HEADER.search(text)
    rows = (
        _ROW.fullmatch(line[:1000].rstrip()) for line in text[header.end() if header else 0 :].splitlines()
    )
    return tuple(dict.fromkeys(row[1].replace("-", "_") for row in rows if row is not None))
