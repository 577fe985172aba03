"""`nvidia-smi topo -p2p`: what the driver says of one GPU's access to another's memory.

The output does not say which of its letters was asked for (`r`, `w`, `n`, `a`, `p`) unless the command line
was pasted along.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from probes.base.evidence import line_ref
from probes.facts import Gpu, PeerAccess, Unread

_GPU = re.compile(r"GPU\d{1,3}")
_CELL = re.compile(r"X|OK|CNS|GNS|TNS|NS|DR|U")
_COMMAND = re.compile(r"nvidia-smi\s+topo\s+(?:-p2p|--p2pstatus)[ =]+([rwnap])(?![a-z])")
_CAPABILITIES = {"r": "read", "w": "write", "n": "nvlink", "a": "atomics", "p": "pcie"}
_UNSAID = "access"
"""The capability of a table without its command line."""
_MOST_GPUS = 256


def recognise(text: str) -> bool:
    """A header of GPUs alone, and below it a row of status words."""
    wanted: tuple[str, ...] | None = None
    for line in text.split("\n"):
        header = _header(line)
        if header is not None:
            wanted = header
        elif wanted and _row(line, wanted) is not None:
            return True
    return False


def parse_peer_access(text: str) -> tuple[PeerAccess, ...]:
    """Every ordered pair of GPUs that the tables in `text` tell of. `X`, the GPU itself, is left out."""
    found: list[PeerAccess] = []
    for number, name, header, cells, capability in _rows(text):
        for other, cell in zip(header, cells, strict=False):
            if other != name and cell != "X":
                found.append(
                    PeerAccess(
                        a=name, b=other, capability=capability, status=cell, evidence=(line_ref(number),)
                    )
                )
    return tuple(found)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs of the tables: that they are there."""
    found: dict[int, Gpu] = {}
    for number, name, header, _, _ in _rows(text):
        for other in (name, *header):
            found.setdefault(int(other[3:]), Gpu(index=int(other[3:]), evidence=(line_ref(number),)))
    return tuple(found[index] for index in sorted(found))


def parse_unread(text: str) -> tuple[Unread, ...]:
    """Rows that end before their header does."""
    return tuple(
        Unread(source="", line=number, text=name, why=f"{len(cells)} of {len(header)} cells")
        for number, name, header, cells, _ in _rows(text)
        if len(cells) < len(header)
    )


def _rows(text: str) -> Iterator[tuple[int, str, tuple[str, ...], list[str], str]]:
    """Line number, GPU, header, cells and capability of each row."""
    header: tuple[str, ...] = ()
    capability = _UNSAID
    for number, line in enumerate(text.split("\n"), 1):
        command = _COMMAND.search(line)
        if command is not None:
            capability, header = _CAPABILITIES[command[1]], ()
        new = _header(line)
        if new is not None:
            header = new
        elif header and (row := _row(line, header)) is not None:
            yield number, row[0], header, row[1], capability


def _header(line: str) -> tuple[str, ...] | None:
    words = line.split()
    if 2 <= len(words) <= _MOST_GPUS and all(map(_GPU.fullmatch, words)) and len(set(words)) == len(words):
        return tuple(words)
    return None


def _row(line: str, header: tuple[str, ...]) -> tuple[str, list[str]] | None:
    """The GPU and its cells. The last cell of a cut row may be half a word (`C` of `CNS`): what is no word
    ends the row.
    """
    words = line.split()
    if len(words) < 2 or words[0] not in header or len(words) > len(header) + 1:
        return None
    cells: list[str] = []
    for word in words[1:]:
        if _CELL.fullmatch(word) is None:
            break
        cells.append(word)
    place = header.index(words[0])
    if not any(cell != "X" for cell in cells) or (place < len(cells) and cells[place] != "X"):
        return None
    return words[0], cells
