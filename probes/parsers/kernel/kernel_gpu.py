"""Rows of the kernel log's grammar for the drivers of GPUs and NVSwitches."""

import re

from probes.base.patterns import pattern
from probes.parsers.kernel.kernel_events import (
    DriverComplaint,
    DriverLoaded,
    FirmwareTimeout,
    KernelEvent,
    KernelRow,
    Maker,
    PeermemComplaint,
    SwitchComplaint,
    SwitchError,
    XidError,
    row,
)
from probes.parsers.kernel.log_tally import LESSER

_ADDRESS = r"(?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2})?)(?:\.[0-9A-Fa-f])?"
_REPLACED = r"(?:PCI:)?(?:<[^<>\n]{1,40}>|\[[^\[\]\n]{1,40}\]|[Xx*#?:.-]{4,20})"
"""Address that somebody masked before sharing the log."""
_NVLINK5 = pattern(r"\b(Fatal|Nonfatal)\s+XC\d+\s+i\d+\s+Link (-?\d{1,3})(?: \(0x([0-9a-fA-F]{8})\b)?")
_NVLINK5_XIDS = range(144, 151)
_NVLINK_XIDS = frozenset({74, *_NVLINK5_XIDS})
_RECOVERY = pattern(r"recovery action changed from .{0,80}? to (0x[0-9a-fA-F]{1,4} \([^()]{1,60}\))")
RECOVERY_XID = 154
"""Xid with which the driver requests an action."""
CLEANUP_XID = 45
"""Xid of the cleanup after a program's channels were removed.

New drivers name the Xid that was the reason.
"""
_CAUSE = pattern(r"caused by previous Xid (\d{1,6})\b")
_UNIT = pattern(r"(?:^|[ ,])([A-Z][A-Z0-9_]{2,30}(?:/[A-Z][A-Z0-9_]{2,30})?)\s+(?:Fatal|Nonfatal)\b")
_NVLINK_UNIT = pattern(r"^\s{0,4}([A-Z][A-Z0-9_/]{2,40}) ")
_LINK = pattern(r"\b[Ll]ink (\d{1,3})\b")
_PROCESS = pattern(r"\bpid=['\"]?(\d{1,10})['\"]?(?:, name=([^,\n]{1,60}))?")
_OLD_PROCESS = pattern(r"^\s{0,4}(\d{1,10}),")
"""Process id after the number, without a name, as drivers before 2020 print it."""
_GPU_ADDRESS = pattern(r"\b([0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\b(?![0-9A-Fa-f:])")
_VERSIONS = pattern(
    r"client has the version ([\d.]{3,16}).{0,80}?module has the version ([\d.]{3,16})", re.DOTALL
)
_NAMED = pattern(rf"NVRM: The NVIDIA GPU {_ADDRESS}(?: \(PCI ID: \w{{4}}:\w{{4}}\))?$")
_BROKEN_XID = pattern(r"S?Xid \((?:PCI:)?[0-9A-Fa-f:.]{4,20}\)")
_HISTORY = "the driver prints the history of its calls to a GPU, as it does after a failed call"
_PEERMEM_LOAD = pattern(
    r"Unknown symbol|disagrees about version|[Ii]nvalid argument|ib_register_peer_memory_client"
)


def pci_device(address: str) -> str:
    """Return an address as `0000:9b:00`, for `00000000:9B:00` and the old `009B:00`."""
    parts = address.lower().split(":")
    if len(parts) == 2:
        return f"0000:{parts[0][-2:]}:{parts[1]}"
    return f"{parts[0][-4:]}:{parts[1]}:{parts[2]}"


def named_gpu(message: str) -> str | None:
    """Return the GPU of a line such as `NVRM: The NVIDIA GPU 0000:b3:00.0`; None for other lines.

    The driver continues its report in the next line.
    """
    match = _NAMED.match(message.rstrip())
    return pci_device(match[1]) if match else None


def is_broken_xid(message: str) -> bool:
    """Return whether a line contains the beginning of an Xid or SXid.

    If no row of the grammar reads such a line, its number is missing.
    """
    return _BROKEN_XID.search(message) is not None


def recovery_action(text: str) -> str | None:
    """Return the action that Xid 154 requests from now on: `0x1 (GPU Reset Required)`; None if unreadable."""
    match = _RECOVERY.search(text)
    return match[1] if match else None


def cause_of_cleanup(text: str) -> int | None:
    """Return the Xid that was the reason of a cleanup; None if the line does not name it."""
    match = _CAUSE.search(text)
    return int(match[1]) if match else None


def _xid(match: re.Match[str]) -> XidError:
    xid, rest = int(match[2] or match[3]), match[5]
    action = recovery_action(rest) if xid == RECOVERY_XID else None
    cause = cause_of_cleanup(rest) if xid == CLEANUP_XID else None
    nvlink = _NVLINK5.search(rest) if xid in _NVLINK5_XIDS else None
    process = _PROCESS.search(match.string)
    old_process = None if process or match[2] is None else _OLD_PROCESS.match(rest)
    link = _LINK.search(match.string) if xid in _NVLINK_XIDS else None
    unit = _NVLINK_UNIT.search(rest) if xid in _NVLINK5_XIDS else None
    variant = ""
    if action is not None:
        variant = action
    elif cause is not None:
        variant = f"caused by {cause}"
    elif nvlink is not None:
        reporter = _UNIT.search(rest)
        variant = f"{reporter[1] if reporter else ''} {nvlink[1]} {nvlink[2]}"
    return XidError(
        message=match.string[match.start() :].rstrip(),
        device=pci_device(address) if (address := match[1] or match[4]) else None,
        xid=xid,
        sub_code=int(nvlink[3], 16) >> 20 & 0x3F if nvlink and nvlink[3] else None,
        fatal=nvlink[1] == "Fatal" if nvlink else None,
        variant=variant,
        unit=unit[1] if unit else None,
        link=int(link[1]) if link else None,
        caused_by=cause,
        action=action,
        pid=int((process or old_process)[1]) if process or old_process else None,  # type: ignore[index]
        process=process[2].strip() if process and process[2] else None,
    )


def _switch_error(match: re.Match[str]) -> SwitchError:
    words = match[3].strip()
    link = _LINK.search(match.string)
    fatal = True if words.startswith("Fatal") else None
    return SwitchError(
        message=match.string[match.start() :].rstrip(),
        device=pci_device(match[1]),
        sxid=int(match[2]),
        link=int(link[1]) if link else None,
        fatal=False if words.lower().startswith(("non-fatal", "nonfatal")) else fatal,
        adds=int(not words.startswith(("Data {", "Severity "))),
    )


def _complaint(name: str) -> Maker:
    def make(match: re.Match[str]) -> KernelEvent | None:
        if is_broken_xid(match.string):
            return None
        text = match.string.removeprefix("NVRM: ")
        versions = _VERSIONS.search(text)
        return DriverComplaint(
            message=text,
            device=_address_in(text),
            variant=name,
            client=versions[1] if versions else None,
            module=versions[2].rstrip(".") if versions else None,
        )

    return make


def _unanswered_call(match: re.Match[str]) -> FirmwareTimeout:
    number = f"0x{match[3][2:].lstrip('0') or '0'}"
    words = f"call {match[1]} ({match[2]}, {number}) to the GPU's system processor was never answered"
    return FirmwareTimeout(message=words)


def _peermem(match: re.Match[str]) -> PeermemComplaint:
    variant = "load" if _PEERMEM_LOAD.search(match.string) else "other"
    variant = "context" if "invalid context" in match.string else variant
    return PeermemComplaint(message=match.string, variant=variant)


def _switch_complaint(match: re.Match[str]) -> SwitchComplaint | None:
    device = match.string.partition(":")[0].rpartition(" ")[2]
    return None if "SXid" in match.string else SwitchComplaint(message=match.string, device=device)


def _address_in(text: str) -> str | None:
    address = _GPU_ADDRESS.search(text)
    return pci_device(address[1]) if address else None


def _driver_row(name: str, shape: str, *, flags: int = 0) -> KernelRow:
    return row(DriverComplaint, "NVRM:", shape, flags=flags, make=_complaint(name))


ROWS: tuple[KernelRow, ...] = (
    row(
        XidError,
        "Xid ",
        rf"(?<![A-Za-z])Xid(?: \((?:{_ADDRESS}|{_REPLACED})\): (\d{{1,6}})(?!\d)|"
        rf" (\d{{1,6}}) \({_ADDRESS}\):?),?(.*)",
        make=_xid,
    ),
    row(SwitchError, "SXid (", rf"SXid \({_ADDRESS}\): (\d{{5}})(?!\d),?(.*)", make=_switch_error),
    row(
        DriverLoaded,
        ("NVRM: loading NVIDIA", "NVRM version: NVIDIA"),
        r"^NVRM(?: version)?: (?:loading )?NVIDIA UNIX.{0,60}?Kernel Module .{0,40}?"
        r"(?P<version>\d{3}\.\d{1,4}(?:\.\d{1,4})?)\b",
    ),
    # The newest entry of the history of calls to the GPU's system processor, if it has no end time.
    row(
        FirmwareTimeout,
        "NVRM:",
        r"NVRM:\s+0\s+(\d{1,6})\s+(\w{1,60})\s+(?:\d{1,12}\s+)?(0x[0-9a-f]{16}) 0x[0-9a-f]{16}"
        r" 0x[0-9a-f]{16} 0x0{16}\b",
        make=_unanswered_call,
    ),
    row(
        FirmwareTimeout,
        "NVRM:",
        r"^NVRM: (?:GPU\d{1,3} )?RPC (?:event )?history \(CPU",
        make=lambda _: FirmwareTimeout(message=_HISTORY, view=LESSER),
    ),
    row(
        FirmwareTimeout,
        "NVRM:",
        r"Timeout (?:waiting for|after \d+s of waiting for) RPC|Rate limiting GSP RPC error|"
        r"(?:GSP RM|LibOS) heartbeat timed out|rpcRecvPoll.{0,60}timed? ?out|"
        r"GSP-?(?:RM)? (?:has )?(?:crash|lockdown|task.{0,20}(?:crash|timeout))",
        make=lambda match: FirmwareTimeout(
            message=match.string.removeprefix("NVRM: "), device=_address_in(match.string)
        ),
    ),
    _driver_row(
        "RmInitAdapter failed",
        r"RmInitAdapter failed|rm_init_adapter failed|failed to initialize the adapter",
        flags=re.IGNORECASE,
    ),
    _driver_row("gone at load", r"^(?:NVRM: )?fallen off the bus and is not responding"),
    _driver_row("fallen off the bus", r"fallen off the bus|GPU (?:is )?lost\b"),
    _driver_row("API mismatch", r"API mismatch"),
    _driver_row(
        "unsupported GPU",
        r"installed in this system is not supported|"
        r"No NVIDIA (?:GPU|graphics adapter|devices) (?:found|probed)",
    ),
    _driver_row(
        "probe failed",
        r"probe routine (?:was not called|failed)|None of the NVIDIA .{0,40}initialized|"
        r"[Ff]ailed to copy vbios",
    ),
    _driver_row(
        "firmware",
        r"global fatal error|requiring os reboot|Cannot initialize GSP firmware|"
        r"Tim(?:ed out|eout) waiting for (?:FSP|RISC-V)",
    ),
    _driver_row("locked", r"RC watchdog: GPU is probably locked"),
    _driver_row("out of memory", r"\[NV_ERR_NO_MEMORY\]"),
    _driver_row("assertion", r"Assertion failed: .{1,200}\[NV_ERR_\w+\]"),
    row(
        DriverComplaint,
        ("nvidia: ", "nvidia_", "probe with driver nvidia"),
        r"nvidia(?:_uvm|_modeset|_drm)?: (?:disagrees about version of symbol|Unknown symbol|version magic)|"
        r"nvidia: probe of .{1,20} failed|nvidia [0-9a-f:.]{7,16}: probe with driver nvidia failed",
        variant="module",
    ),
    _driver_row(
        "no address space", r"BAR\d is 0M @|PCI I/O region assigned to your NVIDIA device is invalid"
    ),
    row(
        DriverComplaint,
        "nvidia-uvm: ",
        # Both messages of success may be joined with another subsystem's error when a line end is lost.
        r"^nvidia-uvm: (?!(?:Unl|L)oaded the UVM driver).{0,120}?(?:[Ff]ail|[Ee]rror|ERROR|NV_ERR_)",
        variant="module",
    ),
    row(
        DriverComplaint,
        "nouveau",
        r"^nouveau (?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]: (?:NVIDIA \w|unknown chipset|"
        r".{0,120}(?:[Ff]ail|FAULT|[Ee]rror|[Tt]ime-?out))|^nouveau: probe of",
        variant="nouveau",
    ),
    row(
        PeermemComplaint,
        "peermem",
        r"nvidia[-_]peermem\b.{0,80}?(?:ERROR|[Ii]nvalid|failed|Unknown symbol|disagrees about version)",
        make=_peermem,
    ),
    row(
        SwitchComplaint,
        "nvidia-nvswitch",
        r"nvidia-nvswitch\d*: .*?"
        r"(?:[Ff]ail|[Ee]rror|FATAL|(?<![Nn]on-)(?<![Nn]on)[Ff]atal|[Uu]nable|[Tt]imed? ?out)",
        make=_switch_complaint,
    ),
)
