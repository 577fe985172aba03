"""Parse a log with NCCL_DEBUG, of any version, launcher and plugin: its warnings, and what ended the run.

Prefixes of launchers (`0: `, `[1,2]<stdout>:`, `[rank0]:`) and time stamps may precede each line.
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
    r"NET/IB ?: No device found|[Ff]ailed to open libibverbs|(?:Could|Count) not open libibverbs"
)
_PLUGIN = re.compile(r"P2P plugin (IBext\w{0,8})|NET/(OFI|Libfabric)")
_RDMA = re.compile(
    r"Using network (?![Ss]ocket)|NET/IB ?: Using \[|[Ss]elected [Pp]rovider|via NET/(?!Socket)"
    r"|NET/(?:GPUDirectTCPX|FasTrak)"
)
_FABRIC_INTERFACE = re.compile(r"ib[a-z]*\d")
_LONGEST_LINE = 8192
_WINDOW = 1 << 20


def recognise(text: str) -> bool:
    return any(sign in text for sign in _SIGNS) or bool(
        _OLD_LINE.search(text[: 1 << 20]) or _SOURCE_LINE.search(text[: 1 << 20])
    )


def parse_nccl_log(text: str) -> tuple[LogEvent, ...]:
    """Return one event per kind of problem, with its first line; none for a healthy log."""
    tally = Tally()
    number, counted = 1, 0
    for start in _candidates(text):
        number += text.count("\n", counted, start)
        counted = start
        end = text.find("\n", start, start + _LONGEST_LINE)
        line = text[start : end if end >= 0 else start + _LONGEST_LINE]
        if (sighting := read_nccl_line(line.strip())) is not None:
            tally.add(sighting, number, "")
    if (tcp := _sockets(text)) is not None:
        sighting, position = tcp
        tally.add(sighting, text.count("\n", 0, position) + 1, "")
    return tally.events()


def _sockets(text: str) -> tuple[Sighting, int] | None:
    """Return a problem and its position if nodes communicate by TCP and the log may hide a faster way."""
    used = _SOCKETS.search(text)
    if used is None or _RDMA.search(text) is not None:
        return None
    interface = used[1] or ""
    plugin = _PLUGIN.search(text)
    if _FABRIC_INTERFACE.match(interface):
        words = f"NCCL uses TCP over the InfiniBand interface {interface}: no RDMA device is visible"
    elif plugin is not None and (_NO_ADAPTER.search(text) or not interface):
        name = plugin[1] or plugin[2]
        words = f"NCCL uses TCP although the plugin for RDMA ({name}) is there: no RDMA device is visible"
    elif _NO_ADAPTER.search(text) is None:
        over = f" over {interface}" if interface else ""
        words = f"NCCL uses TCP{over}, and does not say that there is no RDMA device"
    else:
        return None
    return Sighting("nccl-warning", words, fatal=False, variant="sockets"), used.start()


def _candidates(text: str) -> Iterator[int]:
    """Return the positions where lines with a word of interest begin, in order."""
    following = {word: text.find(word) for word in _WORDS}
    # The text is searched in windows, so that the positions are in order without a list of all of them.
    low = 0
    while low < len(text):
        end_of_line = text.find("\n", low + _WINDOW)
        high = end_of_line if end_of_line >= 0 else len(text)
        line_starts: set[int] = set()
        for word in _WORDS:
            position = following[word]
            while 0 <= position < high:
                line_starts.add(text.rfind("\n", 0, position) + 1)
                end = text.find("\n", position)
                position = text.find(word, end) if end >= 0 else -1
            following[word] = position
        yield from sorted(line_starts)
        low = high
