"""Parse NCCL's graph XML (NCCL_GRAPH_FILE, NCCL_GRAPH_DUMP_FILE): the rings and trees of its search.

The file shows how many GPUs took part and which paths the search assumed; the topology file describes the
machine itself. Source: NVIDIA/nccl, src/graph/search.cc (read 2026-11).
"""

import re

from probes.base.record import line_ref
from probes.facts import Gpu, Unread
from probes.parsers.topology.xml_events import Element, walk

_MARK = re.compile(r"<graphs\b[^<>]{0,80}>|<graph id=\"\d{1,3}\" pattern=")
_TAGS = ("graphs", "graph ")
_MOST_GPUS = 1024


def recognise(text: str) -> bool:
    return _MARK.search(text) is not None


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the channels by NCCL's device numbers."""
    lines: dict[int, int] = {}

    def take(element: Element) -> None:
        dev = (element.attributes or {}).get("dev", "")
        if (
            element.tag == "gpu"
            and dev.isascii()
            and dev.isdigit()
            and len(dev) < 6
            and len(lines) < _MOST_GPUS
        ):
            lines.setdefault(int(dev), element.line)

    walk(text, _TAGS, take)
    return tuple(Gpu(index=dev, evidence=(line_ref(line),)) for dev, line in sorted(lines.items()))


def parse_unread(text: str) -> tuple[Unread, ...]:
    end = walk(text, _TAGS, lambda _: None)
    return () if end is None else (Unread(source="", line=end[0], text="", why=end[1]),)
