"""Reader of state and error counters of NVLinks: whole files of `nvidia-smi nvlink` and `dcgmi nvlink`.

Source: `probes/parsers/nvidia_smi/nvlink_status.py`, `nvlink_errors.py`, `dcgm_nvlink.py` and what they name.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.patterns import pattern
from probes.base.record import Unknown
from probes.base.units import GB
from probes.facts import Gpu, NvLink
from probes.facts.gpu_facts import UNNUMBERED
from probes.logs.event import Event
from probes.logs.events.host_events import (
    NvlinkAllDown,
    NvlinkErrors,
    NvlinkGpu,
    NvlinkLinkDown,
    NvlinkNoErrors,
    NvlinkNone,
)
from probes.logs.readers.whole_files import Document
from probes.parsers.nvidia_smi import nvlink_error_counts as nvlink_errors
from probes.parsers.nvidia_smi import nvlink_status
from probes.parsers.tools import dcgm_nvlink

DOCUMENT_SIGNS: tuple[bytes, ...] = (
    b"NvLink Link Status",
    b"NVLINK Error Counts",
    b"gpuId ",
    b"\tLink 0: ",
    b" Link 0: ",
    b" Link 3: ",
    b"links are inactive",
    b"links are inActive",
    b"Replay Error",
    b"CRC FLIT",
    b"CRC Error",
    b"not have or support Nvlink",
    b"not have or support NVLink",
    b"Nvlink queries are not supported",
    b"NVLink queries are not supported",
)
_MOST = 4096
_NAMED = pattern(r"\bGPU (\d{1,3}): (.{1,120}?) \(UUID")
_COUNTERS = (("crc", "crc_errors"), ("replay", "replay_errors"), ("recovery", "recovery_errors"))


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """Return the links of every GPU of the file."""
    document = Document(name, data)
    events: list[Event] = []
    if _is_mixed(document.text):
        return ()
    for parser in (nvlink_status, nvlink_errors, dcgm_nvlink):
        if parser.recognise(document.text):
            for gpu in parser.parse_gpus(document.text)[:_MOST]:
                events += _events(document, gpu)
    return tuple(events[:_MOST])


def _is_mixed(text: str) -> bool:
    """Return whether a GPU has several names: a file of several machines, whose lines cannot be separated."""
    names: dict[str, str] = {}
    return any(names.setdefault(number, name) != name for number, name in _NAMED.findall(text))


def _events(document: Document, gpu: Gpu) -> Iterator[Event]:
    links = gpu.nvlinks
    index, name = gpu.index, gpu.name if isinstance(gpu.name, str) else None
    if not isinstance(links, tuple) or not links:
        reason = (links.detail or None) if isinstance(links, Unknown) else None
        yield document.event(NvlinkNone(gpu=index, name=name, reason=reason), gpu.evidence)
        return
    up = [link for link in links if link.active is True]
    down = [link for link in links if link.active is False and link.disabled is not True]
    disabled = [link for link in links if link.disabled is True]
    if up or down or disabled:
        rate = sum(_rate(link) for link in up)
        gbps = round(rate / GB, 3) if rate else None
        state = NvlinkGpu(gpu=index, name=name, up=len(up), down=len(down), disabled=len(disabled), gbps=gbps)
        yield document.event(state, gpu.evidence)
    if down and not up:
        yield document.event(NvlinkAllDown(gpu=index, name=name), gpu.evidence)
    for link in down if up else ():
        yield document.event(NvlinkLinkDown(gpu=index, name=name, link=_number(link)), gpu.evidence)
    counted = [getattr(link, field) for link in links for _, field in _COUNTERS]
    if 0 in counted and not any(isinstance(count, int) and count > 0 for count in counted):
        yield document.event(NvlinkNoErrors(gpu=index, name=name), gpu.evidence)
    for link in links:
        for counter, field in _COUNTERS:
            count = getattr(link, field)
            if isinstance(count, int) and count > 0:
                errors = NvlinkErrors(gpu=index, name=name, link=_number(link), counter=counter, count=count)
                yield document.event(errors, gpu.evidence)


def _number(link: NvLink) -> int | None:
    return None if link.index == UNNUMBERED else link.index


def _rate(link: NvLink) -> float:
    return float(link.bandwidth_bytes_per_s) if isinstance(link.bandwidth_bytes_per_s, int | float) else 0.0
