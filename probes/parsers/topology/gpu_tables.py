"""Parse tables of pairs of GPUs: `nvidia-smi topo -p2p` and `rocm-smi --showtopo`.

`topo -p2p` prints the access of each GPU to another GPU's memory, according to the driver. The output does
not contain the letter that was queried (`r`, `w`, `n`, `a`, `p`), unless the command line was pasted with it.
`rocm-smi --showtopo` prints the connections of AMD GPUs. xGMI is their direct link, like NVLink for NVIDIA.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Reason, Unknown, line_ref
from probes.facts import Gpu, Link, LinkKind, PeerAccess, Unread

_GPU = pattern(r"GPU\d{1,3}")
_P2P_CELL = pattern(r"X|OK|CNS|GNS|TNS|NS|DR|U")
_COMMAND = pattern(r"nvidia-smi\s+topo\s+(?:-p2p|--p2pstatus)[ =]+([rwnap])(?![a-z])")
_CAPABILITIES = {"r": "read", "w": "write", "n": "nvlink", "a": "atomics", "p": "pcie"}
_UNNAMED_CAPABILITY = "access"
"""Capability of a table without its command line."""
_MOST_GPUS = 256

_TITLE = pattern(r"^={3,120} Link Type between two GPUs ={3,120}", re.MULTILINE)
_NUMA = pattern(r"\s{0,8}GPU\[? ?(\d{1,3})\]?\s{0,20}: \(Topology\) Numa Node: (-?\d{1,4})\s*")
_ROCM_CELL: dict[str, LinkKind | Unknown | None] = {
    "XGMI": "NVLINK",
    "PCIE": Unknown(Reason.NOT_SUPPORTED, "rocm-smi reports no distance over PCIe"),
    "0": None,
    "N/A": None,
}
"""Kind of link by the printed word; 0 is the GPU itself."""


class _Row(NamedTuple):
    """Row of one GPU."""

    line: int
    gpu: str
    header: tuple[str, ...]
    """GPUs of the columns."""
    cells: list[str]
    capability: str = _UNNAMED_CAPABILITY
    """Kind of access that the table shows, such as `read`; `access` if the text does not name the kind."""


def recognise_p2p(text: str) -> bool:
    return any(True for _ in _p2p_rows(text))


def parse_peer_access(text: str) -> tuple[PeerAccess, ...]:
    """Return every ordered pair of GPUs in the tables of `text`, without `X`, the GPU itself."""
    return tuple(
        PeerAccess(a=row.gpu, b=other, capability=row.capability, status=cell, evidence=(line_ref(row.line),))
        for row in _p2p_rows(text)
        for other, cell in zip(row.header, row.cells, strict=False)
        if other != row.gpu and cell != "X"
    )


def parse_p2p_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs that the tables name."""
    gpus: dict[int, Gpu] = {}
    for row in _p2p_rows(text):
        for name in (row.gpu, *row.header):
            gpus.setdefault(int(name[3:]), Gpu(index=int(name[3:]), evidence=(line_ref(row.line),)))
    return tuple(gpus[index] for index in sorted(gpus))


def unread_p2p(text: str) -> tuple[Unread, ...]:
    """Return rows that end before their header does."""
    return _short_rows(_p2p_rows(text))


def _short_rows(rows: Iterable[_Row]) -> tuple[Unread, ...]:
    return tuple(
        Unread(source="", line=row.line, text=row.gpu, why=f"{len(row.cells)} of {len(row.header)} cells")
        for row in rows
        if len(row.cells) < len(row.header)
    )


def _p2p_rows(text: str) -> Iterator[_Row]:
    """Return each row that contains a word for the access to another GPU."""
    header: tuple[str, ...] = ()
    capability = _UNNAMED_CAPABILITY
    lines = enumerate(text.split("\n"), 1)
    for number, line in ((number, line) for number, line in lines if "GPU" in line or "topo" in line):
        words = line.split()
        if "topo" in line and (command := _COMMAND.search(line)) is not None:
            capability, header = _CAPABILITIES[command[1]], ()
        if _is_header(words):
            header = tuple(words)
        elif 2 <= len(words) <= len(header) + 1 and words[0] in header:
            # A cut row may end with half a word (`C` of `CNS`), so the first unknown word ends the cells.
            cells = list(itertools.takewhile(_P2P_CELL.fullmatch, words[1:]))
            place = header.index(words[0])
            if set(cells) - {"X"} and (place >= len(cells) or cells[place] == "X"):
                yield _Row(number, words[0], header, cells, capability)


def _is_header(words: list[str]) -> bool:
    """Return whether a line contains only names of GPUs, without repetitions."""
    return 2 <= len(words) <= _MOST_GPUS and all(map(_GPU.fullmatch, words)) and len(set(words)) == len(words)


def recognise_rocm(text: str) -> bool:
    if _TITLE.search(text) is not None or any(True for _ in _rocm_rows(text)):
        return True
    return "(Topology) Numa Node: " in text and any(_NUMA.fullmatch(line) for line in text.split("\n"))


def parse_rocm_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the matrices and of the list of NUMA nodes; -1 means no node."""
    nodes: dict[int, int | None] = {}
    lines: dict[int, int] = {}
    for row in _rocm_rows(text):
        for name in row.header:
            lines.setdefault(int(name[3:]), row.line)
    for number, line in enumerate(text.split("\n"), 1):
        if (match := _NUMA.fullmatch(line)) is not None:
            nodes[int(match[1])] = int(match[2]) if int(match[2]) >= 0 else None
            lines.setdefault(int(match[1]), number)
    return tuple(
        Gpu(index=index, numa_node=nodes.get(index, NOT_RECORDED), evidence=(line_ref(lines[index]),))
        for index in sorted(lines)
    )


def parse_rocm_links(text: str) -> tuple[Link, ...]:
    """Return the link of each pair once."""
    pairs: dict[tuple[str, str], Link] = {}
    for row in _rocm_rows(text):
        for other, cell in zip(row.header, row.cells, strict=False):
            kind = _ROCM_CELL[cell]
            a, b = sorted((row.gpu, other), key=lambda gpu: int(gpu[3:]))
            if kind is not None and a != b:
                link = Link(a=a, b=b, kind=kind, sees_nvlink=True, evidence=(line_ref(row.line),))
                pairs.setdefault((a, b), link)
    return tuple(pairs.values())


def unread_rocm(text: str) -> tuple[Unread, ...]:
    """Return rows that end before their header does."""
    return _short_rows(_rocm_rows(text))


def _rocm_rows(text: str) -> Iterator[_Row]:
    """Return each row with at least one link."""
    header: tuple[str, ...] = ()
    lines = enumerate(text.split("\n"), 1)
    for number, words in ((number, line.split()) for number, line in lines if "GPU" in line):
        if _is_header(words):
            header = tuple(words)
        elif 2 <= len(words) <= len(header) + 1 and words[0] in header:
            cells = words[1:]
            if _ROCM_CELL.keys() >= set(cells) and any(_ROCM_CELL[cell] for cell in cells):
                yield _Row(number, words[0], header, cells)
