"""Parse a log that NCCL wrote with NCCL_DEBUG set, of any version, launcher and plugin.

The log contains errors of NCCL, its plugins and torch, remarks about settings and states that cost speed, and
the transports between ranks. Prefixes of launchers (`0: `, `[1,2]<stdout>:`, `[rank0]:`) and time stamps may
precede each line.

NCCL prints a line per channel and peer: `Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read`,
`via SHM/direct/direct`, `[send] via NET/IB/3(5)/GDRDMA`, `via COLLNET/SHARP/0`, but none for NVLink SHARP.
`NVLS comm 0x... headRank 0 ...` reports the buffers of NVLink SHARP, which NCCL creates only if it will use
NVLink SHARP (2.18 and newer). `Connected NVLS tree` occurs within one host in the first versions, later
between hosts only. Source: NCCL, src/transport/*.cc and src/transport/nvls.cc, versions 2.16 to 2.30.
"""

import re

from probes.base.patterns import pattern
from probes.facts import LogEvent
from probes.parsers.kernel.log_lines import lines_with
from probes.parsers.kernel.log_tally import Sighting, Tally

_SIGNS = (
    "NCCL INFO ",
    "NCCL WARN ",
    "NCCL CALL ",
    "NCCL TRACE ",
    "NCCL error in",
    "ProcessGroupNCCL.cpp",
    ": NET/OFI ",
)
_OLD_LINE = pattern(r"\S{1,80}:\d{1,9}:\d{1,9} \[\d{1,3}\] (?:\S{1,80}:\d{1,6} )?(?:INFO|WARN) \S")
_SOURCE_LINE = pattern(
    r"^\S{1,60}\.(?:cu|cc|h):\d{1,6} WARN \S|(?:Test )?(?:CUDA|Cuda) failure \S{1,60}\.cu:\d{1,6} '", re.M
)
_WORDS = dict.fromkeys(
    (
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
    ),
    0,
)
"""Every line of interest contains one of these words."""
_SOCKETS = pattern(r"NET/Socket ?: Using \[\d{1,3}\]([\w.-]{1,32}):|Using (?:internal )?[Nn]etwork Socket")
_NO_ADAPTER = pattern(
    r"NET/IB ?: No device found|[Ff]ailed to open libibverbs|(?:Could|Count) not open libibverbs"
)
_PLUGIN = pattern(r"P2P plugin (IBext\w{0,8})|NET/(OFI|Libfabric)")
_RDMA = pattern(
    r"Using network (?![Ss]ocket)|NET/IB ?: Using \[|[Ss]elected [Pp]rovider|via NET/(?!Socket)"
    r"|NET/(?:GPUDirectTCPX|FasTrak)"
)
_FABRIC_INTERFACE = pattern(r"ib[a-z]*\d")
_FATAL = pattern(
    r"[Cc]uda failure|CUDA failure|Call to \S{1,40} (?:to \S{1,80} )?(?:failed|returned|timed out)|"
    r"Call to connect failed|Got completion .{0,120}(?:error|status)|completed with error|Duplicate GPU|"
    r"using the same GPU|failed to (?:extend|open shared)|(?:creating|attaching to) shared memory segment|"
    r"No space left|Cannot allocate memory|[Cc]onnection (?:closed|refused|reset|timed out)|"
    r"Socket recv failed|wrong type|[Nn]o socket interface|No usable listening|No route to host|"
    r"unhandled \w{1,20} error|internal (?:error|check failed)|mismatch|already checked in|"
    r"Message truncated|async fatal|incompatible devices|[Nn]o algorithm|Failed to bind NVLink SHARP|"
    r"OFI NCCL failure|"
    r"Connect to \S{1,100} failed|Failed to execute operation|Failed to CUDA \w{0,10}alloc|Allocation failed|"
    r"NET/OFI .{0,120}(?:failed|RC: -\d|ERROR)|"
    r"optimal provider|Caught signal|exceeded|invalid (?:usage|argument)|ncclRemoteError|timed? ?out"
)
"""Patterns of warnings after which the run ends. After other warnings, NCCL continues more slowly."""
_NEGLIGIBLE = pattern(
    r"Failed to open libibverbs|Failed to find .{0,60}symbol|Could not find: lib|No plugin found|"
    r"dlvsym failed|"
    r"Failed to open CUDA library|NVLS multicast support is not available"
)
"""Warnings without effect on the run."""
_ENVELOPE = pattern(
    r"NCCL WARN |\] (?:\S{1,80}:\d{1,6} )?WARN |^\S{1,80}\.(?:cu|cc|h):\d{1,6} WARN |"
    r"^(?:\[\S{1,40}\])?WARN: "
)
_WARNING = pattern(r"(?:^|\s)(?:NCCL )?WARN:? (.{1,2000})")
_OFI = pattern(r"Function: \w{1,60} Line: \d{1,6}: ")
_FATAL_LINES = (
    pattern(r"(?:Test )?(?:CUDA|Cuda|NCCL) failure \S{1,80}:\d{1,6} '(.{1,200}?)'"),
    pattern(r"Caught signal \d{1,3}.{0,80}"),
    pattern(
        r"DistBackendError: (.{1,400})|(Watchdog caught collective operation timeout.{0,300})|"
        r"((?:RuntimeError: NCCL error|Some NCCL operations have failed|NCCL communicator was aborted)"
        r".{0,300})"
    ),
    pattern(r"nccl(?:UnhandledCudaError|SystemError|InternalError|InvalidUsage|RemoteError): .*"),
    pattern(r"^Duplicate GPU detected.*"),
)
"""Patterns of lines without NCCL's prefix with which a program reports the end of a run; the last group, if
any, is the message.
"""

_SWITCHED_OFF = pattern(
    r"\b(NCCL_(?:IB|IBEXT|P2P|SHM|NET_GDR|CUMEM|COLLNET)\w{0,24}_?DISABLE) set by environment to 1\b"
)
_REFUSED = pattern(r"P2P is disabled between (?:\w{1,20} )?connected GPUs.{0,40}")
_APART = pattern(
    r"Could not enable P2P between dev \d{1,4}\(=([0-9a-f]{1,12})\) and dev \d{1,4}\(=([0-9a-f]{1,12})\)"
)
_ADAPTERS = pattern(r"NET/IB ?: Using (\[\d.{1,4000})")
_RECEIVE = pattern(r"\[receive\] via NET/IB(?:ext)?\w{0,8}/\d{1,4}(\S{0,40})")
_HEALTH = pattern(r"healthMask 0x([0-9a-fA-F]{1,8})\b")
_VARIABLE = pattern(r"0x[0-9a-fA-F]+|/dev/shm/\S+|\d+")
_VIA = pattern(r"\bvia (P2P|SHM|NET|COLLNET)/([\w .-]{1,40})((?:/[\w ().-]{1,40}){0,4})")
_NVLS = pattern(r"Connected NVLS tree|NVLS comm \w+ headRank")


def recognise(text: str) -> bool:
    return any(sign in text for sign in _SIGNS) or bool(
        _OLD_LINE.search(text[: 1 << 20]) or _SOURCE_LINE.search(text[: 1 << 20])
    )


def parse_nccl_log(text: str) -> tuple[LogEvent, ...]:
    """Return one event per kind of problem, with the first line of the problem; empty for a healthy log."""
    tally = Tally()
    for number, line, _ in lines_with(text, _WORDS):
        if (sighting := read_nccl_line(line.strip())) is not None:
            tally.add(sighting, number, "")
    if (tcp := _sockets(text)) is not None:
        sighting, position = tcp
        tally.add(sighting, text.count("\n", 0, position) + 1, "")
    return tally.events()


def _sockets(text: str) -> tuple[Sighting, int] | None:
    """Return the problem that nodes communicate by TCP although they may have RDMA devices, and its position.

    None if the log contains no sign of TCP or a sign of RDMA, or if NCCL has no plugin for RDMA and reports
    that there is no RDMA device.
    """
    used = _SOCKETS.search(text)
    if used is None or _RDMA.search(text) is not None:
        return None
    interface = used[1] or ""
    plugin = _PLUGIN.search(text)
    if _FABRIC_INTERFACE.match(interface):
        words = f"NCCL uses TCP over the InfiniBand interface {interface}: no RDMA device is visible"
    elif plugin is not None and (_NO_ADAPTER.search(text) or not interface):
        name = plugin[1] or plugin[2]
        words = f"NCCL uses TCP although the plugin for RDMA ({name}) is loaded: no RDMA device is visible"
    elif _NO_ADAPTER.search(text) is None:
        over = f" over {interface}" if interface else ""
        words = f"NCCL uses TCP{over}, and does not report that RDMA devices are missing"
    else:
        return None
    return Sighting("nccl-warning", words, fatal=False, variant="sockets"), used.start()


def read_nccl_line(line: str) -> Sighting | None:
    """Return the problem that a line reports; None for lines that a healthy run also prints."""
    for fatal_line in _FATAL_LINES:
        if (match := fatal_line.search(line)) is not None:
            return _sighting(match[match.lastindex or 0], fatal=True)
    if _ENVELOPE.search(line) is not None and (match := _WARNING.search(line)) is not None:
        words = _OFI.sub("", match[1]).strip()
        if not words or _NEGLIGIBLE.search(words):
            return None
        return _sighting(words, fatal=_FATAL.search(words) is not None)
    return _remark(line)


def _remark(line: str) -> Sighting | None:
    """Return the problem that NCCL reports in a line that is not a warning."""
    words, variant = "", ""
    if (match := _REFUSED.search(line)) is not None:
        words = match[0].rstrip(". ")
    elif (match := _SWITCHED_OFF.search(line)) is not None:
        words, variant = f"{match[1]} is set: this debugging switch costs speed", match[1]
    elif (match := _APART.search(line)) is not None and (int(match[1], 16) | int(match[2], 16)) >> 20:
        reason = "each GPU has a separate PCI domain, as in virtual machines without a topology"
        words, variant = f"{match[0]}: {reason}", "domains"
    elif (match := _ADAPTERS.search(line)) is not None and "/IB" in match[1] and "/RoCE" in match[1]:
        words, variant = f"InfiniBand and RoCE adapters are used together: {match[1][:300]}", "mixed"
    elif (match := _RECEIVE.search(line)) is not None and "GDRDMA" not in match[1]:
        words, variant = "NICs do not write into GPU memory (no GDRDMA on receiving channels)", "gdr"
    elif (match := _HEALTH.search(line)) is not None and _degraded(int(match[1], 16)):
        words, variant = f"the NVLink fabric is degraded: {match[0]}", "health"
    return _sighting(words, fatal=False, variant=variant) if words else None


def _degraded(mask: int) -> bool:
    """Return whether the health mask reports a fault.

    Each fault has a field of two bits (NVML: 0 not supported, 1 true, 2 false).
    """
    return any(mask >> shift & 3 == 1 for shift in range(0, 32, 2))


def _sighting(words: str, *, fatal: bool, variant: str = "") -> Sighting:
    """Return the problem; lines that differ only in numbers and temporary names have the same variant."""
    text = words.strip()
    return Sighting("nccl-warning", text, fatal=fatal, variant=variant or _VARIABLE.sub("#", text)[:160])


def transports(log: str) -> tuple[str, ...]:
    """Return the transports in use, sorted and without repetitions: `NET/IB/GDRDMA`, `NVLS`, `P2P/CUMEM`."""
    names = {"NVLS"} if _NVLS.search(log) else set()
    for match in _VIA.finditer(log):
        direct = "/GDRDMA" if match[1] == "NET" and "GDRDMA" in match[3] else ""
        names.add(f"{match[1]}/{match[2].partition(' comm')[0].strip()}{direct}")
    return tuple(sorted(names))
