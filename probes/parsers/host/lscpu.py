"""Parse `lscpu` as text (old, and with the sections of util-linux 2.37 and newer) or JSON (`lscpu -J`)."""

import re
from collections.abc import Iterator

import msgspec

from probes.base.record import NOT_RECORDED, EvidenceRef, Unknown, from_json, line_ref
from probes.facts import Cpu, NumaNode
from probes.parsers.host.cpulist import is_cpu_list

_NODE = re.compile(r"NUMA node(\d{1,5}) CPU\(s\)")
_MARK = re.compile(
    r"^ {0,4}(?:NUMA node\(s\)|NUMA node\d{1,5} CPU\(s\)|Core\(s\) per (?:socket|cluster)"
    r"|Thread\(s\) per core):",
    re.MULTILINE,
)
_JSON = re.compile(r"\{\s{0,100}\"lscpu\"\s{0,20}:")
_FLAGS = re.compile(r"avx|amx|sve|bf16|asimd")
_MOST_FIELDS = 4000


class _Field(msgspec.Struct):
    field: str = ""
    data: str | None = None
    children: "list[_Field]" = []


class _Document(msgspec.Struct):
    lscpu: list[_Field] = []


def recognise(text: str) -> bool:
    return _MARK.search(text) is not None or _JSON.match(text.lstrip()) is not None


def parse_cpu(text: str) -> Cpu:
    """Return the processors; `logical_cpus` counts only processors that are online, if lscpu lists these."""
    fields = {name: value for name, value, _ in _fields(text)}
    first = next((line for _, _, line in _fields(text)), 0)
    sockets, cores, threads = (
        _whole(fields.get(name)) for name in ("Socket(s)", "Core(s) per socket", "Thread(s) per core")
    )
    online = fields.get("On-line CPU(s) list", "")
    total = _list_size(online) if is_cpu_list(online) else _whole(fields.get("CPU(s)"))
    flags = fields.get("Flags")
    return Cpu(
        model=fields.get("Model name") or NOT_RECORDED,
        architecture=fields.get("Architecture") or NOT_RECORDED,
        sockets=sockets,
        physical_cores=cores
        if isinstance(cores, Unknown) or isinstance(sockets, Unknown)
        else cores * sockets,
        logical_cpus=total,
        flags=NOT_RECORDED if flags is None else tuple(flag for flag in flags.split() if _FLAGS.search(flag)),
        threads_per_core=threads,
        virtualization_flag=True if "Hypervisor vendor" in fields else NOT_RECORDED,
        max_mhz=_number(fields.get("CPU max MHz")),
        evidence=(line_ref(first),) if first else (EvidenceRef(source="", key=""),),
    )


def parse_numa_nodes(text: str) -> tuple[NumaNode, ...]:
    """Return the nodes with their CPUs; a node without CPUs is the memory of a GPU, or memory that is
    attached over CXL.
    """
    nodes: dict[int, NumaNode] = {}
    for name, value, _ in _fields(text):
        match = _NODE.fullmatch(name)
        if match is not None and (not value or is_cpu_list(value)):
            nodes[int(match[1])] = NumaNode(index=int(match[1]), cpus=value)
    return tuple(nodes[index] for index in sorted(nodes))


def _fields(text: str) -> Iterator[tuple[str, str, int]]:
    """Return name, value and line of each field; the line is 0 in JSON."""
    if _JSON.match(text.lstrip()):
        yield from _json_fields(text)
        return
    for number, line in enumerate(text.splitlines()[:_MOST_FIELDS], 1):
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value.strip(), number


def _json_fields(text: str) -> Iterator[tuple[str, str, int]]:
    try:
        waiting = from_json(text, _Document).lscpu
    except msgspec.DecodeError:
        return
    while waiting:
        field = waiting.pop(0)
        waiting[:0] = field.children
        yield field.field.rstrip(":"), (field.data or "").strip(), 0


def _list_size(text: str) -> int:
    parts = [part.partition("-") for part in text.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in parts)


def _whole(text: str | None) -> int | Unknown:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 7 else NOT_RECORDED


def _number(text: str | None) -> float | Unknown:
    return float(text) if text and re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", text) else NOT_RECORDED
