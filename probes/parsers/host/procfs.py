"""Parse small files of /proc: meminfo, limits, cpuinfo, status, net/tcp, cgroup."""

import re
from collections.abc import Iterable
from typing import Literal

from probes.base.patterns import pattern
from probes.base.record import Reason, Record, Unknown
from probes.base.units import KIB

_MEMINFO = pattern(r"^(?:Node \d+ )?(\w+(?:\(\w+\))?):\s+(\d+) kB$", re.MULTILINE)
_HUGE_PAGES = pattern(r"^HugePages_Total:\s+(\d{1,18})$", re.MULTILINE)
_LIMIT = pattern(r"^(Max(?: [a-z]+)+) {2,}(unlimited|\d+)\s+(?:unlimited|\d+)", re.MULTILINE)
_ARM_PARTS = {
    "0xd0c": "Arm Neoverse N1",
    "0xd40": "Arm Neoverse V1",
    "0xd49": "Arm Neoverse N2",
    "0xd4f": "Arm Neoverse V2",
}
"""Models by `CPU part` of implementer 0x41 (Arm). Grace is a Neoverse V2.

Source: util-linux 01e2697, sys-utils/lscpu-arm.c, read 2026-11.
"""

TRAINING_FLAGS = (
    "avx2",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "avx512_vnni",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "sve",
    "sve2",
    "bf16",
    "i8mm",
)
"""Instruction sets between which PyTorch's CPU kernels choose, by their names in /proc/cpuinfo."""


def parse_meminfo(text: str) -> dict[str, int]:
    """Return bytes by name, from /proc/meminfo or a NUMA node's meminfo.

    Counts without a unit (HugePages_Total) are left out.
    """
    return {match[1]: int(match[2]) * KIB for match in _MEMINFO.finditer(text)}


def parse_huge_pages(text: str) -> int | Unknown:
    """Return the number of reserved huge pages, from /proc/meminfo."""
    match = _HUGE_PAGES.search(text)
    return int(match[1]) if match else Unknown(Reason.NOT_SUPPORTED, "/proc/meminfo counts no huge pages")


def parse_limits(text: str) -> dict[str, int | Literal["unlimited"]]:
    """Return the soft limits of /proc/PID/limits by their printed names, such as `Max locked memory`."""
    return {
        match[1]: "unlimited" if match[2] == "unlimited" else int(match[2]) for match in _LIMIT.finditer(text)
    }


def parse_status(text: str) -> dict[str, str]:
    """Return the values of /proc/PID/status by name."""
    return _fields(text.splitlines())


def parse_listening(text: str) -> frozenset[int]:
    """Return the ports on which a program listens, from /proc/net/tcp."""
    rows = (line.split() for line in text.splitlines())
    ports = (row[1].rpartition(":")[2] for row in rows if len(row) > 3 and row[3] == "0A")
    return frozenset(int(port, 16) for port in ports if re.fullmatch(r"[0-9A-Fa-f]{4}", port))


class CpuInfo(Record, kw_only=True):
    """Content of /proc/cpuinfo, which states sockets and cores only on some architectures, such as x86."""

    model: str | Unknown
    architecture: str | Unknown
    logical_cpus: int
    sockets: int | Unknown
    physical_cores: int | Unknown
    flags: tuple[str, ...]
    hypervisor: bool | Unknown
    """The CPU's hypervisor bit; only x86 has one."""


def parse_cpuinfo(text: str) -> CpuInfo | Unknown:
    """Return the processors of /proc/cpuinfo; Unknown if it lists none."""
    blocks = [_fields(block.splitlines()) for block in re.split(r"\n\s*\n", text)]
    cpus = [block for block in blocks if block.get("processor", "").isdigit()]
    if not cpus:
        return Unknown(Reason.UNPARSABLE, "/proc/cpuinfo lists no processor")
    first = cpus[0]
    words = set((first.get("flags") or first.get("Features") or "").split())
    packages = {cpu["physical id"] for cpu in cpus if "physical id" in cpu}
    cores = {
        (cpu["physical id"], cpu["core id"]) for cpu in cpus if "physical id" in cpu and "core id" in cpu
    }
    not_stated = Unknown(Reason.NOT_SUPPORTED, "/proc/cpuinfo does not contain it on this architecture")
    return CpuInfo(
        model=first.get("model name") or first.get("cpu", "").partition(",")[0] or _arm_model(first),
        architecture=_architecture(first, words),
        logical_cpus=len(cpus),
        sockets=len(packages) or not_stated,
        physical_cores=len(cores) or not_stated,
        flags=tuple(flag for flag in TRAINING_FLAGS if flag in words),
        hypervisor="hypervisor" in words
        if "flags" in first
        else Unknown(Reason.NOT_SUPPORTED, "no hypervisor bit on this architecture"),
    )


def _fields(lines: Iterable[str]) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _arm_model(cpu: dict[str, str]) -> str | Unknown:
    part = cpu.get("CPU part", "")
    if cpu.get("CPU implementer") == "0x41" and part in _ARM_PARTS:
        return _ARM_PARTS[part]
    return Unknown(Reason.NOT_SUPPORTED, f"/proc/cpuinfo names no model (part {part or 'unstated'})")


def _architecture(cpu: dict[str, str], words: set[str]) -> str | Unknown:
    """Return the architecture as `uname -m` prints it; 64-bit x86 has the flag `lm` (long mode)."""
    if "flags" in cpu:
        return "x86_64" if "lm" in words else "i686"
    if cpu.get("CPU architecture") == "8":
        return "aarch64"
    if cpu.get("cpu", "").startswith("POWER"):
        return "ppc64le"
    return Unknown(Reason.NOT_SUPPORTED, "/proc/cpuinfo does not show the architecture")


class CgroupPath(Record, kw_only=True):
    """Place of a process in one cgroup hierarchy."""

    controllers: tuple[str, ...]
    """Controllers of the hierarchy; empty for the unified hierarchy (version 2)."""
    path: str


def parse_cgroup(text: str) -> tuple[CgroupPath, ...]:
    """Return the places in /proc/PID/cgroup, whose lines are `0::/user.slice` or `4:memory:/job`."""
    rows = (line.split(":", 2) for line in text.splitlines())
    return tuple(
        CgroupPath(controllers=tuple(name for name in row[1].split(",") if name), path=row[2])
        for row in rows
        if len(row) == 3 and row[2].startswith("/")
    )
