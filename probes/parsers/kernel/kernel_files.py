"""Parse small files about the kernel's settings.

These are the command line, memory blocks, processes, capabilities and logind's settings.
"""

import re
from collections.abc import Iterable

from probes.base.patterns import pattern
from probes.base.record import Reason, Record, Unknown, quoted

_BRACKETED = pattern(r"\[([\w-]{1,40})\]")
_FIRST_ORDER = {11: 8, 12: 6, 14: 4}
"""The first order (block size) of at least 1 MiB, with the number of listed orders as the key.

The kernel lists 11 orders with pages of 4 KiB, 12 with 16 KiB and 14 with 64 KiB (Linux 6.12,
arch/arm64/Kconfig, ARCH_FORCE_MAX_ORDER, and mmzone.h).
"""
_STAT = pattern(r"(\d{1,9}) \((.{0,64})\) ([A-Za-z])", re.DOTALL)
_ARGUMENT = pattern(r"(\w{1,40})\s*=\s*(.*?)\s*", re.DOTALL)
_LOG_COMMAND_LINE = pattern(r"(?:Kernel command|Command) line: (.{1,4096})")
_LOG_IOMMU = pattern(r"iommu: Default domain type: (Translated|Passthrough)")
_LOG_CLOCK = pattern(r"clocksource: Switched to clocksource (\w{1,40})")

CAPABILITIES = (
    *("chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap"),
    *(
        "linux_immutable",
        "net_bind_service",
        "net_broadcast",
        "net_admin",
        "net_raw",
        "ipc_lock",
        "ipc_owner",
    ),
    *(
        "sys_module",
        "sys_rawio",
        "sys_chroot",
        "sys_ptrace",
        "sys_pacct",
        "sys_admin",
        "sys_boot",
        "sys_nice",
    ),
    *(
        "sys_resource",
        "sys_time",
        "sys_tty_config",
        "mknod",
        "lease",
        "audit_write",
        "audit_control",
        "setfcap",
    ),
    *("mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf"),
    "checkpoint_restore",
)
"""Names by bit, from 0 (linux/capability.h of Linux 6.12)."""


def parse_chosen(text: str) -> str | Unknown:
    """Return the word in brackets of a file like `always [madvise] never`."""
    match = _BRACKETED.search(text)
    return match[1] if match else Unknown(Reason.UNPARSABLE, f"no choice in {quoted(text)}")


def parse_buddyinfo(text: str) -> int | Unknown:
    """Return the number of free blocks of 1 MiB and more in the zones Normal of all nodes."""
    total: int | None = None
    for line in text.splitlines():
        _, zone, rest = line.partition("zone")
        words = rest.split()
        if not zone or words[:1] != ["Normal"]:
            continue
        first = _FIRST_ORDER.get(len(words) - 1)
        if first is None or not all(word.isdecimal() and len(word) < 19 for word in words[1:]):
            return Unknown(Reason.UNPARSABLE, f"/proc/buddyinfo: {quoted(line)}")
        total = (total or 0) + sum(int(word) for word in words[1 + first :])
    return Unknown(Reason.NOT_SUPPORTED, "this machine has no zone Normal") if total is None else total


def iommu_of_command_line(text: str) -> str | None:
    """Return `off`, `passthrough` or `translated`; None if the command line does not determine the mode.

    `intel_iommu=on` alone does not determine the mode: distributions build different defaults (Linux 6.12,
    kernel-parameters.txt).
    """
    mode: str | None = None
    for word in text.split():
        name, _, value = word.partition("=")
        values = value.split(",")
        if name in ("iommu", "intel_iommu", "amd_iommu") and "off" in values:
            return "off"
        is_passthrough = name == "iommu.passthrough"
        if (name == "iommu" and "pt" in values) or (is_passthrough and value in ("1", "y", "on")):
            mode = "passthrough"
        elif (name == "iommu" and "nopt" in values) or (is_passthrough and value in ("0", "n", "off")):
            mode = "translated"
    return mode


def iommu_of_types(types: Iterable[str]) -> str | None:
    """Return the strictest mode among the domain types of the groups; None if no type shows a mode."""
    kinds = {kind.strip() for kind in types}
    if any(kind.startswith("DMA") for kind in kinds):
        return "translated"
    return "passthrough" if "identity" in kinds else None


class BootLog(Record, kw_only=True):
    """The last of each value that the kernel printed at a start; None if the log does not contain it."""

    command_line: str | None
    iommu: str | None
    clocksource: str | None


def parse_boot_log(text: str) -> BootLog:
    """Return the last of each value that a kernel log contains."""
    values = [shape.findall(text) for shape in (_LOG_COMMAND_LINE, _LOG_IOMMU, _LOG_CLOCK)]
    command_line, iommu, clock = (matches[-1].strip() if matches else None for matches in values)
    return BootLog(command_line=command_line, iommu=iommu.lower() if iommu else None, clocksource=clock)


class Process(Record, kw_only=True):
    """One process by its /proc/PID/stat."""

    pid: int
    name: str
    state: str
    """`R`, `S`, `D` (uninterruptible), `Z` (zombie) ..."""


def parse_process(text: str) -> Process | None:
    """Return the first fields, also if the name contains blanks and brackets; None for other text."""
    match = _STAT.match(text[:200])
    return Process(pid=int(match[1]), name=match[2], state=match[3]) if match else None


def parse_capabilities(mask: str) -> tuple[str, ...] | Unknown:
    """Return the names of the bits of `CapEff`, which is hexadecimal."""
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", mask):
        return Unknown(Reason.UNPARSABLE, f"capabilities {quoted(mask)}")
    bits = int(mask, 16)
    return tuple(name for bit, name in enumerate(CAPABILITIES) if bits >> bit & 1)


def parse_settings(text: str, section: str) -> dict[str, str]:
    """Return `Name=value` of one section of a systemd file; if a name is repeated, the last line counts."""
    return _settings(text, section, comments=False)


def parse_commented(text: str, section: str) -> dict[str, str]:
    """Return the settings in comments, because systemd's files show the compiled-in values there."""
    return _settings(text, section, comments=True)


def _settings(text: str, section: str, *, comments: bool) -> dict[str, str]:
    settings: dict[str, str] = {}
    current = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            current = line[1:-1]
        elif current == section and line.startswith(("#", ";")) == comments:
            match = _ARGUMENT.fullmatch(line.lstrip("#;")[:400])
            settings |= {match[1]: match[2]} if match else {}
    return settings


def parse_switch(text: str) -> bool | Unknown:
    """Return a boolean of systemd."""
    word = text.strip().lower()
    if word in ("1", "yes", "y", "true", "t", "on"):
        return True
    if word in ("0", "no", "n", "false", "f", "off"):
        return False
    return Unknown(Reason.UNPARSABLE, f"{quoted(text)} is not a boolean of systemd (yes or no)")
