"""`lsmod`, and /proc/modules, which it prints."""

from __future__ import annotations

import re

from probes.base.patterns import pattern

_HEADER = pattern(r"^Module\s+Size\s+Used by\s*$", re.MULTILINE)
_ROW = pattern(r"([A-Za-z0-9_-]{1,64})\s+(\d{1,12})\s+(-?\d{1,9})(?:\s.*)?")
_PART = pattern(
    r"^([a-z][a-z0-9_]{1,63})[ \t]+\d{3,10}[ \t]+-?\d{1,5}(?:[ \t]+(?:-|[a-z][\w,]*)(?:[ \t]+Live[ \t].*)?)?[ \t]*$",
    re.MULTILINE,
)
"""A row of the list, as `lsmod | grep` leaves it without its header."""
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


def recognise(text: str) -> bool:
    if is_whole(text):
        return True
    return any(name in text for name in _OURS) and any(row[1] in _OURS for row in _PART.finditer(text))


def is_whole(text: str) -> bool:
    """Whether a module that is not in it is not loaded: a part that somebody cut out begins without the
    header.
    """
    return _HEADER.search(text) is not None


def parse_lsmod(text: str) -> tuple[str, ...]:
    """Loaded modules by name, with underscores, in the order of the text; rows after the header where there
    is one.
    """
    header = _HEADER.search(text)
    rows = (
        _ROW.fullmatch(line[:1000].rstrip()) for line in text[header.end() if header else 0 :].splitlines()
    )
    return tuple(dict.fromkeys(row[1].replace("-", "_") for row in rows if row is not None))
