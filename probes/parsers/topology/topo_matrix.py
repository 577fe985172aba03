"""`nvidia-smi topo -m`: as drivers print it, and as people paste it.

Pastes lose tabs, glue header cells, keep colour codes (also as literal `^[[4m`), cut lines and drop legends.
A cell that may have been cut, a row that does not fit the header and two cells that contradict each other are
never believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Reason, Record, Unknown
from probes.facts import Gpu, Link, LinkKind, Unread
from probes.parsers.host.cpulist import is_cpu_list

_ESCAPE = re.compile(r"(?:\x1b|\^\[|\\x1b|\\033|\\e|\\u001b)?\[[0-9;]{0,8}m")
_BARRED = re.compile(r"^[ \t]*\|([^\n]*?)(?:\|[ \t]*)?$", re.MULTILINE)
_DEVICE = re.compile(r"(?:GPU|NIC)\d{1,3}|mlx\d_(?:bond_)?\d{1,3}|[a-z][a-z0-9_]*\d[a-z0-9_]*")
_COLUMN = re.compile(r"CPU\s*Affinity|NUMA\s*Affinity|GPU\s*NUMA\s*ID")
_WORD = "SYS|SOC|NODE|PHB|PXB|PIX"
_CELL = re.compile(
    rf"\s*(?:(X|{_WORD}|NV\d{{1,2}})(?![A-Za-z0-9,-])|(X|{_WORD})(?=\d|X|{_WORD}|NV)|(NV\d{{1,2}})(?=X|{_WORD}|NV))"
)
"""A cell that ends where a word ends, or, with its tab lost, where the next cell or the CPU list begins.
`NV180-51` could be split in two ways and is no cell.
"""
_NIC_NAME = re.compile(r"\s*(NIC\d{1,3})\s*:\s*(\S+)\s*")
_KINDS: dict[str, LinkKind] = {
    "SYS": "SYS",
    "SOC": "SYS",
    "NODE": "NODE",
    "PHB": "PHB",
    "PXB": "PXB",
    "PIX": "PIX",
}
"""Drivers before 384 call SYS `SOC`."""
_MOST_DEVICES = 512
"""More GPUs and NICs than any machine has: a hostile or damaged text, which would take minutes."""
_CPU_COLUMN = re.compile(r"CPU\s*Affinity")
_GPU_LABEL = re.compile(r"[ \t]*GPU\d+\s*")
_REFUSAL = re.compile(
    r"^[ \t]*(ERROR: Option -m is missing its value|Failed to run topology matrix)", re.MULTILINE
)
"""nvidia-smi where it has no matrix: on Windows, and in some virtual machines."""
_DISTANCE = re.compile(r"NV\d+|PIX|PXB|PHB|NODE|SYS|SOC")


class TopoGpu(Record, kw_only=True):
    """What the right-hand columns say about one GPU."""

    index: int
    cpu_affinity: str | Unknown = NOT_RECORDED
    numa_node: int | Unknown | None = NOT_RECORDED


class TopoMatrix(Record, kw_only=True):
    """The devices and the distances between them, by the names of the header (`GPU0`, `NIC0`, `mlx5_0`)."""

    devices: tuple[str, ...]
    gpus: tuple[TopoGpu, ...]
    links: tuple[Link, ...]
    nic_names: dict[str, str] = {}
    """From the legend: `NIC0` to `mlx5_0`."""

    def named_links(self) -> tuple[Link, ...]:
        """The links with NICs by their real names, as far as the legend tells."""
        names = self.nic_names
        return tuple(
            msgspec.structs.replace(link, a=names.get(link.a, link.a), b=names.get(link.b, link.b))
            for link in self.links
        )


def _plain(text: str) -> str:
    """Without colours, and without the bars of a Markdown table."""
    text = _ESCAPE.sub("", text.replace("\xa0", " "))
    return _BARRED.sub(lambda row: row[1].replace("|", "\t"), text) if "|" in text else text


def recognise(text: str) -> bool:
    return _REFUSAL.search(text) is not None or any(_is_topology_line(line) for line in text.split("\n"))


def _is_topology_line(line: str) -> bool:
    """The header, or the row of a GPU: its own cell X, and a distance behind that."""
    gpu = line.find("GPU0")
    if gpu >= 0 and _CPU_COLUMN.search(line, gpu):
        return True
    label = _GPU_LABEL.match(line)
    if label is None:
        return False
    last = max((match.start() for match in _DISTANCE.finditer(line, label.end())), default=0)
    own = line.find("X", label.end(), last)
    while own >= 0:
        begins = own == label.end() or not (line[own - 1].isalnum() or line[own - 1] in "_.")
        ends = (
            not (line[own + 1].isalnum() or line[own + 1] == "_")
            or _DISTANCE.match(line, own + 1) is not None
        )
        if begins and ends:
            return True
        own = line.find("X", own + 1, last)
    return False


def parse_topo_matrix(text: str) -> TopoMatrix | Unknown:
    """The matrix in `text`; Unknown where there is none, or another one (`topo -p2p`, rocm-smi)."""
    lines = _plain(text).splitlines(keepends=True)
    start, header = next(
        ((number, header) for number, line in enumerate(lines) if (header := _header(line))), (0, None)
    )
    if header is None:
        return Unknown(Reason.UNPARSABLE, "no matrix header in the output of nvidia-smi topo -m")
    devices, columns = header
    places = {name: place for place, name in enumerate(devices)}
    if len(devices) > _MOST_DEVICES:
        return Unknown(Reason.UNPARSABLE, f"a matrix of {len(devices)} devices is no machine's")
    cells: dict[tuple[str, str], set[str]] = {}
    gpus: dict[str, TopoGpu] = {}
    rows = 0
    for name, row, rest in _rows(lines[start + 1 :], places):
        rows += 1
        for device, cell in zip(devices, row, strict=False):
            if device != name and cell != "X":
                pair = (name, device) if places[name] < places[device] else (device, name)
                cells.setdefault(pair, set()).add(cell)
        if name.startswith("GPU"):
            gpus[name] = _gpu(name, rest, columns)
    if not rows or (len(devices) > 1 and not cells):
        return Unknown(Reason.UNPARSABLE, "a matrix header without rows of PCIe or NVLink distances")
    return TopoMatrix(
        devices=devices,
        gpus=tuple(
            gpus.get(name, TopoGpu(index=int(name[3:]))) for name in devices if name.startswith("GPU")
        ),
        links=tuple(
            _link(pair, cells[pair])
            for pair in sorted(cells, key=lambda pair: (places[pair[0]], places[pair[1]]))
        ),
        nic_names=_legend(lines[start + 1 :]),
    )


def parse_links(text: str) -> tuple[Link, ...]:
    """The links of every matrix in `text`, with NICs by their real names."""
    found: list[Link] = []
    for first, part in _matrices(text):
        matrix = parse_topo_matrix(part)
        if not isinstance(matrix, Unknown):
            found += [
                msgspec.structs.replace(link, evidence=(line_ref(first),)) for link in matrix.named_links()
            ]
    return tuple(found)


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs of every matrix: that they are there, and their places."""
    found: list[Gpu] = []
    for first, part in _matrices(text):
        matrix = parse_topo_matrix(part)
        if not isinstance(matrix, Unknown):
            found += [
                Gpu(
                    index=gpu.index,
                    cpu_affinity=gpu.cpu_affinity,
                    numa_node=gpu.numa_node,
                    evidence=(line_ref(first),),
                )
                for gpu in matrix.gpus
            ]
    return tuple(found)


def unread(text: str) -> tuple[Unread, ...]:
    """Rows of a matrix that end before the header does, and devices of the header whose rows are missing."""
    refusal = _REFUSAL.search(text)
    if refusal is not None:
        place = text.count("\n", 0, refusal.start(1)) + 1
        return (
            Unread(source="", line=place, text=refusal[1], why="nvidia-smi gives no matrix on this system"),
        )
    matrices = list(_matrices(text))
    if not matrices:
        return (Unread(source="", why="no matrix header in the output of nvidia-smi topo -m"),)
    found: list[Unread] = []
    for first, part in matrices:
        lines = _plain(part).splitlines(keepends=True)
        header = _header(lines[0])
        devices = header[0] if header is not None and len(header[0]) <= _MOST_DEVICES else ()
        seen: set[str] = set()
        for number, line in enumerate(lines[1:], first + 1):
            for name, row, _ in _rows([line], {name: place for place, name in enumerate(devices)}):
                seen.add(name)
                if len(row) < len(devices):
                    found.append(
                        Unread(
                            source="",
                            line=number,
                            text=name,
                            why=f"{len(row)} of {len(devices)} cells of its row",
                        )
                    )
        # People leave the rows of all NICs out, which say nothing new of GPUs; some of them mean that the
        # text was cut.
        others = [name for name in devices if not name.startswith("GPU")]
        has_nics = any(name in seen for name in others)
        missing = [name for name in devices if name not in seen and (has_nics or name.startswith("GPU"))]
        if not seen:
            found.append(
                Unread(source="", line=first, why="no row of distances below the header of a matrix")
            )
        elif missing:
            found.append(
                Unread(
                    source="", line=first, text=", ".join(missing)[:80], why="rows of the matrix are missing"
                )
            )
    return tuple(found)


def _matrices(text: str) -> Iterator[tuple[int, str]]:
    """The first line (from 1) and the text of each matrix, from its header to the next header."""
    lines = text.splitlines(keepends=True)
    heads = [number for number, line in enumerate(lines) if _header(_plain(line)) is not None]
    for start, end in zip(heads, [*heads[1:], len(lines)], strict=False):
        yield start + 1, "".join(lines[start:end])


def _rows(lines: list[str], places: dict[str, int]) -> Iterator[tuple[str, list[str], str]]:
    """The rows up to the next header: the device, its cells, and what follows them where the row is whole."""
    for line in lines:
        if _header(line) is not None:
            return
        label = _DEVICE.match(line.lstrip())
        if label is None or label[0] not in places:
            continue
        row, rest = _cells(line.lstrip()[label.end() :], len(places))
        place = places[label[0]]
        if row and (place >= len(row) or row[place] == "X"):
            whole = len(row) == len(places) and line.endswith(("\n", "\r"))
            yield label[0], row, rest if whole else ""


def _header(line: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The device names and the names of the columns behind them, where `line` is a header."""
    if _NIC_NAME.fullmatch(line):
        return None
    first = _COLUMN.search(line)
    head = line[: first.start()] if first else line
    tokens = head.split()
    devices: list[str] = []
    for token in tokens:
        names = _DEVICE.findall(token)
        if "".join(names) != token or not names:
            return None
        devices.extend(names)
    if not devices or not devices[0].startswith("GPU") or (len(devices) < 2 and first is None):
        return None
    # A name that comes twice is another one cut short (NIC1 of NIC11): what follows has no sure column.
    unique: dict[str, None] = {}
    for name in devices:
        if name in unique:
            break
        unique[name] = None
    return tuple(unique), tuple(re.sub(r"\s+", " ", name) for name in _COLUMN.findall(line))


def _cells(text: str, count: int) -> tuple[list[str], str]:
    """Up to `count` cells from the left of a row, and what follows them."""
    cells: list[str] = []
    position = 0
    while len(cells) < count and (match := _CELL.match(text, position)) is not None:
        cells.append(match[match.lastindex or 0].strip())
        position = match.end()
    cut = len(cells) < count or position == len(text)
    if cells and cut and cells[-1].startswith("NV"):
        cells.pop()  # NV1 may be what is left of NV18
    return cells, text[position:]


def _link(pair: tuple[str, str], cells: set[str]) -> Link:
    kinds = {_KINDS.get(cell, cell) for cell in cells}
    if len(kinds) > 1:
        return Link(
            a=pair[0],
            b=pair[1],
            kind=Unknown(Reason.UNPARSABLE, f"the matrix says both {' and '.join(sorted(kinds))}"),
        )
    cell = next(iter(cells))
    if cell.startswith("NV"):
        return Link(a=pair[0], b=pair[1], kind="NVLINK", nvlink_count=int(cell[2:]), sees_nvlink=True)
    return Link(a=pair[0], b=pair[1], kind=_KINDS[cell], sees_nvlink=True)


def _gpu(name: str, rest: str, columns: tuple[str, ...]) -> TopoGpu:
    """The affinity columns of a row. Without tabs an empty cell leaves no trace, so fewer words than columns
    say nothing.
    """
    if "\t" in rest:
        words = [word.strip() for word in rest.lstrip(" ").removeprefix("\t").split("\t")]
    else:
        words = rest.split()
        if len(words) < len(columns):
            words = []
    values = dict(zip(columns, words, strict=False))
    return TopoGpu(
        index=int(name[3:]),
        cpu_affinity=_affinity(values.get("CPU Affinity")),
        numa_node=_node(values.get("NUMA Affinity")),
    )


def _affinity(word: str | None) -> str | Unknown:
    if word is None:
        return NOT_RECORDED
    if is_cpu_list(word):
        return word
    if word in ("", "N/A"):
        return Unknown(Reason.NOT_SUPPORTED, "the CPU Affinity column is empty")
    return Unknown(Reason.UNPARSABLE, f"CPU Affinity {word[:40]!r}")


def _node(word: str | None) -> int | Unknown | None:
    """One node; a list of nodes is no answer to which one."""
    if word is None:
        return NOT_RECORDED
    if word.isascii() and word.isdigit():
        return int(word)
    if word == "N/A":
        return None
    if is_cpu_list(word):
        return Unknown(Reason.NOT_SUPPORTED, f"several NUMA nodes: {word[:40]}")
    return Unknown(Reason.NOT_SUPPORTED if not word else Reason.UNPARSABLE, f"NUMA Affinity {word[:40]!r}")


def _legend(lines: list[str]) -> dict[str, str]:
    """The names of the NICs. A last line without an end may hold half a name (mlx5_1 of mlx5_10)."""
    names: dict[str, str] = {}
    for line in lines:
        match = _NIC_NAME.fullmatch(line)
        if match is not None and (line.endswith(("\n", "\r")) or _is_whole(match[1], match[2], names)):
            names[match[1]] = match[2]
    return names


def _is_whole(nic: str, name: str, names: dict[str, str]) -> bool:
    """True where the number in `name` cannot be the beginning of a longer one: it is 0, or it continues the
    list.
    """
    stem, digits = _split_number(name)
    if not digits:
        return False
    if digits == "0":
        return True
    others = [(other, *_split_number(value)) for other, value in names.items()]
    offset = int(digits) - int(nic[3:])
    return bool(others) and all(
        s == stem and d and int(d) - int(other[3:]) == offset for other, s, d in others
    )


def _split_number(name: str) -> tuple[str, str]:
    stem = name.rstrip("0123456789")
    return stem, name[len(stem) :]
