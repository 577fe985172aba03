"""The kernel log, alone or between other lines: GPUs, NVSwitches, PCIe, network cards, memory, crashes.

Kinds: kernel.driver{version}: the module that was loaded. kernel.nic-firmware{bus, version}: of an mlx card.
kernel.pcie-link{bus, gbit_per_s, link}: of a card whose link is as fast as the card (`32.0 GT/s PCIe x16`).
kernel.xid{xid, bus, class, name, severity, message, process, pid, sub_code, unit, fatal, caused_by, action,
link}: class, name and severity by `probes/data/xid.toml` (class `application`, `reset`, `hardware`, `link`,
`driver`, `informational`, `unknown`); fatal (0 or 1) and unit by the line itself, of NVLink 5 alone.
kernel.sxid{sxid, bus, fatal, part, link}; fatal is 0 or 1. kernel.gsp{bus, message}. kernel.gpu-lost{bus}.
kernel.nvrm{what, event, bus}: `RmInitAdapter failed`, `API mismatch` (with `client` and `module`),
`unsupported GPU` and others. kernel.peermem{what}: `context`, `load` or `other`. kernel.nvswitch{device,
event}. kernel.aer{bus, severity}: corrected, uncorrected, fatal, contained, unplugged.
kernel.pcie-limited{bus, available_gbit_per_s, capable_gbit_per_s, limited_by, link}: link is what limits it
(`16.0 GT/s PCIe x16`). kernel.slot-power{bus}. kernel.link{device, state}: up or down. kernel.cable{bus,
what}. kernel.mlx5{bus, what, event, fatal}: the driver of an mlx4 or mlx5 card gave up or a command hung;
kernel.nic{...} of others. kernel.oom-kill{process, victim, scope}: scope is `cgroup` or `host`.
kernel.lockup{what}. kernel.panic{event}. kernel.machine-check{what, event, fatal}. kernel.storage{device,
event}. kernel.filesystem{device, event, fatal}: fatal is 1 where it became read-only;
kernel.filesystem-back{device}: a server answers again. kernel.limit{what}: a table of the kernel is full.
kernel.segfault{process, library}: in NCCL or a library of training. kernel.iommu-fault{bus}: the IOMMU
refused a transfer.

Source: `probes/parsers/kernel_*.py` and the sources that they name; Linux drivers/iommu/{intel,amd} for
faults of the IOMMU.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from probes.base.patterns import pattern
from probes.catalogue.xids import load_xids
from probes.logs.event import Event, Value, event_of
from probes.logs.line import LogLine
from probes.parsers.kernel.kernel_host import read_carrier
from probes.parsers.kernel.kernel_log import sighting_of
from probes.parsers.kernel.log_lines import KERNEL, is_log_line, is_syslog_line, take_apart
from probes.parsers.kernel.log_tally import Sighting

SIGNS: tuple[bytes, ...] = (
    b"Xid (",
    b"Xid ",
    b"NVRM:",
    b"nvidia: ",
    b"nvidia_",
    b"probe with driver nvidia",
    b"Failed to process command",
    b"peermem",
    b"nvidia-nvswitch",
    b"limited by ",
    b"AER: Correct",
    b"AER: Uncorrect",
    b"AER: Multiple",
    b"AER: PCIe",
    b"PCIe Bus Error",
    b"DPC: containment",
    b"DPC: unmasked",
    b"pciehp: ",
    b"on the PCIe slot",
    b": Link down",
    b": Link up",
    b"Link is ",
    b"link ACTIVE",
    b"link DOWN",
    b"link UP",
    b"ink status definitely",
    b"Lost carrier",
    b"lost carrier",
    b"Gained carrier",
    b"gained carrier",
    b"Port module event",
    b"igh temperature",
    b"mlx5_core",
    b"mlx4_core",
    b"bnxt_en",
    b"NETDEV WATCHDOG",
    b"TX timeout",
    b"-max limit",
    b"table full",
    b"table overflow",
    b"fork rejected",
    b"ut of memory: Kill",
    b"ut of memory (",
    b"oom-kill:",
    b"Killed process",
    b"invoked oom-killer",
    b"soft lockup",
    b"hard LOCKUP",
    b"Hard LOCKUP",
    b"blocked for more than",
    b"stall on CPU",
    b"stalls on CPU",
    b" CE memory ",
    b" UE memory ",
    b"Hardware Error]",
    b"achine check",
    b"Memory failure:",
    b"EXT4-fs",
    b"XFS (",
    b"forced readonly",
    b"emounting filesystem read-only",
    b"nfs: server",
    b"nvme nvme",
    b"I/O error, dev",
    b"md/raid",
    b"segfault at",
    b"traps: ",
    b"Kernel panic",
    b"BUG: unable",
    b"BUG: kernel NULL",
    b"Oops: ",
    b"DMAR: [DMA",
    b"IO_PAGE_FAULT",
    b"NVRM version: NVIDIA",
)

_Maker = Callable[[Sighting, str], tuple[str, dict[str, Value]]]

_ONLY_KERNEL = pattern(
    r"(?:NVRM: |NVRM version: |Xid |nvidia-nvswitch|nvidia-peermem|pci 0000:|pcieport |mlx[45]_core \d|bnxt_en \d|oom-kill:|"
    r"DMAR: |AMD-Vi: |EDAC MC|(?:Memory cgroup o|O)ut of memory: Kill|"
    r"nfs: server \S{1,80} (?:not|OK)|\S{1,40} invoked oom-killer|.{1,60}\[\d{1,10}\]: segfault at |EXT4-fs|INFO: task )"
)
"""Beginnings of messages that nothing but a kernel writes, for lines that have lost their time stamp."""
_DRIVER = pattern(
    r"^NVRM(?: version)?: (?:loading )?NVIDIA UNIX.{0,60}?Kernel Module .{0,40}?(\d{3}\.\d{1,4}(?:\.\d{1,4})?)\b"
)
_RELATIVE = pattern(r"\[\s{0,8}\+\d{1,9}\.\d{3,9}\] (?=\S|\s{1,8}\S)")
"""`dmesg -e` and `-H` count from the line before."""
_EXCERPT = 240
_PROCESS = pattern(r"\bpid=['\"]?(\d{1,10})['\"]?(?:, name=([^,\n]{1,60}))?")
_OLD_PROCESS = pattern(r"Xid \([^)]{4,24}\): \d{1,6}, (\d{1,10}),")
_LINK = pattern(r"\b[Ll]ink (\d{1,3})\b")
_VICTIM = pattern(r"Kill(?:ed)? process (\d{1,10}) \((.{1,60}?)\)")
_TASK = pattern(r"\btask=([^,]{1,60}),pid=(\d{1,10})")
_MISMATCH = pattern(r"client has the version ([\d.]{3,16}).{0,80}?module has the version ([\d.]{3,16})", re.S)
_FIRMWARE = pattern(r"mlx[45]_core ([0-9a-f:.]{7,16}): firmware version: (\d{1,3}\.\d{1,5}\.\d{1,5})")
_LIMITED = pattern(
    r"(?P<available>[\d.]{1,12}) Gb/s available (?:PCIe )?bandwidth, "
    r"limited by (?P<link>[\d.]{1,5} GT/s(?: PCIe)? x\d{1,2}) link at (?P<at>[0-9a-f:.]{7,16})"
    r"(?: \(capable of (?P<capable>[\d.]{1,12}) Gb/s)?"
)
_PCIE_LINK = pattern(
    r"([0-9a-f:.]{7,16}): ([\d.]{1,12}) Gb/s available (?:PCIe )?bandwidth \(([\d.]{1,5} GT/s(?: PCIe)? x\d{1,2}) link\)"
)
_NFS_BACK = pattern(r"^nfs: server (\S{1,80}) OK")
_NVLINK_UNIT = pattern(r": 1(?:4[4-9]|50), ([A-Z][A-Z0-9_/]{2,40}) ")
_IOMMU = pattern(
    r"DMAR: \[DMA (?:Read|Write)[^\]]{0,40}\] Request device \[(?P<bus>[0-9a-f:.]{5,16})\]|"
    r"AMD-Vi: Event logged \[IO_PAGE_FAULT (?:device=|domain=\w{1,10} )?(?P<other>[0-9a-f:.]{5,16})?"
)


def read(line: LogLine) -> tuple[Event, ...]:
    """The event of one line, where it is a kernel's."""
    if "carrier" in line.raw and (carrier := _carrier(line)):
        return carrier
    message = _kernel_message(line)
    if message is None:
        return ()
    if (driver := _DRIVER.search(message)) is not None:
        return (event_of("kernel.driver", line, {"version": driver[1]}),)
    if (firmware := _FIRMWARE.search(message)) is not None:
        return (event_of("kernel.nic-firmware", line, {"bus": firmware[1], "version": firmware[2]}),)
    if (link := _PCIE_LINK.search(message)) is not None:
        return (
            event_of(
                "kernel.pcie-link", line, {"bus": link[1], "gbit_per_s": float(link[2]), "link": link[3]}
            ),
        )
    if (fault := _IOMMU.search(message)) is not None:
        bus = fault["bus"] or fault["other"]
        return (event_of("kernel.iommu-fault", line, {"bus": bus} if bus else {}),)
    if (server := _NFS_BACK.search(message)) is not None:
        return (event_of("kernel.filesystem-back", line, {"device": server[1]}),)
    sighting = sighting_of(message)
    make = None if sighting is None else _MAKERS.get(sighting.kind)
    if sighting is None or make is None:
        return ()
    kind, fields = make(sighting, message)
    if sighting.device and "device" not in fields:
        fields["bus"] = sighting.device
    return (event_of(kind, line, fields),)


def _carrier(line: LogLine) -> tuple[Event, ...]:
    """Links as the network daemon sees them."""
    apart = take_apart(line.raw)
    sighting = read_carrier(apart.message) if apart.origin in {"systemd-networkd", "NetworkManager"} else None
    if sighting is None:
        return ()
    kind, fields = _link("down" if sighting.kind == "link-down" else "up")(sighting, apart.message)
    return (event_of(kind, line, fields),)


def _kernel_message(line: LogLine) -> str | None:
    """The message without what stands before it; None for a line that may as well be a program's."""
    if line.is_kernel:
        return line.text.strip()
    for text in (line.raw, line.text):
        if (relative := _RELATIVE.match(text)) is not None:
            return text[relative.end() :].strip()
        apart = take_apart(text)
        if apart.origin != KERNEL:
            continue
        if _ONLY_KERNEL.match(apart.message) or ": Xid (" in apart.message or "SXid (" in apart.message:
            return apart.message
        if is_log_line(text) or (is_syslog_line(text) and " kernel: " in text):
            return apart.message
    if " kernel: " in line.raw or line.raw.startswith("kernel: "):
        return line.raw.rpartition("kernel: ")[2].strip()
    return None


def _xid(sighting: Sighting, message: str) -> tuple[str, dict[str, Value]]:
    code = sighting.code or 0
    known = load_xids().find(code)
    fields: dict[str, Value] = {"xid": code, "class": known.kind if known else "unknown"}
    if known:
        fields |= {"name": known.name, "severity": known.severity}
    if known is None or known.kind != "application":
        fields["message"] = message[:_EXCERPT]
    if sighting.sub_code is not None:
        fields["sub_code"] = sighting.sub_code
    if (process := _PROCESS.search(message)) is not None:
        fields["pid"] = int(process[1])
        fields |= {"process": process[2].strip()} if process[2] else {}
    elif (old := _OLD_PROCESS.search(message)) is not None:
        fields["pid"] = int(old[1])
    if sighting.variant.startswith("caused by "):
        fields["caused_by"] = int(sighting.variant.rpartition(" ")[2])
    elif code == 154 and sighting.variant:
        fields["action"] = sighting.variant
    return "kernel.xid", fields | (_nvlink(sighting, message) if code in {74, *range(144, 151)} else {})


def _nvlink(sighting: Sighting, message: str) -> dict[str, Value]:
    """What an Xid of NVLinks says beside its number."""
    fields: dict[str, Value] = {}
    if (link := _LINK.search(message)) is not None:
        fields["link"] = int(link[1])
    if sighting.fatal is not None:
        fields["fatal"] = int(sighting.fatal)
    if (unit := _NVLINK_UNIT.search(message)) is not None:
        fields["unit"] = unit[1]
    return fields


def _sxid(sighting: Sighting, message: str) -> tuple[str, dict[str, Value]]:
    code = sighting.code or 0
    fatal = load_xids().switch_fatal(code) if sighting.fatal is None else sighting.fatal
    fields: dict[str, Value] = {"sxid": code}
    if fatal is not None:
        fields["fatal"] = int(fatal)
    if (part := load_xids().switch_part(code)) is not None:
        fields["part"] = part
    if (link := _LINK.search(message)) is not None:
        fields["link"] = int(link[1])
    return "kernel.sxid", fields


def _nvrm(sighting: Sighting, message: str) -> tuple[str, dict[str, Value]]:
    if sighting.variant in {"fallen off the bus", "gone at load"}:
        return "kernel.gpu-lost", {"what": sighting.variant}
    fields: dict[str, Value] = {"what": sighting.variant, "event": message[:_EXCERPT]}
    versions = _MISMATCH.search(message)
    if versions is not None:
        fields |= {"client": versions[1], "module": versions[2].rstrip(".")}
    return "kernel.nvrm", fields


def _oom(sighting: Sighting, message: str) -> tuple[str, dict[str, Value]]:
    in_group = "emory cgroup" in message or "CONSTRAINT_MEMCG" in message
    fields: dict[str, Value] = {"scope": "cgroup"} if in_group else {}
    if (victim := _VICTIM.search(message)) is not None:
        fields |= {"victim": int(victim[1]), "process": victim[2]}
        if not in_group and message.startswith("Out of memory"):
            fields["scope"] = "host"
    elif (task := _TASK.search(message)) is not None:
        fields |= {"process": task[1], "victim": int(task[2])}
    return "kernel.oom-kill", fields


def _nic(sighting: Sighting, message: str) -> tuple[str, dict[str, Value]]:
    ours = "mlx5" in message or "mlx4" in message
    fields: dict[str, Value] = {
        "what": sighting.variant,
        "fatal": int(bool(sighting.fatal)),
        "event": message[:_EXCERPT],
    }
    return "kernel.mlx5" if ours else "kernel.nic", fields


def _link(state: str) -> _Maker:
    return lambda sighting, _: ("kernel.link", {"device": sighting.device or "", "state": state})


def _plain(kind: str) -> _Maker:
    """An event with the variant as `what`, where there is one."""
    return lambda sighting, _: (kind, {"what": sighting.variant} if sighting.variant else {})


def _fatal(kind: str) -> _Maker:
    def make(sighting: Sighting, message: str) -> tuple[str, dict[str, Value]]:
        fields: dict[str, Value] = {"event": message[:_EXCERPT]}
        fields |= {"what": sighting.variant} if sighting.variant else {}
        return kind, fields if sighting.fatal is None else fields | {"fatal": int(sighting.fatal)}

    return make


def _crash(sighting: Sighting, message: str) -> tuple[str, dict[str, Value]]:
    if sighting.kind == "nccl-crash":
        process = message.partition("[")[0].removeprefix("traps: ")
        return "kernel.segfault", {"process": process, "library": sighting.variant}
    process, _, library = sighting.variant.rpartition(" ")
    fields: dict[str, Value] = {"process": process}
    return "kernel.segfault", fields | {"library": library} if library else fields


def _device(kind: str) -> _Maker:
    """An event of a device, with what is said of it."""

    def make(sighting: Sighting, message: str) -> tuple[str, dict[str, Value]]:
        fields: dict[str, Value] = {"device": sighting.device or "", "event": message[:_EXCERPT]}
        return kind, fields if sighting.fatal is None else fields | {"fatal": int(sighting.fatal)}

    return make


def _limited(_: Sighting, message: str) -> tuple[str, dict[str, Value]]:
    match = _LIMITED.search(message)
    if match is None:
        return "kernel.pcie-limited", {}
    fields: dict[str, Value] = {
        "available_gbit_per_s": float(match["available"]),
        "limited_by": match["at"],
        "link": match["link"],
    }
    return "kernel.pcie-limited", fields | (
        {"capable_gbit_per_s": float(match["capable"])} if match["capable"] else {}
    )


def _aer(sighting: Sighting, message: str) -> tuple[str, dict[str, Value]]:
    """Empty slots for hot plugging say at each boot that nothing is in them."""
    return "kernel.aer", {"severity": "unplugged" if "pciehp" in message else sighting.variant}


def _panic(_: Sighting, message: str) -> tuple[str, dict[str, Value]]:
    return "kernel.panic", {"event": message[:_EXCERPT]}


_MAKERS: dict[str, _Maker] = {
    "xid": _xid,
    "sxid": _sxid,
    "nvrm": _nvrm,
    "gsp-timeout": lambda sighting, _: ("kernel.gsp", {"message": sighting.message[:_EXCERPT]}),
    "nvswitch": _device("kernel.nvswitch"),
    "peermem": _plain("kernel.peermem"),
    "pcie-limited": _limited,
    "pcie-error": _aer,
    "slot-power": _plain("kernel.slot-power"),
    "link-down": _link("down"),
    "link-up": _link("up"),
    "cable": _plain("kernel.cable"),
    "nic-fault": _nic,
    "out-of-memory": _oom,
    "lockup": _plain("kernel.lockup"),
    "machine-check": _fatal("kernel.machine-check"),
    "filesystem": _device("kernel.filesystem"),
    "storage": _device("kernel.storage"),
    "nccl-crash": _crash,
    "crash": _crash,
    "panic": _panic,
    "kernel-limit": _plain("kernel.limit"),
}
