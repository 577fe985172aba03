"""Reader of NCCL's table of distances from GPUs to adapters and to each other (NCCL_DEBUG_SUBSYS=GRAPH).

`GPU/8F000 :GPU/16000 (2/264.000000/NVL) CPU/1 (3/24.000000/PHB) NET/4 (4/24.000000/PXB)`; from 2.20 on with
the number of the host before each address (`GPU/0-8f000`). Source: NVIDIA/nccl, src/graph/paths.cc,
printNodePaths, and topo.h, PATH_*, of tags 2.6 to 2.30.
"""

from __future__ import annotations

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.nccl_topology_events import NcclPath
from probes.logs.readers.nccl_prefix import located

SIGNS: tuple[bytes, ...] = (b" :GPU/",)

_HEAD = pattern(r"\bGPU/(?P<gpu>[0-9A-Fa-f-]{1,24}) :GPU/")
_WAY = pattern(r"(GPU|NET)/[0-9A-Fa-f-]{1,24} \(\d{1,3}/[\d.]{1,16}/([A-Z0-9]{3})\)")
_NEAREST_FIRST = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the ways of one GPU."""
    head = _HEAD.search(line.text)
    if head is None:
        return ()
    ways = [
        (match[1], match[2])
        for match in _WAY.finditer(line.text, head.end() - len("GPU/"))
        if match[2] in _NEAREST_FIRST
    ]
    to_nic = [way for to, way in ways if to == "NET"]
    to_gpu = [way for to, way in ways if to == "GPU" and way != "LOC"]
    if not to_nic and not to_gpu:
        return ()
    path = NcclPath(
        gpu=head["gpu"],
        to_nic=min(to_nic, key=_NEAREST_FIRST.index, default=None),
        to_gpu=max(to_gpu, key=_NEAREST_FIRST.index, default=None),
    )
    return (event_of(path, located(line)),)
