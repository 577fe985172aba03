"""Parse `nvidia-smi -q -x`, schemas 10 to 13 (drivers 418 to 610)."""

import re
from typing import Any
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from probes.base.record import Reason, Record, Unknown
from probes.base.units import plural
from probes.facts import Gpu, Unread
from probes.parsers.nvidia_smi.nvidia_words import printed, whole
from probes.parsers.nvidia_smi.nvsmi_sections import Tree, path_word, read_tree

_ROOT = "<nvidia_smi_log"
_END = "</nvidia_smi_log>"
_PART = re.compile(r'<gpu id="[0-9A-Fa-f]{4,8}:')
"""Start of the element of a GPU, for pasted texts without the surrounding log."""
_DEEPEST = 8
"""Maximum depth of elements that is read; no schema has so many levels."""


class SmiLog(Record, kw_only=True):
    """Content of one output; `gpus` contains the complete elements, in the order of NVML's indices."""

    driver_version: str | Unknown
    cuda_version: str | Unknown
    attached_gpus: int | Unknown
    """Number of GPUs that the driver counted; more than `gpus` if the output was shortened."""
    gpus: tuple[Gpu, ...]
    problem: str = ""
    """Reason why the output ends early; empty if it is complete."""


def recognise(text: str) -> bool:
    return _ROOT in text or _PART.search(text) is not None


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the log; none if it cannot be read."""
    log = parse_smi_xml(text)
    return () if isinstance(log, Unknown) else log.gpus


def attached_gpus(text: str) -> int | Unknown | None:
    """Return the number of GPUs that the driver counted; None if the log cannot be read."""
    log = parse_smi_xml(text)
    return None if isinstance(log, Unknown) else log.attached_gpus


def unread(text: str) -> tuple[Unread, ...]:
    """Report a log that ends early, or that has fewer GPUs than the driver counted."""
    log = parse_smi_xml(text)
    line, why = 0, ""
    if isinstance(log, Unknown):
        why = log.detail
    elif log.problem:
        line, why = len(text.splitlines()), log.problem
    elif isinstance(log.attached_gpus, int) and log.attached_gpus > len(log.gpus):
        why = f"the log counts {plural(log.attached_gpus, 'GPU')}, but contains {len(log.gpus)}"
    return (Unread(source="", line=line, why=why),) if why else ()


def parse_smi_xml(text: str) -> SmiLog | Unknown:
    """Return the log in `text`; Unknown if there is no log, or if GPUs are attached but none is complete.

    All text before the root element, such as the document type, is skipped, so no entity is ever defined.
    """
    start = text.find(_ROOT)
    part = _PART.search(text) if start < 0 else None
    if part is not None:
        end = text.rfind("</gpu>")
        text = f"{_ROOT}>{text[part.start() : end + len('</gpu>') if end >= 0 else len(text)]}{_END}"
        start = 0
    if start < 0:
        return Unknown(Reason.UNPARSABLE, "no nvidia_smi_log in the output of nvidia-smi -q -x")
    root, elements, problem = _read(text[start:])
    if root is None:
        return Unknown(Reason.UNPARSABLE, f"nvidia-smi -q -x: {problem}")
    driver = printed(root.findtext("driver_version"), "driver_version")
    attached = whole(root.findtext("attached_gpus"), "attached_gpus")
    if not elements and (problem or attached != 0):
        return Unknown(Reason.UNPARSABLE, f"nvidia-smi -q -x: {problem or 'no gpu element'}")
    return SmiLog(
        driver_version=driver,
        cuda_version=printed(root.findtext("cuda_version"), "cuda_version"),
        attached_gpus=attached,
        gpus=tuple(read_tree(index, _tree(element), driver, ()) for index, element in enumerate(elements)),
        problem=problem,
    )


def _read(text: str) -> tuple[Element | None, list[Element], str]:
    """Return the root, the complete GPU elements and, if the rest is damaged or missing, the problem."""
    end = text.find(_END)
    parser: XMLPullParser[Any] = XMLPullParser(events=("start", "end"))
    root: Element | None = None
    gpus: list[Element] = []
    try:
        parser.feed(text if end < 0 else text[: end + len(_END)])
        for event in parser.read_events():
            kind, element = event[0], event[-1]
            if isinstance(element, Element):
                root = element if root is None else root
                if kind == "end" and element.tag == "gpu":
                    gpus.append(element)
        parser.close()
    except ParseError as error:
        return root, gpus, f"damaged or cut XML ({error})"
    return root, gpus, ""


def _tree(gpu: Element) -> Tree:
    """Return the values of a GPU's element by path."""
    tree = Tree()
    if address := gpu.get("id"):
        tree.add("id", address)
    waiting = [("", child, 1) for child in reversed(gpu)]
    while waiting:
        above, element, depth = waiting.pop()
        path = f"{above}{path_word(element.tag)}"
        if len(element) == 0:
            tree.add(path, (element.text or "").strip())
        elif depth < _DEEPEST:
            section = tree.section(path)
            waiting += [(f"{section}/", child, depth + 1) for child in reversed(element)]
    return tree
