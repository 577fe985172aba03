"""Parse `nvidia-smi topo -m` as drivers print it, and as people paste it.

Pastes lose tabs, join header cells, keep colour codes (also as literal `^[[4m`), cut lines and drop legends.
A cell that may have been cut and a row that does not fit the header are ignored. Two cells that contradict
each other, and a word that is not a distance, are read as a link of unknown kind. A row that lost tabs is
read and reported.
"""

import itertools
import re
from collections.abc import Iterator

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Record, Unknown, line_ref, quoted
from probes.facts import Gpu, Link, LinkKind, Unread
from probes.parsers.host.cpulist import is_cpu_list

_ESCAPE = re.compile(r"(?:\x1b|\^\[|\\x1b|\\033|\\e|\\u001b)?\[[0-9;]{0,8}m")
_BARRED = re.compile(r"^[ \t]*\|([^\n]*?)(?:\|[ \t]*)?$", re.MULTILINE)
_DEVICE = re.compile(r"(?:GPU|NIC)\d{1,3}|mlx\d_(?:bond_)?\d{1,3}|[a-z][a-z0-9_]*\d[a-z0-9_]*")
_COLUMN = re.compile(r"CPU\s*Affinity|NUMA\s*Affinity|GPU\s*NUMA\s*ID")
_WORD = "SYS|SOC|NODE|PHB|PXB|PIX"
_CELL = re.compile(
    rf"\s*(?:(X|{_WORD}|NV\d{{1,2}})(?![A-Za-z0-9,-])|(X|{_WORD})(?=\d|X|{_WORD}|NV)"
    rf"|(NV\d{{1,2}})(?=X|{_WORD}|NV))"
)
"""One cell.

A cell ends at the end of a word or, if its tab was lost, at the next cell or the CPU list. `NV180-51`, which
could be split in two ways, is not a cell.
"""
_OTHER_CELL = re.compile(r"\s*([A-Z][A-Z0-9]{1,7}|\?{1,3}|<unknown>)(?=\s|$)")
"""A word that is not a known distance but has the form of a cell."""
_NIC_NAME = re.compile(r"\s*(NIC\d{1,3})\s*:\s*(\S+)\s*")
_KINDS: dict[str, LinkKind] = {
    "SYS": "SYS",
    "SOC": "SYS",
    "NODE": "NODE",
    "PHB": "PHB",
    "PXB": "PXB",
    "PIX": "PIX",
}
"""Kind of link by the printed word; drivers before 384 print `SOC` for SYS."""
_MOST_DEVICES = 512
"""Maximum number of devices of a matrix, more than any machine has. Larger ones could take minutes."""
_CPU_COLUMN = re.compile(r"CPU\s*Affinity")
_GPU_LABEL = re.compile(r"[ \t]*GPU\d+\s*")
_REFUSAL = re.compile(
    r"^[ \t]*(ERROR: Option -m is missing its value|Failed to run topology matrix)", re.MULTILINE
)
"""Messages of nvidia-smi without a matrix: on Windows, and in some virtual machines."""
_DISTANCE = re.compile(r"NV\d+|PIX|PXB|PHB|NODE|SYS|SOC")
_OWN_CELL = re.compile(rf"X(?:(?!\w)|(?={_DISTANCE.pattern}))")
"""The cell X of the GPU itself: not part of a word, but without its tab the next cell may follow directly."""


class TopoGpu(Record, kw_only=True):
    """Values of one GPU in the right-hand columns."""

    index: int
    cpu_affinity: str | Unknown = NOT_RECORDED
    numa_node: int | Unknown | None = NOT_RECORDED


class TopoMatrix(Record, kw_only=True):
    """Devices and the distances between them, by the names of the header (`GPU0`, `NIC0`, `mlx5_0`)."""

    devices: tuple[str, ...]
    gpus: tuple[TopoGpu, ...]
    links: tuple[Link, ...]
    nic_names: dict[str, str] = {}
    """Real names of the NICs by the names of the header (`NIC0`: `mlx5_0`), from the legend."""

    def named_links(self) -> tuple[Link, ...]:
        """Return the links with the real names of NICs that the legend contains."""
        names = self.nic_names
        return tuple(
            msgspec.structs.replace(link, a=names.get(link.a, link.a), b=names.get(link.b, link.b))
            for link in self.links
        )


def _plain(text: str) -> str:
    """Return the text without colours and without the bars of a Markdown table."""
    text = _ESCAPE.sub("", text.replace("\xa0", " "))
    return _BARRED.sub(lambda row: row[1].replace("|", "\t"), text) if "|" in text else text


def recognise(text: str) -> bool:
    return _REFUSAL.search(text) is not None or any(_is_topology_line(line) for line in text.split("\n"))


def _is_topology_line(line: str) -> bool:
    """Return whether a line is the header, or the row of a GPU.

    A row contains the GPU's own cell X and a distance after it.
    """
    gpu = line.find("GPU0")
    if gpu >= 0 and _CPU_COLUMN.search(line, gpu):
        return True
    label = _GPU_LABEL.match(line)
    if label is None:
        return False
    last = max((match.start() for match in _DISTANCE.finditer(line, label.end())), default=0)
    own_cells = (match.start() for match in _OWN_CELL.finditer(line, label.end()))
    return any(
        own == label.end() or not (line[own - 1].isalnum() or line[own - 1] in "_.")
        for own in own_cells
        if own < last
    )


def parse_topo_matrix(text: str) -> TopoMatrix | Unknown:
    """Return the matrix in `text`; Unknown if there is none, or another kind (`topo -p2p`, rocm-smi)."""
    lines = _plain(text).splitlines(keepends=True)
    start, header = next(
        ((number, header) for number, line in enumerate(lines) if (header := _header(line))), (0, None)
    )
    if header is None:
        return Unknown(Reason.UNPARSABLE, "no matrix header in the output of nvidia-smi topo -m")
    devices, columns = header
    places = {name: place for place, name in enumerate(devices)}
    if len(devices) > _MOST_DEVICES:
        return Unknown(Reason.UNPARSABLE, f"no machine has {len(devices)} devices as this matrix does")
    cells: dict[tuple[str, str], set[str]] = {}
    gpus: dict[str, TopoGpu] = {}
    rows = 0
    for name, row, rest in _rows(lines[start + 1 :], places):
        rows += 1
        for device, cell in zip(devices, row, strict=False):
            if device != name and cell not in ("X", ""):
                pair = (name, device) if places[name] < places[device] else (device, name)
                cells.setdefault(pair, set()).add(cell)
        if name.startswith("GPU"):
            gpus[name] = _gpu(name, rest, columns)
    has_distance = any(map(_is_cell, set().union(*cells.values())))
    if not rows or (len(devices) > 1 and not has_distance):
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
    """Return the links of every matrix in `text`, with NICs by their real names."""
    return tuple(
        msgspec.structs.replace(link, evidence=(line_ref(first),))
        for first, matrix in _parsed_matrices(text)
        for link in matrix.named_links()
    )


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of every matrix, with their CPU affinity and NUMA node."""
    return tuple(
        Gpu(
            index=gpu.index,
            cpu_affinity=gpu.cpu_affinity,
            numa_node=gpu.numa_node,
            evidence=(line_ref(first),),
        )
        for first, matrix in _parsed_matrices(text)
        for gpu in matrix.gpus
    )


def _parsed_matrices(text: str) -> Iterator[tuple[int, TopoMatrix]]:
    """Return the readable matrices of `text`, each with the number of its first line."""
    for first, part in _matrices(text):
        matrix = parse_topo_matrix(part)
        if not isinstance(matrix, Unknown):
            yield first, matrix


def unread(text: str) -> tuple[Unread, ...]:
    """Return the rows of a matrix that are doubtful, short or missing, and messages in place of a matrix."""
    refusal = _REFUSAL.search(text)
    if refusal is not None:
        place, why = text.count("\n", 0, refusal.start(1)) + 1, "nvidia-smi prints no matrix on this system"
        return (Unread(source="", line=place, text=refusal[1], why=why),)
    matrices = list(_matrices(text))
    if not matrices:
        return (Unread(source="", why="no matrix header in the output of nvidia-smi topo -m"),)
    unread_parts: list[Unread] = []
    for first, part in matrices:
        lines = _plain(part).splitlines(keepends=True)
        header = _header(lines[0])
        devices = header[0] if header is not None and len(header[0]) <= _MOST_DEVICES else ()
        devices_with_rows: set[str] = set()
        if len(matrices) > 1 and _CELL.search(part) and isinstance(parse_topo_matrix(part), Unknown):
            continue  # A table of `topo -p2p` in the same text, which another reader reads.
        for number, line in enumerate(lines[1:], first + 1):
            for name, row, _ in _rows([line], {name: place for place, name in enumerate(devices)}):
                devices_with_rows.add(name)
                why = _doubt(line, row, devices)
                unread_parts += [Unread(source="", line=number, text=name, why=why)] if why else []
        # People leave out the rows of all NICs, which contain nothing new about GPUs. If only some rows of
        # NICs are missing, the text was cut.
        others = [name for name in devices if not name.startswith("GPU")]
        has_nics = any(name in devices_with_rows for name in others)
        missing = [
            name for name in devices if name not in devices_with_rows and (has_nics or name.startswith("GPU"))
        ]
        if not devices_with_rows:
            why = "no row of distances below the header of a matrix"
            unread_parts.append(Unread(source="", line=first, why=why))
        elif missing:
            why, names = "rows of the matrix are missing", ", ".join(missing)[:80]
            unread_parts.append(Unread(source="", line=first, text=names, why=why))
    return tuple(unread_parts)


def _doubt(line: str, row: list[str], devices: tuple[str, ...]) -> str:
    """Return the reason to doubt a row; empty if the row fits the header."""
    if len(row) < len(devices):
        return f"{len(row)} of {len(devices)} cells of its row"
    if "" in row:
        return f"the cell of {devices[row.index('')]} is empty"
    other = next((cell for cell in row if cell != "X" and not _DISTANCE.fullmatch(cell)), None)
    if other is not None:
        return f"rigtune does not know the distance {other}"
    words = line.split()[1 : len(row) + 1]
    if [word for word in words if word != "X"] != [cell for cell in row if cell != "X"]:
        return "its columns were realigned, because some cells have no separator between them"
    return ""


def _matrices(text: str) -> Iterator[tuple[int, str]]:
    """Return the first line's number (from 1) and the text of each matrix, which ends at the next header."""
    lines = text.splitlines(keepends=True)
    heads = [number for number, line in enumerate(lines) if _header(_plain(line)) is not None]
    for start, end in itertools.pairwise((*heads, len(lines))):
        yield start + 1, "".join(lines[start:end])


def _rows(lines: list[str], places: dict[str, int]) -> Iterator[tuple[str, list[str], str]]:
    """Return the rows up to the next header: device, cells, and the text after the cells of a whole row."""
    for line in lines:
        if _header(line) is not None:
            return
        label = _DEVICE.match(line.lstrip())
        if label is None or label[0] not in places:
            continue
        row, rest = _cells(line.lstrip()[label.end() :], len(places))
        place = places[label[0]]
        if row and (place >= len(row) or row[place] == "X"):
            is_complete = len(row) == len(places) and line.endswith(("\n", "\r"))
            yield label[0], row, rest if is_complete else ""


def _header(line: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the names of devices and of the columns after them; None if `line` is not a header."""
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
    # A repeated name is the beginning of another name that was cut (NIC1 of NIC11), so the columns after it
    # are uncertain.
    pairs = itertools.takewhile(
        lambda pair: pair[0] == pair[1], zip(devices, dict.fromkeys(devices), strict=False)
    )
    columns = tuple(re.sub(r"\s+", " ", name) for name in _COLUMN.findall(line))
    return tuple(name for name, _ in pairs), columns


def _cells(text: str, count: int) -> tuple[list[str], str]:
    """Return up to `count` cells from the left of a row, and the text after them."""
    fields = text.lstrip(" ").removeprefix("\t").split("\t") if "\t" in text else []
    columns = [field.strip() for field in fields[:count]]
    if "" in columns and "X" in columns and len(columns) == count and all(map(_is_cell, columns)):
        # The tabs show which cell is missing; without them all later cells would move to the left.
        return columns, "\t" + "\t".join(fields[count:])
    cells: list[str] = []
    position = 0
    while len(cells) < count and (match := _next_cell(text, position)) is not None:
        cells.append(match[match.lastindex or 0].strip())
        position = match.end()
    cut = len(cells) < count or position == len(text)
    if cells and cut and cells[-1].startswith("NV"):
        cells.pop()  # NV1 may be the beginning of NV18.
    return cells, text[position:]


def _is_cell(word: str) -> bool:
    return not word or word == "X" or _DISTANCE.fullmatch(word) is not None


def _next_cell(text: str, position: int) -> re.Match[str] | None:
    """Return the next cell.

    A word that may be the start of a known word may have been cut, so it is not a cell.
    """
    other = _CELL.match(text, position) or _OTHER_CELL.match(text, position)
    if other is None or other.re is _CELL:
        return other
    is_cut = any(word.startswith(other[1]) for word in (*_KINDS, "NV"))
    return None if is_cut else other


def _link(pair: tuple[str, str], cells: set[str]) -> Link:
    kinds = {_KINDS.get(cell, cell) for cell in cells}
    if len(kinds) > 1:
        both = Unknown(Reason.UNPARSABLE, f"the matrix contains both {' and '.join(sorted(kinds))}")
        return Link(a=pair[0], b=pair[1], kind=both)
    cell = next(iter(cells))
    if not _is_cell(cell):
        unknown = Unknown(Reason.UNPARSABLE, f"the matrix contains {cell}, which is not a known distance")
        return Link(a=pair[0], b=pair[1], kind=unknown)
    count = int(cell[2:]) if cell.startswith("NV") else None
    kind = _KINDS.get(cell, "NVLINK")
    return Link(a=pair[0], b=pair[1], kind=kind, nvlink_count=count, sees_nvlink=True)


def _gpu(name: str, rest: str, columns: tuple[str, ...]) -> TopoGpu:
    """Return the affinity columns of a row.

    Without tabs, an empty cell is invisible, so a row with fewer words than columns has no result.
    """
    cells = rest.lstrip(" ").removeprefix("\t").split("\t") if "\t" in rest else rest.split()
    is_complete = "\t" in rest or len(cells) >= len(columns)
    values = dict(zip(columns, map(str.strip, cells), strict=False)) if is_complete else {}
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
    return Unknown(Reason.UNPARSABLE, f"CPU Affinity {quoted(word)}")


def _node(word: str | None) -> int | Unknown | None:
    """Return the NUMA node; Unknown for a list, because it does not show which node is the GPU's."""
    if word is None:
        return NOT_RECORDED
    if word.isascii() and word.isdigit():
        return int(word)
    if word == "N/A":
        return None
    if is_cpu_list(word):
        return Unknown(Reason.NOT_SUPPORTED, f"several NUMA nodes: {word[:40]}")
    return Unknown(Reason.NOT_SUPPORTED if not word else Reason.UNPARSABLE, f"NUMA Affinity {quoted(word)}")


def _legend(lines: list[str]) -> dict[str, str]:
    """Return the names of the NICs.

    A last line without an end may contain half a name (mlx5_1 of mlx5_10).
    """
    names: dict[str, str] = {}
    for line in lines:
        match = _NIC_NAME.fullmatch(line)
        if match is not None and (line.endswith(("\n", "\r")) or _is_whole(match[1], match[2], names)):
            names[match[1]] = match[2]
    return names


def _is_whole(nic: str, name: str, names: dict[str, str]) -> bool:
    """Return whether the number in `name` cannot be the beginning of a longer number.

    This is true for 0, and for a number that continues the list.
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
