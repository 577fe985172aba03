"""Parse `rocm-smi --showtopo` and its parts: the connections of AMD GPUs.

xGMI is their direct link, like NVLink for NVIDIA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.facts import Gpu, Link, LinkKind, Unread

_GPU = re.compile(r"GPU\d{1,3}")
_TITLE = re.compile(r"^={3,120} Link Type between two GPUs ={3,120}", re.MULTILINE)
_NUMA = re.compile(r"\s{0,8}GPU\[? ?(\d{1,3})\]?\s{0,20}: \(Topology\) Numa Node: (-?\d{1,4})\s*")
_CELL: dict[str, LinkKind | Unknown | None] = {
    "XGMI": "NVLINK",
    "PCIE": Unknown(Reason.NOT_SUPPORTED, "rocm-smi reports no distance over PCIe"),
    "0": None,
    "N/A": None,
}
"""Kind of link by the printed word; 0 is the GPU itself."""
_MOST_GPUS = 256


def recognise(text: str) -> bool:
    if _TITLE.search(text) is not None or any(True for _ in _rows(text)):
        return True
    return "(Topology) Numa Node: " in text and any(_NUMA.fullmatch(line) for line in text.split("\n"))


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the matrices and of the list of NUMA nodes; a node of -1 is none."""
    nodes: dict[int, int | None] = {}
    lines: dict[int, int] = {}
    for number, _, header, _ in _rows(text):
        for name in header:
            lines.setdefault(int(name[3:]), number)
    for number, line in enumerate(text.split("\n"), 1):
        match = _NUMA.fullmatch(line)
        if match is not None:
            nodes[int(match[1])] = int(match[2]) if int(match[2]) >= 0 else None
            lines.setdefault(int(match[1]), number)
    return tuple(
        Gpu(index=index, numa_node=nodes.get(index, NOT_RECORDED), evidence=(line_ref(lines[index]),))
        for index in sorted(lines)
    )


def parse_links(text: str) -> tuple[Link, ...]:
    """Return the link of each pair once."""
    pairs: dict[tuple[str, str], Link] = {}
    for number, name, header, cells in _rows(text):
        for other, cell in zip(header, cells, strict=False):
            kind = _CELL.get(cell)
            a, b = sorted((name, other), key=lambda gpu: int(gpu[3:]))
            if kind is not None and a != b:
                pairs.setdefault(
                    (a, b), Link(a=a, b=b, kind=kind, sees_nvlink=True, evidence=(line_ref(number),))
                )
    return tuple(pairs.values())


def unread(text: str) -> tuple[Unread, ...]:
    """Return rows that end before their header does."""
    return tuple(
        Unread(source="", line=number, text=name, why=f"{len(cells)} of {len(header)} cells")
        for number, name, header, cells in _rows(text)
        if len(cells) < len(header)
    )


def _rows(text: str) -> Iterator[tuple[int, str, tuple[str, ...], list[str]]]:
    """Return line number, GPU, header and cells of each row with at least one link."""
    header: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if (
            2 <= len(words) <= _MOST_GPUS
            and all(map(_GPU.fullmatch, words))
            and len(set(words)) == len(words)
        ):
            header = tuple(words)
        elif header and len(words) > 1 and words[0] in header:
            cells = [word for word in words[1 : len(header) + 1] if word in _CELL]
            if len(cells) == len(words) - 1 and any(_CELL[cell] for cell in cells):
                yield number, words[0], header, cells
