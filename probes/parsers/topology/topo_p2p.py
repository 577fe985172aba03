"""Parse `nvidia-smi topo -p2p`: the access of each GPU to another GPU's memory, according to the driver.

The output does not contain the letter that was queried (`r`, `w`, `n`, `a`, `p`), unless the command line was
pasted with it.
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
_UNNAMED_CAPABILITY = "access"
"""Capability of a table without its command line."""
_MOST_GPUS = 256


def recognise(text: str) -> bool:
    """Return whether the text contains a header of GPUs alone, and below it a row of status words."""
    header: tuple[str, ...] | None = None
    for line in text.split("\n"):
        new_header = _header(line)
        if new_header is not None:
            header = new_header
        elif header and _row(line, header) is not None:
            return True
    return False


def parse_peer_access(text: str) -> tuple[PeerAccess, ...]:
    """Return every ordered pair of GPUs in the tables of `text`, without `X`, the GPU itself."""
    pairs: list[PeerAccess] = []
    for number, name, header, cells, capability in _rows(text):
        for other, cell in zip(header, cells, strict=False):
            if other != name and cell != "X":
                pairs.append(
                    PeerAccess(
                        a=name, b=other, capability=capability, status=cell, evidence=(line_ref(number),)
                    )
                )
    return tuple(pairs)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs that the tables name."""
    gpus: dict[int, Gpu] = {}
    for number, name, header, _, _ in _rows(text):
        for other in (name, *header):
            gpus.setdefault(int(other[3:]), Gpu(index=int(other[3:]), evidence=(line_ref(number),)))
    return tuple(gpus[index] for index in sorted(gpus))


def parse_unread(text: str) -> tuple[Unread, ...]:
    """Return rows that end before their header does."""
    return tuple(
        Unread(source="", line=number, text=name, why=f"{len(cells)} of {len(header)} cells")
        for number, name, header, cells, _ in _rows(text)
        if len(cells) < len(header)
    )


def _rows(text: str) -> Iterator[tuple[int, str, tuple[str, ...], list[str], str]]:
    """Return line number, GPU, header, cells and capability of each row."""
    header: tuple[str, ...] = ()
    capability = _UNNAMED_CAPABILITY
    for number, line in enumerate(text.split("\n"), 1):
        command = _COMMAND.search(line)
        if command is not None:
            capability, header = _CAPABILITIES[command[1]], ()
        new_header = _header(line)
        if new_header is not None:
            header = new_header
        elif header and (row := _row(line, header)) is not None:
            yield number, row[0], header, row[1], capability


def _header(line: str) -> tuple[str, ...] | None:
    words = line.split()
    if 2 <= len(words) <= _MOST_GPUS and all(map(_GPU.fullmatch, words)) and len(set(words)) == len(words):
        return tuple(words)
    return None


def _row(line: str, header: tuple[str, ...]) -> tuple[str, list[str]] | None:
    """Return the GPU and its cells.

    The last cell of a cut row may be half a word (`C` of `CNS`), so the first unknown word ends the row.
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
