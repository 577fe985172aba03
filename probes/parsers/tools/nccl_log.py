"""A log with NCCL_DEBUG, of any version, launcher and plugin: what it warns of, and what ended the run.

Prefixes of launchers (`0: `, `[1,2]<stdout>:`, `[rank0]:`) and time stamps may stand before each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from probes.facts import LogEvent
from probes.parsers.kernel.log_tally import Sighting, Tally
from probes.parsers.tools.nccl_words import read_nccl_line

_SIGNS = (
    "NCCL INFO ",
    "NCCL WARN ",
    "NCCL CALL ",
    "NCCL TRACE ",
    "NCCL error in",
    "ProcessGroupNCCL.cpp",
    ": NET/OFI ",
)
_OLD_LINE = re.compile(r"\S{1,80}:\d{1,9}:\d{1,9} \[\d{1,3}\] (?:\S{1,80}:\d{1,6} )?(?:INFO|WARN) \S")
_SOURCE_LINE = re.compile(
    r"^\S{1,60}\.(?:cu|cc|h):\d{1,6} WARN \S|(?:Test )?(?:CUDA|Cuda) failure \S{1,60}\.cu:\d{1,6} '", re.M
)
_WORDS = (
    "WARN",
    "failure",
    "Caught signal",
    "DistBackendError",
    "NCCL error",
    "Watchdog caught",
    "Some NCCL operations",
    "communicator was aborted",
    "Error: ",
    "InvalidUsage: ",
    "Duplicate GPU",
    "P2P",
    "_DISABLE set",
    "NET/IB",
    "healthMask",
)
_SOCKETS = re.compile(r"NET/Socket ?: Using \[\d{1,3}\]([\w.-]{1,32}):|Using (?:internal )?[Nn]etwork Socket")
_NO_ADAPTER = re.compile(
    r"NET/IB ?: No device found|[Ff]ailed to open libibverbs|Could not open libibverbs|Count not open libibverbs"
)
_PLUGIN = re.compile(r"P2P plugin (IBext\w{0,8})|NET/(OFI|Libfabric)")
_RDMA = re.compile(
    r"Using network (?![Ss]ocket)|NET/IB ?: Using \[|[Ss]elected [Pp]rovider|via NET/(?!Socket)|NET/(?:GPUDirectTCPX|FasTrak)"
)
_FABRIC_INTERFACE = re.compile(r"ib[a-z]*\d")
_LONGEST_LINE = 8192
_WINDOW = 1 << 20


def recognise(text: str) -> bool:
    return any(sign in text for sign in _SIGNS) or bool(
        _OLD_LINE.search(text[: 1 << 20]) or _SOURCE_LINE.search(text[: 1 << 20])
    )


def parse_nccl_log(text: str) -> tuple[LogEvent, ...]:
    """One event for each thing that is wrong, with its first line. A healthy log has none."""
    tally = Tally()
    number, counted = 1, 0
    for start in _candidates(text):
        number += text.count("\n", counted, start)
        counted = start
        end = text.find("\n", start, start + _LONGEST_LINE)
        line = text[start : end if end >= 0 else start + _LONGEST_LINE]
        if (sighting := read_nccl_line(line.strip())) is not None:
            tally.add(sighting, number, "")
    if (slow := _sockets(text)) is not None:
        sighting, position = slow
        tally.add(sighting, text.count("\n", 0, position) + 1, "")
    return tally.events()


def _sockets(text: str) -> tuple[Sighting, int] | None:
    """TCP between nodes, where the log does not say that there is nothing faster."""
    used = _SOCKETS.search(text)
    if used is None or _RDMA.search(text) is not None:
        return None
    interface = used[1] or ""
    plugin = _PLUGIN.search(text)
    if _FABRIC_INTERFACE.match(interface):
        words = f"NCCL uses TCP over the InfiniBand interface {interface}: no RDMA device is visible"
    elif plugin is not None and (_NO_ADAPTER.search(text) or not interface):
        words = f"NCCL uses TCP although the plugin for RDMA ({plugin[1] or plugin[2]}) is there: no RDMA device is visible"
    elif _NO_ADAPTER.search(text) is None:
        words = f"NCCL uses TCP{f' over {interface}' if interface else ''}, and does not say that there is no RDMA device"
    else:
        return None
    return Sighting("nccl-warning", words, fatal=False, variant="sockets"), used.start()


def _candidates(text: str) -> Iterator[int]:
    """Where the lines begin that contain a word of interest, in order."""
    following = {word: text.find(word) for word in _WORDS}
    low = 0
    while low < len(text):
        end_of_line = text.find("\n", low + _WINDOW)
        high = end_of_line if end_of_line >= 0 else len(text)
        found: set[int] = set()
        for word in _WORDS:
            position = following[word]
            while 0 <= position < high:
                found.add(text.rfind("\n", 0, position) + 1)
                end = text.find("\n", position)
                position = text.find(word, end) if end >= 0 else -1
            following[word] = position
        yield from sorted(found)
        low = high
