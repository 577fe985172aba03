"""Collect how the kernel was started, its settings and its counters."""

from __future__ import annotations

import math

import msgspec

from probes.base.evidence import file_ref
from probes.base.record import (
    DEEP_ONLY,
    EvidenceRef,
    Reason,
    Unknown,
    first_unknown,
    known,
    map_known,
    only_known,
    value_or,
    when_missing,
)
from probes.catalogue.limit_rows import sysctl_names
from probes.collect.collecting import CollectOptions
from probes.facts import Kernel, Sysctl
from probes.parsers.kernel.kernel_files import (
    Process,
    iommu_of_command_line,
    iommu_of_types,
    parse_boot_log,
    parse_buddyinfo,
    parse_chosen,
)
from probes.reading.logind import remove_ipc
from probes.reading.outputs import Output, outputs
from probes.reading.processes import processes
from probes.sources.base import Source, read_int, read_text

_COMMAND_LINE = "/proc/cmdline"
_NUMA_BALANCING = "/proc/sys/kernel/numa_balancing"
_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_UPTIME = "/proc/uptime"
_LOAD = "/proc/loadavg"
_BUDDY = "/proc/buddyinfo"
_PORTS = "/proc/sys/net/ipv4/ip_local_port_range"
_SOMAXCONN = "/proc/sys/net/core/somaxconn"
_FILE_MAX = "/proc/sys/fs/file-max"
_MEMORY_CONTROLLERS = "/sys/devices/system/edac/mc"
_IOMMU = "/sys/class/iommu"
_GROUPS = "/sys/kernel/iommu_groups"
_LARGEST_UPTIME_S = 1e10
_NO_CONTROLLER = Unknown(Reason.NOT_SUPPORTED, "no memory controller reports errors here")
_BUILT_WITHOUT = Unknown(Reason.NOT_SUPPORTED, "the kernel is built without it")
_RELEVANT_NAMES = (
    "nvidia",
    "nv-",
    "nv_",
    "irq/nvidia",
    "UVM",
    "pt_main_thread",
    "pt_data_worker",
    "python",
    "torchrun",
    "nccl",
    "dcgm",
)
"""Beginnings of the names of the driver's threads and of training processes.

Sources: leptonai/gpud, zombie and D-state checks; PyTorch names its threads pt_*; read 2026-08.
"""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `kernel`."""
    all_processes = processes(source) if options.deep else DEEP_ONLY
    first_port, last_port = _pair(source, _PORTS)
    corrected, uncorrected = _memory_errors(source)
    own_command_line = read_text(source, _COMMAND_LINE)
    kernel = Kernel(
        command_line=own_command_line,
        iommu=_iommu(source, own_command_line),
        numa_balancing=_numa_balancing(source),
        transparent_hugepages=_chosen(source, _HUGE_PAGES),
        clocksource=read_text(source, _CLOCK),
        uptime_s=_first_number(source, _UPTIME),
        free_blocks_1mib=_free_blocks(source),
        memory_errors_corrected=corrected,
        memory_errors_uncorrected=uncorrected,
        zombie_processes=map_known(all_processes, _zombies),
        blocked_processes=map_known(all_processes, _blocked),
        load_average=_first_number(source, _LOAD),
        local_port_first=first_port,
        local_port_last=last_port,
        somaxconn=read_int(source, _SOMAXCONN),
        file_max=read_int(source, _FILE_MAX),
        remove_ipc=remove_ipc(source),
        sysctls=_sysctls(source),
    )
    kernel = msgspec.structs.replace(kernel, evidence=_evidence(kernel))
    logs = outputs(source, "kernel-log")
    return {"kernel": kernel if isinstance(logs, Unknown) else _with_logs(kernel, logs)}


def _with_logs(kernel: Kernel, logs: tuple[Output, ...]) -> Kernel:
    """Return the kernel with boot messages of given logs, for fields that are unknown otherwise."""
    for output in logs:
        log = parse_boot_log(output.text)
        by_words = iommu_of_command_line(log.command_line) if log.command_line else None
        logged = {
            "command_line": log.command_line,
            "iommu": log.iommu or by_words,
            "clocksource": log.clocksource,
        }
        new_values = {
            name: value for name, value in logged.items() if value and not known(getattr(kernel, name))
        }
        if new_values:
            kernel = msgspec.structs.replace(
                kernel, **new_values, evidence=(*kernel.evidence, output.evidence)
            )
    return kernel


def _evidence(kernel: Kernel) -> tuple[EvidenceRef, ...]:
    """Return the files that could be read."""
    answers = (
        (kernel.command_line, _COMMAND_LINE),
        (kernel.iommu, _GROUPS),
        (kernel.numa_balancing, _NUMA_BALANCING),
        (kernel.transparent_hugepages, _HUGE_PAGES),
        (kernel.clocksource, _CLOCK),
        (kernel.uptime_s, _UPTIME),
        (kernel.free_blocks_1mib, _BUDDY),
        (kernel.memory_errors_corrected, _MEMORY_CONTROLLERS),
        (kernel.local_port_first, _PORTS),
        (kernel.somaxconn, _SOMAXCONN),
        (kernel.remove_ipc, "/etc/systemd/logind.conf"),
    )
    settings = ((row.value, _sysctl_path(row.name)) for row in value_or(kernel.sysctls, ()))
    return tuple(file_ref(path) for value, path in (*answers, *settings) if known(value))


def _sysctls(source: Source) -> tuple[Sysctl, ...] | Unknown:
    """Return every setting that a data row of a check is about; Unknown where none of them could be read."""
    rows = tuple(Sysctl(name=name, value=read_int(source, _sysctl_path(name))) for name in sysctl_names())
    if any(known(row.value) for row in rows):
        return rows
    return first_unknown(*(row.value for row in rows)) or Unknown(
        Reason.NOT_RECORDED, "no check is about one"
    )


def _sysctl_path(name: str) -> str:
    return f"/proc/sys/{name.replace('.', '/')}"


def _iommu(source: Source, command_line: str | Unknown) -> str | Unknown:
    """Return the IOMMU mode from the domains of devices.

    Without domains from the command line, if decisive.
    """
    by_words = None if isinstance(command_line, Unknown) else iommu_of_command_line(command_line)
    units = source.names(_IOMMU)
    if units == ():
        return "off"
    groups = source.names(_GROUPS)
    if not isinstance(groups, Unknown):
        types = (read_text(source, f"{_GROUPS}/{group}/type") for group in groups)
        by_types = iommu_of_types(kind for kind in only_known(types))
        if by_types is not None:
            return by_types
    if by_words is not None:
        return by_words
    if (
        isinstance(units, Unknown)
        and units.reason is Reason.TOOL_MISSING
        and not isinstance(command_line, Unknown)
    ):
        return "off"  # a kernel without IOMMU support has no such class
    return (
        units
        if isinstance(units, Unknown)
        else Unknown(Reason.NOT_SUPPORTED, "the kernel states no domain type")
    )


def _numa_balancing(source: Source) -> bool | Unknown:
    """Return whether NUMA balancing is on: 0 is off, 1 and 2 are modes of moving memory."""
    number = when_missing(read_int(source, _NUMA_BALANCING), _BUILT_WITHOUT)
    return map_known(number, lambda number: number != 0)


def _chosen(source: Source, path: str) -> str | Unknown:
    return map_known(when_missing(read_text(source, path), _BUILT_WITHOUT), parse_chosen)


def _free_blocks(source: Source) -> int | Unknown:
    return map_known(read_text(source, _BUDDY), parse_buddyinfo)


def _first_number(source: Source, path: str) -> float | Unknown:
    text = read_text(source, path)
    if isinstance(text, Unknown):
        return text
    try:
        number = float(text.split()[0])
    except (ValueError, IndexError):
        number = math.nan
    return number if 0 <= number < _LARGEST_UPTIME_S else Unknown(Reason.UNPARSABLE, f"{path}: {text[:60]!r}")


def _pair(source: Source, path: str) -> tuple[int | Unknown, int | Unknown]:
    text = read_text(source, path)
    if isinstance(text, Unknown):
        return text, text
    words = text.split()
    if len(words) == 2 and all(word.isdecimal() and len(word) < 6 for word in words):
        return int(words[0]), int(words[1])
    unknown = Unknown(Reason.UNPARSABLE, f"{path}: {text[:60]!r}")
    return unknown, unknown


def _memory_errors(source: Source) -> tuple[int | Unknown, int | Unknown]:
    """Return the corrected and uncorrected errors of all memory controllers."""
    names = source.names(_MEMORY_CONTROLLERS)
    if isinstance(names, Unknown):
        absent = when_missing(names, _NO_CONTROLLER)
        return absent, absent
    controllers = [name for name in names if name.startswith("mc") and name[2:].isdecimal()]
    if not controllers:
        return _NO_CONTROLLER, _NO_CONTROLLER
    return _sum(source, controllers, "ce_count"), _sum(source, controllers, "ue_count")


def _sum(source: Source, controllers: list[str], counter: str) -> int | Unknown:
    total = 0
    for controller in controllers:
        value = read_int(source, f"{_MEMORY_CONTROLLERS}/{controller}/{counter}")
        if isinstance(value, Unknown):
            return value
        total += value
    return total


def _zombies(running: tuple[Process, ...]) -> int:
    return sum(process.state == "Z" for process in running)


def _blocked(running: tuple[Process, ...]) -> tuple[str, ...]:
    """Return names with process ids."""
    stuck = (
        process for process in running if process.state == "D" and process.name.startswith(_RELEVANT_NAMES)
    )
    return tuple(f"{process.name} ({process.pid})" for process in stuck)
