"""Read the errors of NCCL, its plugins and torch, and their remarks about things that cost speed."""

from __future__ import annotations

import re

from probes.parsers.kernel.log_tally import Sighting

_FATAL = re.compile(
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
"""Words after which the run ends. After other warnings NCCL continues in a slower way."""
_NEGLIGIBLE = re.compile(
    r"Failed to open libibverbs|Failed to find .{0,60}symbol|Could not find: lib|No plugin found|"
    r"dlvsym failed|"
    r"Failed to open CUDA library|NVLS multicast support is not available"
)
"""Warnings without effect on the run."""
_ENVELOPE = re.compile(
    r"NCCL WARN |\] (?:\S{1,80}:\d{1,6} )?WARN |^\S{1,80}\.(?:cu|cc|h):\d{1,6} WARN |"
    r"^(?:\[\S{1,40}\])?WARN: "
)
_WARNING = re.compile(r"(?:^|\s)(?:NCCL )?WARN:? (.{1,2000})")
_OFI = re.compile(r"Function: \w{1,60} Line: \d{1,6}: ")
_TORCH = re.compile(
    r"DistBackendError: (.{1,400})|(Watchdog caught collective operation timeout.{0,300})|"
    r"((?:RuntimeError: NCCL error|Some NCCL operations have failed|NCCL communicator was aborted).{0,300})"
)
_TORCH_CAUSE = re.compile(r"nccl(?:UnhandledCudaError|SystemError|InternalError|InvalidUsage|RemoteError): ")
_TEST = re.compile(r"(?:Test )?(?:CUDA|Cuda|NCCL) failure \S{1,80}:\d{1,6} '(.{1,200}?)'")
_SIGNAL = re.compile(r"Caught signal \d{1,3}.{0,80}")
_SWITCHED_OFF = re.compile(
    r"\b(NCCL_(?:IB|IBEXT|P2P|SHM|NET_GDR|CUMEM|COLLNET)\w{0,24}_?DISABLE) set by environment to 1\b"
)
_REFUSED = re.compile(r"P2P is disabled between (?:\w{1,20} )?connected GPUs.{0,40}")
_APART = re.compile(
    r"Could not enable P2P between dev \d{1,4}\(=([0-9a-f]{1,12})\) and dev \d{1,4}\(=([0-9a-f]{1,12})\)"
)
_ADAPTERS = re.compile(r"NET/IB ?: Using (\[\d.{1,4000})")
_RECEIVE = re.compile(r"\[receive\] via NET/IB(?:ext)?\w{0,8}/\d{1,4}(\S{0,40})")
_HEALTH = re.compile(r"healthMask 0x([0-9a-fA-F]{1,8})\b")
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|/dev/shm/\S+|\d+")


def read_nccl_line(line: str) -> Sighting | None:
    """Return the problem that a line reports; None for all that a healthy run prints too."""
    if (match := _TEST.search(line)) is not None or (match := _SIGNAL.search(line)) is not None:
        return _sighting(match[match.lastindex or 0], fatal=True)
    if (match := _TORCH.search(line)) is not None:
        return _sighting(match[1] or match[2] or match[3], fatal=True)
    if (match := _TORCH_CAUSE.search(line)) is not None:
        return _sighting(line[match.start() :], fatal=True)
    if line.startswith("Duplicate GPU detected"):
        return _sighting(line, fatal=True)
    if _ENVELOPE.search(line) is not None and (match := _WARNING.search(line)) is not None:
        words = _OFI.sub("", match[1]).strip()
        if not words or _NEGLIGIBLE.search(words):
            return None
        return _sighting(words, fatal=_FATAL.search(words) is not None)
    return _remark(line)


def _remark(line: str) -> Sighting | None:
    """Return the problem that NCCL mentions outside its warnings."""
    if (match := _REFUSED.search(line)) is not None:
        return _sighting(match[0].rstrip(". "), fatal=False)
    if (match := _SWITCHED_OFF.search(line)) is not None:
        return _sighting(
            f"{match[1]} is set: a switch for debugging that costs speed", fatal=False, variant=match[1]
        )
    if (match := _APART.search(line)) is not None and (int(match[1], 16) | int(match[2], 16)) >> 20:
        words = "each GPU has a PCI domain of its own, as virtual machines without a topology show them"
        return _sighting(f"{match[0]}: {words}", fatal=False, variant="domains")
    if (match := _ADAPTERS.search(line)) is not None and "/IB" in match[1] and "/RoCE" in match[1]:
        return _sighting(
            f"InfiniBand and RoCE adapters are used together: {match[1][:300]}", fatal=False, variant="mixed"
        )
    if (match := _RECEIVE.search(line)) is not None and "GDRDMA" not in match[1]:
        return _sighting(
            "NICs do not write into GPU memory (no GDRDMA on what is received)", fatal=False, variant="gdr"
        )
    if (match := _HEALTH.search(line)) is not None and _degraded(int(match[1], 16)):
        return _sighting(f"the NVLink fabric is degraded: {match[0]}", fatal=False, variant="health")
    return None


def _degraded(mask: int) -> bool:
    """Return whether the health mask reports a fault.

    Each fault has a field of two bits (NVML: 0 not supported, 1 true, 2 false).
    """
    return any(mask >> shift & 3 == 1 for shift in range(0, 32, 2))


def _sighting(words: str, *, fatal: bool, variant: str = "") -> Sighting:
    """Return the problem.

    Lines that only differ in numbers and temporary names count as the same problem.
    """
    text = words.strip()
    return Sighting("nccl-warning", text, fatal=fatal, variant=variant or _VARIABLE.sub("#", text)[:160])
