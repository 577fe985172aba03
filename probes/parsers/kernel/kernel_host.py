"""What the kernel says of PCIe, network links, memory, processors, file systems, disks and crashes."""

from __future__ import annotations

import re

from probes.base.patterns import pattern
from probes.parsers.kernel.log_tally import LESSER, Sighting

_PCI = r"([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]"
_LEADING_PCI = pattern(rf"(?:\S{{1,40}} )?{_PCI}")
_LIMITED = pattern(rf"{_PCI}.{{0,40}}?: [\d.]{{1,12}} Gb/s available (?:PCIe )?bandwidth, limited by ")
_SEVERITY = r"((?:Un)?correct(?:ed|able))(?: \((Non-Fatal|Fatal)\))?"
_AER_FROM = pattern(rf"AER: (?:Multiple )?{_SEVERITY} error(?: message)? received: (?:{_PCI})?", re.I)
_BUS_ERROR = pattern(rf"(?:{_PCI}: )?(?:AER: )?PCIe Bus Error: severity={_SEVERITY}", re.I)
_CONTAINED = pattern(
    r"DPC: (?:containment event|unmasked uncorrectable)|pciehp: Slot\(\S{1,20}\): (?:Link Down|Card not present)"
)
_SLOT_POWER = pattern(r"insufficient power on the PCIe slot", re.I)

_MLX_LINK = pattern(r"mlx[45]_core [0-9a-f:.]{1,20}:? (\S{1,40}): Link (up|down)$")
_MLX_PORT = pattern(
    r"mlx[45]_core [0-9a-f:.]{1,20}:? (mlx[45]_\S{1,20}): Port:? \d+ [Ll]ink (ACTIVE|DOWN|UP)"
)
_NIC_LINK = pattern(r"(?:^|[ :])([A-Za-z][\w.-]{1,30}):? (?:NIC )?Link is ([Uu]p|[Dd]own)\b")
_BOND = pattern(
    r"\(slave (\S{1,40})\): link status definitely (up|down)|"
    r"link status definitely (up|down) for (?:active )?interface ([\w.-]{1,40})"
)
_BOND_SOON = pattern(
    r"(?:\(slave (\S{1,40})\): link status|link status) (down) (?:for (?:active )?interface ([\w.-]{1,40}))?"
)
"""Written before `definitely`, where the bond waits (`downdelay`); some kernels never come to the second
line.
"""
_BOND_WHOLE = pattern(r"([\w.-]{1,40}): (now running without any active interface|active interface up)!")
_CARRIER = pattern(r"^([\w.@-]{1,40}): ([Ll]ost|[Gg]ained) carrier$")
_VIRTUAL = pattern(
    r"(?:veth|cali|docker|br-|cni|flannel|lxc|lxd|tap|tun|vnet|virbr|vxlan|dummy|ifb|kube|nodelocal|cilium|wg)"
)
_MODULE_EVENT = pattern(
    rf"{_PCI}: Port module event(?:\[error\])?: module (\d{{1,3}}), (Cable unplugged|.*(?:[Hh]igh [Tt]emperature|[Ee]rror).*)"
)
_HOT_MODULE = pattern(rf"{_PCI}.{{0,40}}?[Hh]igh temperature")

_KILLED = pattern(r"[Oo]ut of memory(?: \([^)]{1,40}\))?: Kill(?:ed)? process \d{1,10}")
_KILLED_ALONE = pattern(r"Killed process \d{1,10} \(.{1,60}?\)")
_INVOKED = pattern(r"(.{1,60}) invoked oom-killer:")
_OOM = pattern(r"^oom-kill:\s?constraint=(\w{1,40})")
_OOM_TASK = pattern(r"\btask=([^,]{1,40})")
_SOFT = pattern(r"soft lockup - CPU#?\d+ stuck")
_HARD = pattern(r"hard LOCKUP on cpu", re.I)
_HUNG = pattern(r"task (\S{1,60}) blocked (?:in I/O wait )?for more than \d+ seconds")
_STALL = pattern(
    r"(?:self-detected stall|detected (?:expedited )?stalls?) on CPU|kthread starved for \d+ jiffies"
)
_EDAC = pattern(r"EDAC MC\d+: (\d{1,9}) (CE|UE) ")
_HARDWARE = pattern(
    r"\[Hardware Error\]: (?:Machine check|CPU \d+: Machine Check|event severity: (\w{1,20})|.{0,60}?((?:un)?corrected) error)",
    re.I,
)
_FATAL = frozenset({"fatal", "panic", "uncorrected"})
_NOT_FATAL = frozenset({"corrected", "info", "informational", "recoverable"})
"""Severities of a hardware error; a word that was cut is none of them."""
_MCE = pattern(
    r"Machine check events logged|HANDLING MCE MEMORY ERROR|Uncorrected (?:hardware )?memory error|Fatal machine check",
    re.I,
)
_POISON = pattern(r"Memory failure: 0x[0-9a-f]+:")

_EXT4 = pattern(
    r"EXT4-fs error \(device (\S{1,40}?)\)|"
    r"EXT4-fs \((\S{1,40}?)\): (?!(?:re-?)?mounted|unmount).*(?:error|corrupt|Remounting filesystem read-only|aborted)"
)
_XFS = pattern(
    r"XFS \((\S{1,40}?)\): .*?(?:[Cc]orruption|I/O [Ee]rror|[Ss]hut(?:ting)? ?down|error -?\d+|log mount.*failed)"
)
_BTRFS = pattern(r"BTRFS (?:error|critical)(?: \(device (\S{1,40}?)\))?")
_READ_ONLY = pattern(r"(?:[Rr]emounting filesystem read-only|forced readonly|re-mounted read-only)")
_NFS = pattern(r"nfs: server (\S{1,80}) not responding")
_NVME = pattern(
    r"nvme (nvme\d+): (?:I/O (?:tag )?\d+ .*(?:timeout|aborting)|controller is down|Device not ready|"
    r"Removing after probe failure|.*[Ii]dentify.*failed)"
)
_IO_ERROR = pattern(
    r"(?:I/O error, dev |[Bb]uffer I/O error on dev(?:ice)? |(?:critical medium|critical target) error, dev )([\w-]{1,40})"
)
_NOT_A_DISK = pattern(r"(?:fd|sr|loop|nbd|zram)\d")
_RAID = pattern(
    r"md/raid\d*:(md\S{1,20}): .*?(?:Disk failure on (\S{1,40}),|not clean|failed)|md: (\S{1,20}): .*(?:kicking|failed)"
)

_FAULT = pattern(
    r"(?:traps: )?([^\[\]\s][^\[\]]{0,60})\[\d{1,10}\]"
    r"(?:: segfault at|:? general protection|:? trap (?:invalid opcode|divide error))"
)
_LIBRARY = pattern(r"(?: in |\bin )([^\s\[]{1,120})\[")
_NCCL_LIBRARY = pattern(r"libnccl|librccl|libnccl-net|libnccl-ofi")
_GPU_LIBRARY = pattern(
    r"lib(?:cuda|nvidia|nvml|cudart|cudnn|cublas|nvrtc|nvshmem|torch|c10|ibverbs|mlx5|efa|fabric|mpi|uc[pts]|gloo|nvToolsExt)"
)
_TRAINING = pattern(
    r"python|pt_|torchrun|ray::|ray$|train|VLLM|vllm|deepspeed|megatron|all_reduce|accelerate|nccl", re.I
)
_PANIC = pattern(
    r"Kernel panic - not syncing|Oops: (?:\w{1,40} )?[0-9a-f]{4} \[#|BUG: unable to handle|BUG: kernel NULL pointer|"
    r"kernel BUG at|^general protection fault"
)


def read_pcie(message: str) -> Sighting | None:
    if (match := _LIMITED.search(message)) is not None:
        return Sighting("pcie-limited", message, device=match[1])
    if (match := _AER_FROM.search(message)) is not None:
        leading = _LEADING_PCI.match(message)
        return _pcie_error(
            message, match[3] or (leading[1] if leading else None), match[1], match[2], "message"
        )
    if (match := _BUS_ERROR.search(message)) is not None:
        leading = _LEADING_PCI.match(message)
        return _pcie_error(
            message, match[1] or (leading[1] if leading else None), match[2], match[3], "decoded"
        )
    if _CONTAINED.search(message):
        leading = _LEADING_PCI.match(message)
        return Sighting(
            "pcie-error", message, device=leading[1] if leading else None, fatal=True, variant="contained"
        )
    if _SLOT_POWER.search(message):
        leading = _LEADING_PCI.match(message)
        return Sighting("slot-power", message, device=leading[1] if leading else None)
    return None


def _pcie_error(message: str, device: str | None, severity: str, word: str | None, view: str) -> Sighting:
    uncorrected = severity.lower().startswith("un")
    fatal = uncorrected and (word or "").lower() == "fatal"
    variant = "fatal" if fatal else "uncorrected" if uncorrected else "corrected"
    return Sighting("pcie-error", message, device=device, fatal=fatal, variant=variant, view=view)


def read_link(message: str) -> Sighting | None:
    """Links of network interfaces and RDMA ports. Those of SATA disks and of containers' interfaces are no
    event.
    """
    if (match := _MLX_LINK.search(message)) is not None or (match := _MLX_PORT.search(message)) is not None:
        return _link(message, match[1], match[2], "driver")
    if (match := _BOND.search(message)) is not None:
        return _link(message, match[1] or match[4], match[2] or match[3], "bond")
    if (match := _BOND_SOON.search(message)) is not None and (match[1] or match[3]):
        return _link(message, match[1] or match[3], match[2], f"{LESSER}bond, soon")
    if (match := _BOND_WHOLE.search(message)) is not None:
        return _link(message, match[1], "up" if match[2].endswith("up") else "down", "bond")
    if (match := _NIC_LINK.search(message)) is not None and not match[1].startswith(("SATA", "ata")):
        return _link(message, match[1], match[2], "driver")
    return None


def read_carrier(message: str) -> Sighting | None:
    """A line of the network daemon."""
    match = _CARRIER.match(message)
    return (
        None
        if match is None
        else _link(message, match[1], "up" if match[2].lower() == "gained" else "down", "daemon")
    )


def _link(message: str, device: str, state: str, view: str) -> Sighting | None:
    if _VIRTUAL.match(device):
        return None
    return Sighting("link-down" if state.lower() == "down" else "link-up", message, device=device, view=view)


def read_cable(message: str) -> Sighting | None:
    if (match := _MODULE_EVENT.search(message)) is not None:
        return Sighting("cable", message, device=match[1], variant=f"{match[2]} {match[3][:40]}")
    if (match := _HOT_MODULE.search(message)) is not None:
        return Sighting("cable", message, device=match[1], variant="temperature")
    return None


def read_memory(message: str) -> Sighting | None:
    if _KILLED.search(message):
        return Sighting("out-of-memory", message, view="killed")
    if _KILLED_ALONE.match(message):
        return Sighting("out-of-memory", message, view=f"{LESSER}second line")
    if (match := _INVOKED.match(message)) is not None:
        return Sighting("out-of-memory", f"oom-killer, called by {match[1]}", view=f"{LESSER}called")
    if (match := _OOM.match(message)) is not None:
        task = _OOM_TASK.search(message)
        words = f"oom-kill: {match[1]}" + (f", {task[1]}" if task else "")
        return Sighting("out-of-memory", words, view="constraint")
    return None


def read_lockup(message: str) -> Sighting | None:
    if _SOFT.search(message):
        return Sighting("lockup", message, variant="soft lockup")
    if _HARD.search(message):
        return Sighting("lockup", message, variant="hard lockup")
    if (match := _HUNG.search(message)) is not None:
        return Sighting("lockup", message, variant=f"hung task {match[1].partition(':')[0]}")
    return Sighting("lockup", message, variant="stall") if _STALL.search(message) else None


def read_machine_check(message: str) -> Sighting | None:
    if (match := _EDAC.search(message)) is not None:
        return Sighting("machine-check", message, fatal=match[2] == "UE", variant=match[2])
    if (match := _HARDWARE.search(message)) is not None:
        word = (match[1] or match[2] or "").lower()
        fatal = True if word in _FATAL else False if word in _NOT_FATAL else None
        return Sighting("machine-check", message, fatal=fatal, variant=word)
    if _MCE.search(message):
        return Sighting("machine-check", message, variant="logged")
    return (
        Sighting("machine-check", message, fatal=True, variant="poison") if _POISON.search(message) else None
    )


def read_filesystem(message: str) -> Sighting | None:
    for complaint in (_EXT4, _XFS, _BTRFS):
        if (match := complaint.search(message)) is not None:
            device = next((group for group in match.groups() if group), None)
            read_only = bool(_READ_ONLY.search(message)) or "hut" in message
            return Sighting("filesystem", message, device=device, fatal=True if read_only else None)
    if _READ_ONLY.search(message):
        return Sighting("filesystem", message, fatal=True)
    if (match := _NFS.search(message)) is not None:
        return Sighting("filesystem", message, device=match[1], fatal=False, variant="nfs")
    return None


def read_storage(message: str) -> Sighting | None:
    if (match := _NVME.search(message)) is not None:
        return Sighting("storage", message, device=match[1])
    if (match := _IO_ERROR.search(message)) is not None and not _NOT_A_DISK.match(match[1]):
        return Sighting("storage", message, device=match[1])
    if "attempt to access beyond end of device" in message:
        return Sighting(
            "storage",
            message,
            device=message.partition(":")[0] if message[:1].islower() and ": " in message else None,
        )
    if (match := _RAID.search(message)) is not None:
        return Sighting("storage", message, device=match[2] or match[1] or match[3])
    return None


def read_crash(message: str) -> Sighting | None:
    """A crash in NCCL, in a library of training, or of a training program; others are nobody's business
    here.
    """
    if _PANIC.search(message):
        return Sighting("panic", message, fatal=True)
    match = _FAULT.search(message)
    if match is None:
        return None
    library = _LIBRARY.search(message)
    place = library[1] if library else ""
    if _NCCL_LIBRARY.search(place):
        return Sighting("nccl-crash", message, variant=place)
    if _GPU_LIBRARY.search(place) or _TRAINING.search(match[1]):
        return Sighting("crash", message, variant=f"{match[1]} {place}")
    return None
