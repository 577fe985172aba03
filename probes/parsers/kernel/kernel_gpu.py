"""What the drivers of GPUs and NVSwitches write into the kernel log."""

from __future__ import annotations

import re

from probes.base.patterns import pattern
from probes.parsers.kernel.log_tally import LESSER, Sighting

_ADDRESS = r"(?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2})?)(?:\.[0-9A-Fa-f])?"
_XID = pattern(rf"(?<![A-Za-z])Xid(?: \({_ADDRESS}\): (\d{{1,6}})(?!\d)| (\d{{1,6}}) \({_ADDRESS}\):?),?(.*)")
_SXID = pattern(rf"SXid \({_ADDRESS}\): (\d{{5}})(?!\d),?(.*)")
_NVLINK5 = pattern(r"\b(Fatal|Nonfatal)\s+XC\d+\s+i\d+\s+Link (-?\d{1,3})(?: \(0x([0-9a-fA-F]{8})\b)?")
_RECOVERY = pattern(r"recovery action changed from .{0,80}? to (0x[0-9a-fA-F]{1,4} \([^()]{1,60}\))")
_CLEANUP = 45
_CAUSE = pattern(r"caused by previous Xid (\d{1,6})\b")
_GPU_ADDRESS = pattern(r"\b([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\b(?![0-9A-Fa-f:])")
_UNANSWERED = pattern(
    r"NVRM:\s+0\s+(\d{1,6})\s+(\w{1,60})\s+(?:\d{1,12}\s+)?(0x[0-9a-f]{16}) 0x[0-9a-f]{16} 0x[0-9a-f]{16} 0x0{16}\b"
)
"""The newest entry of the history of calls to the GPU's system processor, without a time at which it
ended.
"""
_GSP = pattern(
    r"Timeout (?:waiting for|after \d+s of waiting for) RPC|Rate limiting GSP RPC error|GSP RM heartbeat timed out|"
    r"GSP-?(?:RM)? (?:has )?(?:crash|lockdown|task.{0,20}(?:crash|timeout))|rpcRecvPoll.{0,60}timed? ?out"
)
_COMPLAINTS = (
    (
        "RmInitAdapter failed",
        pattern(r"RmInitAdapter failed|rm_init_adapter failed|failed to initialize the adapter", re.I),
    ),
    ("gone at load", pattern(r"^fallen off the bus and is not responding")),
    ("fallen off the bus", pattern(r"fallen off the bus|GPU (?:is )?lost\b")),
    ("API mismatch", pattern(r"API mismatch")),
    (
        "unsupported GPU",
        pattern(
            r"installed in this system is not supported|No NVIDIA (?:GPU|graphics adapter|devices) (?:found|probed)"
        ),
    ),
    (
        "probe failed",
        pattern(
            r"probe routine (?:was not called|failed)|None of the NVIDIA .{0,40}initialized|[Ff]ailed to copy vbios"
        ),
    ),
    ("out of memory", pattern(r"\[NV_ERR_NO_MEMORY\]")),
    ("assertion", pattern(r"Assertion failed: .{1,200}\[NV_ERR_\w+\]")),
)
_NAMED = pattern(rf"NVRM: The NVIDIA GPU {_ADDRESS}(?: \(PCI ID: \w{{4}}:\w{{4}}\))?$")
_HISTORY = pattern(r"NVRM: (?:GPU\d{1,3} )?RPC (?:event )?history \(CPU")
_MODULE = pattern(
    r"nvidia(?:_uvm|_modeset|_drm)?: (?:disagrees about version of symbol|Unknown symbol|version magic)|"
    r"nvidia: probe of .{1,20} failed|nvidia [0-9a-f:.]{7,16}: probe with driver nvidia failed"
)
_PEERMEM = pattern(
    r"nvidia[-_]peermem\b.{0,80}?(?:ERROR|[Ii]nvalid|failed|Unknown symbol|disagrees about version)"
)
_PEERMEM_LOAD = pattern(
    r"Unknown symbol|disagrees about version|[Ii]nvalid argument|ib_register_peer_memory_client"
)
_SWITCH = pattern(
    r"nvidia-nvswitch\d*: .*?(?:[Ff]ail|[Ee]rror|FATAL|(?<![Nn]on-)(?<![Nn]on)[Ff]atal|[Uu]nable|[Tt]imed? ?out)"
)

_UNIT = pattern(r"(?:^|[ ,])([A-Z][A-Z0-9_]{2,30}(?:/[A-Z][A-Z0-9_]{2,30})?)\s+(?:Fatal|Nonfatal)\b")


def pci_device(address: str) -> str:
    """`00000000:9B:00` and the old `009B:00` as `0000:9b:00`."""
    parts = address.lower().split(":")
    if len(parts) == 2:
        return f"0000:{parts[0][-2:]}:{parts[1]}"
    return f"{parts[0][-4:]}:{parts[1]}:{parts[2]}"


def read_xid(message: str) -> Sighting | None:
    match = _XID.search(message)
    if match is None:
        return None
    device = pci_device(match[1] or match[4])
    code, rest = int(match[2] or match[3]), match[5]
    text = message[match.start() :].rstrip()
    if code == 154 and (action := _RECOVERY.search(rest)) is not None:
        return Sighting("xid", text, device=device, code=code, variant=action[1])
    if code == _CLEANUP and (cause := _CAUSE.search(rest)) is not None:
        return Sighting("xid", text, device=device, code=code, variant=f"caused by {cause[1]}")
    nvlink = _NVLINK5.search(rest) if 144 <= code <= 150 else None
    if nvlink is None:
        return Sighting("xid", text, device=device, code=code)
    fatal = nvlink[1] == "Fatal"
    unit = _UNIT.search(rest)
    return Sighting(
        "xid",
        text,
        device=device,
        code=code,
        sub_code=int(nvlink[3], 16) >> 20 & 0x3F if nvlink[3] else None,
        fatal=fatal,
        variant=f"{unit[1] if unit else ''} {nvlink[1]} {nvlink[2]}",
    )


def read_sxid(message: str) -> Sighting | None:
    match = _SXID.search(message)
    if match is None:
        return None
    words = match[3].strip()
    fatal = (
        True
        if words.startswith("Fatal")
        else False
        if words.lower().startswith(("non-fatal", "nonfatal"))
        else None
    )
    return Sighting(
        "sxid",
        message[match.start() :].rstrip(),
        device=pci_device(match[1]),
        code=int(match[2]),
        fatal=fatal,
        adds=not words.startswith(("Data {", "Severity ")),
    )


def is_broken_xid(message: str) -> bool:
    """A line that begins as an Xid or SXid does, and names no number."""
    return re.search(r"S?Xid \((?:PCI:)?[0-9A-Fa-f:.]{4,20}\)", message) is not None


def read_driver(message: str) -> Sighting | None:
    """Complaints of the driver that have no Xid."""
    if (call := _UNANSWERED.search(message)) is not None:
        return Sighting(
            "gsp-timeout",
            f"call {call[1]} ({call[2]}, {_short(call[3])}) to the GPU's system processor was never answered",
        )
    if _HISTORY.match(message):
        return Sighting(
            "gsp-timeout",
            "the driver tells the history of its calls to a GPU, which it does after one failed",
            view=LESSER,
        )
    text = message.removeprefix("NVRM: ")
    address = _GPU_ADDRESS.search(text)
    device = pci_device(address[1]) if address else None
    if _GSP.search(text):
        return Sighting("gsp-timeout", text, device=device)
    for name, words in _COMPLAINTS:
        if words.search(text) and not is_broken_xid(text):
            return Sighting("nvrm", text, device=device, variant=name)
    return None


def named_gpu(message: str) -> str | None:
    """The device of a line that ends with it, as the driver goes on in the next: `The NVIDIA GPU
    0000:b3:00.0`.
    """
    match = _NAMED.match(message.rstrip())
    return pci_device(match[1]) if match else None


def read_module(message: str) -> Sighting | None:
    return Sighting("nvrm", message, variant="module") if _MODULE.search(message) else None


def read_peermem(message: str) -> Sighting | None:
    if not _PEERMEM.search(message):
        return None
    variant = (
        "context" if "invalid context" in message else "load" if _PEERMEM_LOAD.search(message) else "other"
    )
    return Sighting("peermem", message, variant=variant)


def read_switch(message: str) -> Sighting | None:
    if "SXid" in message or not _SWITCH.search(message):
        return None
    return Sighting("nvswitch", message, device=message.partition(":")[0].rpartition(" ")[2])


def _short(number: str) -> str:
    return f"0x{number[2:].lstrip('0') or '0'}"
