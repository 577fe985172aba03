"""Rows of the kernel log's grammar for amdgpu, the driver of AMD's GPUs.

Source: Linux, drivers/gpu/drm/amd/amdgpu (amdgpu_ras.c, amdgpu_aca.c, amdgpu_device.c, amdgpu_job.c,
gmc_v9_0.c) and amd/amdkfd; amd/node-scraper, dmesg analyzer (read 2026-11).
"""

import re

from probes.base.patterns import pattern
from probes.parsers.kernel.kernel_events import PCI, AmdgpuFault, KernelRow, Maker, row

_GPU = pattern(rf"amdgpu ({PCI})\.[0-7]")
_BEFORE = pattern(r"^amdgpu [0-9a-f:.]{7,16}: (?:amdgpu: )?\s{0,8}(?:\{\d{1,9}\})?")
"""Address of the GPU and number of the event, before the words of a message."""
_PROCESS = pattern(r"\bprocess (\S{1,60}) pid (\d{1,10})")
_CLIENT = pattern(r"UTCL2 client ID: (\S{1,24})")
_BANK_BITS = (("bank uncorrected", 61), ("bank deferred", 44))
"""Bits of the status of an error bank (ACA), the worst first.

A bank with neither bit reports a corrected error.
"""
_BANK_IS_VALID = 63


def _fault(variant: str, *, fatal: bool | None = None, adds: int = 1) -> Maker:
    def make(match: re.Match[str]) -> AmdgpuFault:
        text = match.string
        gpu, process, client = _GPU.search(text), _PROCESS.search(text), _CLIENT.search(text)
        return AmdgpuFault(
            message=_BEFORE.sub("", text),
            device=gpu[1] if gpu else None,
            variant=variant,
            fatal=fatal,
            adds=adds,
            process=process[1] if process else None,
            pid=int(process[2]) if process else None,
            client=client[1] if client else None,
        )

    return make


def _bank(match: re.Match[str]) -> AmdgpuFault | None:
    status = int(match[1], 16)
    if not status >> _BANK_IS_VALID & 1:
        return None
    variant = next((name for name, bit in _BANK_BITS if status >> bit & 1), "bank corrected")
    event = _fault(variant, fatal=variant == "bank uncorrected")(match)
    return event if isinstance(event, AmdgpuFault) else None


def _amdgpu_row(variant: str, shape: str, *, fatal: bool | None = None, adds: int = 1) -> KernelRow:
    return row(AmdgpuFault, "amdgpu", shape, make=_fault(variant, fatal=fatal, adds=adds))


ROWS: tuple[KernelRow, ...] = (
    row(AmdgpuFault, "amdgpu", r"(?:aca entry|ACA)\[[\d/]{1,9}\]\.STATUS=0x([0-9a-f]{16})\b", make=_bank),
    _amdgpu_row(
        "uncorrectable error",
        r"uncorrectable hardware error\(|(?<!\d)[1-9]\d{0,9} (?:new )?uncorrectable hardware errors",
        fatal=True,
    ),
    _amdgpu_row("deferred error", r"(?<!\d)[1-9]\d{0,9} (?:new )?deferred hardware errors", fatal=False),
    _amdgpu_row("corrected error", r"(?<!\d)[1-9]\d{0,9} (?:new )?correctable hardware errors", fatal=False),
    _amdgpu_row("poison", r"[Pp]oison is (?:created|consumed)", fatal=True),
    _amdgpu_row(
        "bad pages",
        r"[Ss]aved bad pages \d{1,9} reaches threshold|RAS records: ?\d{1,9} exceed threshold|"
        r"bad (?:page|memory)s? threshold (?:reached|exceeded)",
        fatal=True,
    ),
    _amdgpu_row(
        "page fault",
        r"\bpage fault \(src_id|VM fault \(0x|GPU fault detected|VM_CONTEXT\d_PROTECTION_FAULT_STATUS",
        fatal=False,
    ),
    _amdgpu_row(
        "page fault",
        r"^amdgpu \S{7,16} (?:amdgpu:)?\s{1,6}(?:for process|in process|Process) \S{1,60} pid \d|"
        r"Faulty UTCL2 client ID: \S",
        fatal=False,
        adds=0,
    ),
    _amdgpu_row("ring timeout", r"\bring \S{1,40} timeout\b(?!.{0,8}soft recovered)"),
    _amdgpu_row(
        "scheduler hang",
        r"fence wait loop timeout|might be in an? unrecoverable state|[Qq]ueue preemption (?:failed|time)|"
        r"MES failed to respond|[Ff]ailed to evict process queues|[Ff]ailed to (?:quiesce|suspend) KFD",
    ),
    _amdgpu_row(
        "reset failed",
        r"(?i)(?:GPU|ASIC|Mode ?\d|BACO) (?:mode\d )?(?:reset|recovery)(?:\(\d{1,9}\))? (?:has )?failed|"
        r"reset end with ret = -|device wedged, needs recovery",
        fatal=True,
    ),
    _amdgpu_row("reset", r"GPU reset begin|GPU reset\(\d{1,9}\) succeeded|device wedged, but recovered"),
    _amdgpu_row("lost", r"device lost from bus", fatal=True),
    _amdgpu_row(
        "firmware timeout",
        r"I'm not done with your previous command|Failed to send message 0x|SMU.{0,40}did not respond|"
        r"Failed to disable all smu features",
        fatal=True,
    ),
    _amdgpu_row("shader exception", r"sq_intr: error", fatal=False),
    _amdgpu_row("throttled", r"GPU is throttled", fatal=False),
    _amdgpu_row("oversubscribed", r"Runlist is getting oversubscribed", fatal=False),
    _amdgpu_row(
        "start failed",
        r"[hs]w_init of IP block <\S{1,40}> failed|Fatal error during GPU init|"
        r"Unable to locate a BIOS ROM|amdgpu_device_ip_(?:early_)?init failed|"
        r"amdgpu.{0,20}: probe (?:of \S{7,16}|with driver amdgpu) failed|GPU will not be initialized",
        fatal=True,
    ),
)
