"""Parse `nvidia-smi -q`, whole or in part (-d): drivers 418 to 610, Linux and Windows."""

import re
from typing import NamedTuple

import msgspec

from probes.base.record import NOT_RECORDED, Record, Unknown, line_ref
from probes.base.units import plural
from probes.facts import Gpu, Unread
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.nvidia_smi.nvidia_words import printed, whole
from probes.parsers.nvidia_smi.nvsmi_sections import Tree, path_word, read_tree

_LOG = re.compile(r"^=+ ?NVSMI LOG ?=+[ \t]*$", re.MULTILINE)
_GPU = re.compile(
    r"^[ \t]{0,8}GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])[ \t]*$", re.MULTILINE
)
_PART = re.compile(
    r"^[ \t]*(?:ECC Errors[ \t]*\n[ \t]*Volatile|Retired Pages[ \t]*\n[ \t]*Single Bit ECC[ \t]*:"
    r"|Remapped Rows[ \t]*\n[ \t]*Correctable Error[ \t]*:"
    r"|Clocks (?:Event|Throttle) Reasons[ \t]*\n[ \t]*Idle[ \t]*:"
    r"|(?:Volatile|Aggregate)[ \t]*\n[ \t]*(?:[SD]RAM Correctable[ \t]*:|Single Bit[ \t]*\n)"
    r"|Fabric[ \t]*\n[ \t]*State[ \t]*:|GPU Recovery Action[ \t]*: )",
    re.MULTILINE | re.IGNORECASE,
)
"""Sections that identify a pasted part without the line that names the GPU."""
_HEADER = {
    "driver_version": "driver",
    "kmd_version": "driver",
    "cuda_version": "cuda",
    "cuda_umd_version": "cuda",
    "attached_gpus": "attached",
}
_REMARK = re.compile(r"\s+\[[^\]]*\]?$")
"""Remark that driver 610 writes after the values of renamed labels."""
_CUT = "[...]"
_PARENTS = {
    "volatile": "ecc_errors/",
    "aggregate": "ecc_errors/",
    "gpu_link_info": "pci/",
    "pcie_generation": "pci/gpu_link_info/",
    "link_width": "pci/gpu_link_info/",
    "bank_remap_availability_histogram": "remapped_rows/",
    "health": "fabric/",
}
"""Path of the parent of a nested section, for pasted texts that lost their indentation."""
_WRAPPER = "performance"
"""Heading that some outputs of `-d PERFORMANCE` put above the clock event reasons."""
_PROCESS = {"type": "type", "name": "process_name", "used_gpu_memory": "used_memory"}
"""Name in XML of a value of a process, with its label in the text as the key."""
_DEEPEST = 8
"""Maximum depth of sections that is read."""


class SmiText(Record, kw_only=True):
    """Content of one output; `gpus` contains the GPUs with a block, in the order of the output."""

    driver_version: str | Unknown = NOT_RECORDED
    cuda_version: str | Unknown = NOT_RECORDED
    attached_gpus: int | Unknown = NOT_RECORDED
    gpus: tuple[Gpu, ...] = ()
    unread: tuple[Unread, ...] = ()


class _Line(NamedTuple):
    number: int
    indent: int
    label: str
    value: str | None
    """Text after the colon; None for the heading of a section."""


class _Block(NamedTuple):
    """Lines of one GPU."""

    address: str
    """PCI address; empty if the paste does not name the GPU."""
    number: int
    lines: list[_Line]


def recognise(text: str) -> bool:
    return bool(_LOG.search(text) or _GPU.search(text) or _PART.search(text))


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the report."""
    return parse_smi_text(text).gpus


def attached_gpus(text: str) -> int | Unknown | None:
    """Return the number of GPUs that the driver counted; None if the text does not contain it."""
    count = parse_smi_text(text).attached_gpus
    return None if count == NOT_RECORDED else count


def unread(text: str) -> tuple[Unread, ...]:
    """Return the places at which the report was cut."""
    return parse_smi_text(text).unread


def parse_smi_text(text: str) -> SmiText:
    """Return the content of `text`; an empty record if `text` is not a report."""
    header: dict[str, str] = {}
    blocks: list[_Block] = []
    cuts: list[Unread] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        if raw.strip() == _CUT:
            cuts.append(Unread(source="", line=number, text=_CUT, why="the report was shortened here"))
        elif (heading := _GPU.match(raw)) is not None:
            blocks.append(_Block(heading[1], number, []))
        elif (line := _line(number, raw)) is not None:
            if line.value is not None and path_word(line.label) in _HEADER:
                header[_HEADER[path_word(line.label)]] = _REMARK.sub("", line.value)
            elif blocks:
                blocks[-1].lines.append(line)
            elif _PART.match(raw) or _starts_part(line):
                # The paste begins within a GPU's block, without the line that names the GPU.
                blocks.append(_Block("", number, [line]))
    driver = printed(header.get("driver"), "driver version")
    gpus = tuple(_gpu(index, block, driver) for index, block in enumerate(blocks))
    attached = whole(header.get("attached"), "attached GPUs") if "attached" in header else NOT_RECORDED
    if isinstance(attached, int) and attached > len(gpus):
        why = f"the header counts {plural(attached, 'GPU')}, but the report contains {len(gpus)}"
        cuts.append(Unread(source="", line=len(text.splitlines()), why=why))
    return SmiText(
        driver_version=driver,
        cuda_version=printed(header.get("cuda"), "CUDA version"),
        attached_gpus=attached,
        gpus=gpus,
        unread=tuple(cuts),
    )


_PART_NAMES = frozenset(
    (
        "ecc_errors",
        "volatile",
        "aggregate",
        "retired_pages",
        "remapped_rows",
        "clocks_event_reasons",
        "clocks_throttle_reasons",
        "fabric",
        "temperature",
    )
)


def _starts_part(line: _Line) -> bool:
    word = path_word(line.label)
    return (line.value is None and word in _PART_NAMES) or (
        word == "gpu_recovery_action" and line.value is not None
    )


def _line(number: int, raw: str) -> _Line | None:
    """Return a label with its value, or a heading; None for other lines."""
    stripped = raw.strip()
    if not stripped or stripped.startswith(("=", "+", "|", "#")) or len(stripped) > 400:
        return None
    indent = len(raw) - len(raw.lstrip())
    label, colon, value = stripped.partition(" : ") if " : " in stripped else stripped.partition(":")
    if colon and (not value or value[0] == " " or " : " in stripped):
        return _Line(number, indent, label.strip(), value.strip())
    return None if colon else _Line(number, indent, stripped, None)


def _gpu(index: int, block: _Block, driver: str | Unknown) -> Gpu:
    tree = _tree(block.lines)
    if block.address:
        tree.add("id", block.address)
    gpu = read_tree(index, tree, driver, (line_ref(block.number),))
    return gpu if block.address else msgspec.structs.replace(gpu, index=UNNUMBERED)


def _tree(lines: list[_Line]) -> Tree:
    """Return the values of one block by path; the indentation, if there is one, shows the sections."""
    tree = Tree()
    is_flat = len({line.indent for line in lines}) == 1
    stack: list[tuple[int, str]] = []
    for line in lines:
        word = path_word(line.label)
        if not word or (word == _WRAPPER and line.value is None):
            continue
        while stack and not is_flat and stack[-1][0] >= line.indent:
            stack.pop()
        above = f"{stack[-1][1]}/" if stack else ""
        if line.value is None:
            # Without indentation, a heading ends the section before it.
            parent = above if above and not is_flat else _PARENTS.get(word, "")
            if is_flat or len(stack) < _DEEPEST:
                kept = [] if is_flat else stack
                stack = [*kept, (line.indent, tree.section(f"{parent}{word}"))]
        elif above.startswith("processes/"):
            _process_line(tree, word, line.value)
        else:
            tree.add(f"{above}{word}", line.value)
            if is_flat:
                tree.add(word, line.value)
            elif len(stack) < _DEEPEST:
                # `HW Slowdown : Active` is a value and also the heading of its causes.
                stack.append((line.indent, f"{above}{word}"))
    return tree


def _process_line(tree: Tree, word: str, value: str) -> None:
    """Add a line of a process; each process begins with its id."""
    if word == "process_id":
        tree.add(f"{tree.section('processes/process_info')}/pid", value)
    elif word in _PROCESS and (sections := tree.numbered("processes/process_info")):
        tree.add(f"{sections[-1]}/{_PROCESS[word]}", value)
