"""Rows of the kernel log's grammar: PCIe, memory, processors and crashes.

Source: Linux drivers/pci/pcie (aer.c, dpc.c), drivers/pci/hotplug, drivers/iommu/{intel,amd}, mm/oom_kill.c,
kernel/watchdog.c, kernel/workqueue.c, drivers/edac, arch/x86/kernel/{nmi.c,cpu/mce}.
"""

import re

from probes.base.patterns import pattern
from probes.parsers.kernel.kernel_events import (
    PCI,
    KernelEvent,
    KernelRow,
    Lockup,
    MachineCheck,
    Maker,
    NcclCrash,
    OutOfMemory,
    Panic,
    PcieError,
    PcieLimited,
    PcieLink,
    ProgramCrash,
    SlotPower,
    card_of,
    leading_device,
    row,
)
from probes.parsers.kernel.log_tally import LESSER

_NUMBER = r"\d{1,9}(?:\.\d{1,6})?"
_LINK_WORDS = r"[\d.]{1,5} GT/s(?: PCIe)? x\d{1,2}"
_SEVERITY = r"(?P<severity>(?:Un)?correct(?:ed|able))(?: \((?P<word>Non-Fatal|Fatal)\))?"

_VICTIM = pattern(r"Kill(?:ed)? process (?P<pid>\d{1,10}) \((?P<process>.{1,60}?)\)")
_TASK = pattern(r"\btask=(?P<process>[^,]{1,60})(?:,pid=(?P<pid>\d{1,10}))?")
_IN_GROUP = ("emory cgroup", "CONSTRAINT_MEMCG")
_IS_FATAL = {
    **dict.fromkeys(("fatal", "panic", "uncorrected"), True),
    **dict.fromkeys(("corrected", "info", "informational", "recoverable"), False),
}
"""True for a fatal error, by the word for its severity; cut words are not in the table."""
_UNCORRECTED_BIT = 61
"""Bit UC of a machine check's status (Intel SDM volume 3B, 17.3.2.2; AMD64 APM volume 2, 9.3)."""
_LIBRARY = pattern(r"(?: in |\bin )([^\s\[]{1,120})\[")
_NCCL_LIBRARY = pattern(r"libnccl|librccl|libnccl-net|libnccl-ofi")
_GPU_LIBRARY = pattern(
    r"lib(?:cuda|nvidia|nvml|cudart|cudnn|cublas|nvrtc|nvshmem|torch|c10|ibverbs|mlx5|efa|fabric|mpi|"
    r"uc[pts]|gloo|nvToolsExt)"
)
_TRAINING = pattern(
    r"python|pt_|torchrun|ray::|ray$|train|VLLM|vllm|deepspeed|megatron|all_reduce|accelerate|nccl",
    re.IGNORECASE,
)


def _limited(match: re.Match[str]) -> PcieLimited:
    return PcieLimited(
        message=match.string,
        device=match["device"],
        available_gbit_per_s=float(match["available"]),
        link=match["link"],
        limited_by=match["at"],
        capable_gbit_per_s=float(match["capable"]) if match["capable"] else None,
    )


def _pcie_error(view: str) -> Maker:
    def make(match: re.Match[str]) -> PcieError:
        is_uncorrected = match["severity"].lower().startswith("un")
        is_fatal = is_uncorrected and (match["word"] or "").lower() == "fatal"
        severity = "uncorrected" if is_uncorrected else "corrected"
        return PcieError(
            message=match.string,
            device=match["device"] or leading_device(match.string),
            fatal=is_fatal,
            variant="fatal" if is_fatal else severity,
            view=view,
        )

    return make


def _contained(match: re.Match[str]) -> PcieError:
    message = match.string
    return PcieError(
        message=message,
        device=leading_device(message),
        fatal=True,
        variant="contained",
        is_unplugged="pciehp" in message,
    )


def _out_of_memory(match: re.Match[str], view: str, text: str = "") -> OutOfMemory:
    """Return the event of a line about the OOM killer; `text` replaces a message with too many details."""
    message = match.string
    victim = _VICTIM.search(message)
    killed = victim or _TASK.search(message)
    scope = "host" if victim is not None and message.startswith("Out of memory") else None
    return OutOfMemory(
        message=text or message,
        view=view,
        process=killed["process"] if killed else None,
        victim=int(killed["pid"]) if killed and killed["pid"] else None,
        scope="cgroup" if any(part in message for part in _IN_GROUP) else scope,
    )


def _killer_constraint(match: re.Match[str]) -> OutOfMemory:
    task = _TASK.search(match.string)
    return _out_of_memory(match, "constraint", f"oom-kill: {match[1]}" + (f", {task[1]}" if task else ""))


def _hardware_error(match: re.Match[str]) -> MachineCheck:
    word = (match[1] or match[2] or "").lower()
    return MachineCheck(message=match.string, fatal=_IS_FATAL.get(word), variant=word)


def _bank_status(match: re.Match[str]) -> MachineCheck:
    """Return the error of a processor's bank: bit 61 of its status is set if it was not corrected."""
    is_uncorrected = match[2] == "UE" if match[2] else bool(int(match[1], 16) >> _UNCORRECTED_BIT & 1)
    return MachineCheck(
        message=match.string, fatal=is_uncorrected, variant="uncorrected" if is_uncorrected else "corrected"
    )


def _crash(match: re.Match[str]) -> KernelEvent | None:
    """Return a crash in NCCL, in a library used for training, or in a training program; None for others."""
    message, process = match.string, match[1]
    place = _LIBRARY.search(message)
    library = place[1] if place else ""
    if _NCCL_LIBRARY.search(library):
        return NcclCrash(message=message, variant=library, process=process, library=library)
    if _GPU_LIBRARY.search(library) or _TRAINING.search(process):
        return ProgramCrash(message=message, variant=f"{process} {library}", process=process, library=library)
    return None


PCIE_ROWS: tuple[KernelRow, ...] = (
    row(
        PcieLimited,
        "limited by ",
        rf"(?P<device>{PCI})\.[0-7].{{0,40}}?: (?P<available>{_NUMBER}) Gb/s available (?:PCIe )?bandwidth, "
        rf"limited by (?:(?P<link>{_LINK_WORDS}) link at (?P<at>[0-9a-f:.]{{7,16}})"
        rf"(?: \(capable of (?P<capable>{_NUMBER}) Gb/s)?)?",
        make=_limited,
    ),
    row(
        PcieLink,
        " bandwidth (",
        rf"([0-9a-f:.]{{7,16}}): ({_NUMBER}) Gb/s available (?:PCIe )?bandwidth \(({_LINK_WORDS}) link\)",
        make=lambda match: PcieLink(
            message=match.string, device=card_of(match[1]), gbit_per_s=float(match[2]), link=match[3]
        ),
    ),
    row(
        PcieError,
        "AER: ",
        rf"AER: (?:Multiple )?{_SEVERITY} error(?: message)? received(?::| from) "
        rf"(?:(?P<device>{PCI})\.[0-7])?",
        flags=re.IGNORECASE,
        make=_pcie_error("message"),
    ),
    row(
        PcieError,
        "PCIe Bus Error",
        rf"(?:(?P<device>{PCI})\.[0-7]: )?(?:AER: )?PCIe Bus Error: severity={_SEVERITY}",
        flags=re.IGNORECASE,
        make=_pcie_error("decoded"),
    ),
    row(
        PcieError,
        ("DPC: containment", "DPC: unmasked", "pciehp: Slot("),
        r"DPC: (?:containment event|unmasked uncorrectable)|"
        r"pciehp: Slot\(\S{1,20}\): (?:Link Down|Card not present)",
        make=_contained,
    ),
    row(
        SlotPower,
        "on the PCIe slot",
        r"insufficient power on the PCIe slot",
        flags=re.IGNORECASE,
        make=lambda match: SlotPower(message=match.string, device=leading_device(match.string)),
    ),
)

HOST_ROWS: tuple[KernelRow, ...] = (
    row(
        OutOfMemory,
        "ut of memory",
        r"[Oo]ut of memory(?: \([^)]{1,40}\))?: Kill(?:ed)? process \d{1,10}",
        make=lambda match: _out_of_memory(match, "killed"),
    ),
    row(
        OutOfMemory,
        "Killed process",
        r"^Killed process \d{1,10} \(.{1,60}?\)",
        make=lambda match: _out_of_memory(match, f"{LESSER}second line"),
    ),
    row(
        OutOfMemory,
        "invoked oom-killer",
        r"^(.{1,60}) invoked oom-killer:",
        make=lambda match: _out_of_memory(match, f"{LESSER}called", f"oom-killer, called by {match[1]}"),
    ),
    row(
        OutOfMemory,
        "oom-kill:",
        r"^oom-kill:\s?constraint=(\w{1,40})",
        make=_killer_constraint,
    ),
    row(Lockup, "soft lockup", r"soft lockup - CPU#?\d+ stuck", variant="soft lockup"),
    row(Lockup, "workqueue lockup", r"BUG: workqueue lockup - pool", variant="work queue"),
    row(Lockup, "LOCKUP on ", r"hard LOCKUP on cpu", flags=re.IGNORECASE, variant="hard lockup"),
    row(
        Lockup,
        ("blocked for more than", "blocked in I/O wait"),
        r"task (\S{1,60}) blocked (?:in I/O wait )?for more than \d+ seconds",
        make=lambda match: Lockup(message=match.string, variant=f"hung task {match[1].partition(':')[0]}"),
    ),
    row(
        Lockup,
        (" stall on CPU", " stalls on CPU", "kthread starved for"),
        r"(?:self-detected stall|detected (?:expedited )?stalls?) on CPU|kthread starved for \d+ jiffies",
        variant="stall",
    ),
    row(
        MachineCheck,
        "EDAC ",
        r"EDAC (?:\S{1,20} )?MC\d{1,3}: (\d{1,9}) (CE|UE)\b",
        make=lambda match: MachineCheck(
            message=match.string, fatal=match[2] == "UE", variant=match[2], adds=max(1, int(match[1]))
        ),
    ),
    row(
        MachineCheck,
        "Hardware Error]",
        r"\[Hardware Error\]:.{0,60}?\bBank \d{1,3}: ([0-9a-f]{16})\b|"
        r"MC\d{1,3}_STATUS\[[^\]]{0,20}\|(CE|UE)\|",
        make=_bank_status,
    ),
    row(
        MachineCheck,
        "Hardware Error]",
        r"\[Hardware Error\]: (?:Machine check|CPU \d+: Machine Check|event severity: (\w{1,20})|"
        r".{0,60}?((?:un)?corrected) error)",
        flags=re.IGNORECASE,
        make=_hardware_error,
    ),
    row(
        MachineCheck,
        ("achine check", "memory error"),
        r"Uncorrected (?:hardware )?memory error|Fatal machine check",
        flags=re.IGNORECASE,
        fatal=True,
        variant="uncorrected",
    ),
    row(
        MachineCheck,
        ("achine check", "MCE MEMORY"),
        r"Machine check events logged|HANDLING MCE MEMORY ERROR",
        flags=re.IGNORECASE,
        variant="logged",
    ),
    row(
        MachineCheck,
        ("emperature above threshold", "temperature is above threshold", "critical temperature reached"),
        r"^(?:mce: )?CPU\d{1,5}: (?:Core |Package )?temperature (?:is )?above threshold|"
        r"critical temperature reached",
        flags=re.IGNORECASE,
        variant="too hot",
    ),
    row(
        MachineCheck,
        "NMI",
        r"^NMI: (?:IOCK|PCI system) error|^Uhhuh\. NMI received for unknown reason",
        variant="alarm",
    ),
    row(MachineCheck, "Memory failure:", r"Memory failure: 0x[0-9a-f]+:", fatal=True, variant="poison"),
)

CRASH_ROWS: tuple[KernelRow, ...] = (
    row(
        Panic,
        (
            "Kernel panic",
            "Oops: ",
            "BUG: unable",
            "BUG: kernel NULL",
            "kernel BUG at",
            "general protection fault",
        ),
        r"Kernel panic - not syncing|Oops: (?:\w{1,40} )?[0-9a-f]{4} \[#|BUG: unable to handle|"
        r"BUG: kernel NULL pointer|kernel BUG at|^general protection fault",
        fatal=True,
    ),
    row(
        ProgramCrash,
        ("segfault at", "general protection", "trap invalid opcode", "trap divide error"),
        r"(?:traps: )?([^\[\]\s][^\[\]]{0,60})\[\d{1,10}\]"
        r"(?:: segfault at|:? general protection|:? trap (?:invalid opcode|divide error))",
        make=_crash,
    ),
)
