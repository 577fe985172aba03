"""Collect the kernel's command line, settings and counters, and the daemon that synchronises the clock."""

import math

import msgspec

from probes.base.patterns import pattern
from probes.base.record import (
    DEEP_ONLY,
    EvidenceRef,
    Reason,
    Unknown,
    command_ref,
    file_ref,
    first_unknown,
    items_of,
    known,
    map_known,
    only_known,
    quoted,
    value_or,
    when_missing,
)
from probes.catalogue.check_rows import sysctl_names
from probes.collect.collecting import CollectOptions
from probes.facts import Clock, Kernel, Sysctl
from probes.parsers.kernel.kernel_files import (
    Process,
    iommu_of_command_line,
    iommu_of_types,
    parse_boot_log,
    parse_buddyinfo,
    parse_chosen,
    parse_commented,
    parse_process,
    parse_settings,
    parse_switch,
)
from probes.reading.merging import fill_unknown
from probes.reading.texts import Output, outputs
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
"""Prefixes of names of the driver's threads and of training processes.

Sources: leptonai/gpud, zombie and D-state checks; PyTorch names its threads pt_*; read 2026-08.
"""
_MOST_PROCESSES = 20_000
_LOGIND_FOLDERS = ("/etc/systemd", "/run/systemd", "/usr/lib/systemd")
"""Folders of logind.conf by priority.

Only the first main file is used, and a drop-in file hides files of the same name in later folders.
"""
_SESSIONS = "/run/systemd/sessions"
_SLICES = (
    "/sys/fs/cgroup/system.slice",
    "/sys/fs/cgroup/systemd/system.slice",
    "/sys/fs/cgroup/unified/system.slice",
)
"""Folders of services with control groups of version 2, of version 1, and of both (systemd).

The folder of a service exists while the service has a process.
"""
_UNITS = (
    ("chronyd.service", "chronyd"),
    ("chrony.service", "chronyd"),
    ("ntpd.service", "ntpd"),
    ("ntp.service", "ntpd"),
    ("ntpsec.service", "ntpd"),
    ("openntpd.service", "ntpd"),
    ("systemd-timesyncd.service", "systemd-timesyncd"),
    ("phc2sys.service", "phc2sys"),
)
_PID_FILES = ("/run/chrony/chronyd.pid", "/run/chronyd.pid", "/run/ntpd.pid", "/run/openntpd.pid")
_DAEMONS = ("chronyd", "ntpd", "systemd-timesyn", "phc2sys", "ptp4l")
"""Names of processes as the kernel reports them, cut after 15 characters."""
_INTEGER = pattern(r"-?[0-9]{1,18}")
_SWAPPED = str.maketrans("./", "/.")
_SYNCHRONIZED = "/run/systemd/timesync/synchronized"
_TIMEDATECTL = ("timedatectl", "show", "-p", "NTPSynchronized")


def collect_kernel(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `kernel`."""
    processes = _processes(source, options)
    ports = map_known(read_text(source, _PORTS), _port_range)
    command_line = read_text(source, _COMMAND_LINE)
    numa_balancing = when_missing(read_int(source, _NUMA_BALANCING), _BUILT_WITHOUT)
    huge_pages = when_missing(read_text(source, _HUGE_PAGES), _BUILT_WITHOUT)
    kernel = Kernel(
        command_line=command_line,
        iommu=_iommu(source, command_line),
        # 0 is off; 1 and 2 are modes of moving memory.
        numa_balancing=map_known(numa_balancing, lambda number: number != 0),
        transparent_hugepages=map_known(huge_pages, parse_chosen),
        clocksource=read_text(source, _CLOCK),
        uptime_s=_first_number(source, _UPTIME),
        free_blocks_1mib=map_known(read_text(source, _BUDDY), parse_buddyinfo),
        memory_errors_corrected=_memory_errors(source, "ce_count"),
        memory_errors_uncorrected=_memory_errors(source, "ue_count"),
        zombie_processes=map_known(processes, lambda processes: sum(row.state == "Z" for row in processes)),
        blocked_processes=map_known(processes, _blocked),
        load_average=_first_number(source, _LOAD),
        local_port_first=map_known(ports, lambda ports: ports[0]),
        local_port_last=map_known(ports, lambda ports: ports[1]),
        somaxconn=read_int(source, _SOMAXCONN),
        file_max=read_int(source, _FILE_MAX),
        remove_ipc=_remove_ipc(source),
        sysctls=_sysctls(source, options.sysctls),
    )
    kernel = msgspec.structs.replace(kernel, evidence=_evidence(kernel))
    return {"kernel": _with_logs(kernel, items_of(outputs(source, "kernel-log")))}


def _with_logs(kernel: Kernel, logs: tuple[Output, ...]) -> Kernel:
    """Return the kernel with values from the boot messages of given logs for its unknown fields."""
    for output in logs:
        log = parse_boot_log(output.text)
        by_words = iommu_of_command_line(log.command_line) if log.command_line else None
        logged = {
            "command_line": log.command_line,
            "iommu": log.iommu or by_words,
            "clocksource": log.clocksource,
        }
        filled = fill_unknown(kernel, logged)
        if filled is not kernel:
            kernel = msgspec.structs.replace(filled, evidence=(*kernel.evidence, output.evidence))
    return kernel


def _evidence(kernel: Kernel) -> tuple[EvidenceRef, ...]:
    """Return references to the files that could be read."""
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
    settings = ((row.value, _sysctl_path(row.name)) for row in items_of(kernel.sysctls))
    return tuple(file_ref(path) for value, path in (*answers, *settings) if known(value))


def _sysctls(source: Source, wanted: tuple[str, ...]) -> tuple[Sysctl, ...] | Unknown:
    """Return every setting that a check's data row or the caller names; Unknown if none could be read."""
    names = dict.fromkeys((*sysctl_names(), *wanted))
    rows = tuple(
        Sysctl(name=name, value=map_known(read_text(source, _sysctl_path(name)), _setting)) for name in names
    )
    if only_known(row.value for row in rows):
        return rows
    unknown = first_unknown(*(row.value for row in rows))
    return unknown or Unknown(Reason.NOT_RECORDED, "no check uses a kernel setting")


def _setting(text: str) -> int | str:
    """Return the whole number that a text states, else the text with single blanks."""
    words = " ".join(text.split())
    return int(words) if _INTEGER.fullmatch(words) else words


def _sysctl_path(name: str) -> str:
    """Return the file of a setting; a slash in the name stands for a dot of an interface (sysctl(8))."""
    return f"/proc/sys/{name.translate(_SWAPPED)}"


def _iommu(source: Source, command_line: str | Unknown) -> str | Unknown:
    """Return the IOMMU mode from the domains of devices, or else from the command line if possible."""
    units = source.names(_IOMMU)
    if units == ():
        return "off"
    types = (read_text(source, f"{_GROUPS}/{group}/type") for group in items_of(source.names(_GROUPS)))
    mode = iommu_of_types(only_known(types))
    if mode is None and not isinstance(command_line, Unknown):
        mode = iommu_of_command_line(command_line)
        if mode is None and when_missing(units, None) is None:
            mode = "off"  # a kernel without IOMMU support has no such class
    return mode or first_unknown(units) or Unknown(Reason.NOT_SUPPORTED, "the kernel states no domain type")


def _first_number(source: Source, path: str) -> float | Unknown:
    text = read_text(source, path)
    if isinstance(text, Unknown):
        return text
    try:
        number = float(text.split()[0])
    except (ValueError, IndexError):
        number = math.nan
    return (
        number if 0 <= number < _LARGEST_UPTIME_S else Unknown(Reason.UNPARSABLE, f"{path}: {quoted(text)}")
    )


def _port_range(text: str) -> tuple[int, int] | Unknown:
    words = text.split()
    if len(words) == 2 and all(word.isdecimal() and len(word) < 6 for word in words):
        return int(words[0]), int(words[1])
    return Unknown(Reason.UNPARSABLE, f"{_PORTS}: {quoted(text)}")


def _memory_errors(source: Source, counter: str) -> int | Unknown:
    """Return the sum of a counter over all memory controllers."""
    names = when_missing(source.names(_MEMORY_CONTROLLERS), ())
    if isinstance(names, Unknown):
        return names
    values = [
        read_int(source, f"{_MEMORY_CONTROLLERS}/{name}/{counter}")
        for name in names
        if name.startswith("mc") and name[2:].isdecimal()
    ]
    return first_unknown(*values) or (sum(only_known(values)) if values else _NO_CONTROLLER)


def _processes(source: Source, options: CollectOptions) -> tuple[Process, ...] | Unknown:
    """Return all processes except processes that end during the call. Reading a process takes 20 µs."""
    if not options.deep:
        return DEEP_ONLY
    names = source.names("/proc")
    if isinstance(names, Unknown):
        return names
    numbers = [name for name in names if name.isdecimal()]
    if not numbers:
        return Unknown(Reason.NOT_RECORDED, "/proc lists no process")
    if len(numbers) > _MOST_PROCESSES:
        return Unknown(Reason.ERROR, f"more than {_MOST_PROCESSES} processes")
    texts = (read_text(source, f"/proc/{number}/stat") for number in numbers)
    processes = tuple(filter(None, map(parse_process, only_known(texts))))
    return processes or Unknown(Reason.NOT_RECORDED, "no process could be read")


def _blocked(processes: tuple[Process, ...]) -> tuple[str, ...]:
    """Return the relevant processes in uninterruptible sleep, with their process ids."""
    stuck = (row for row in processes if row.state == "D" and row.name.startswith(_RELEVANT_NAMES))
    return tuple(f"{process.name} ({process.pid})" for process in stuck)


def _remove_ipc(source: Source) -> bool | Unknown:
    """Return whether systemd-logind removes shared memory of users who log out (logind.conf(5), RemoveIPC).

    If no file sets the value, a comment in the main file contains the default.
    """
    mains = (when_missing(read_text(source, f"{folder}/logind.conf"), None) for folder in _LOGIND_FOLDERS)
    main = next((text for text in mains if text is not None), None)
    if main is None:
        return Unknown(Reason.NOT_SUPPORTED, "systemd-logind is not installed here")
    if isinstance(main, Unknown):
        return main
    if source.is_live and isinstance(source.names(_SESSIONS), Unknown):
        return Unknown(Reason.NOT_SUPPORTED, "systemd-logind does not run here")
    drop_ins: dict[str, str] = {}
    for folder in _LOGIND_FOLDERS:
        for name in items_of(source.names(f"{folder}/logind.conf.d")):
            if name.endswith(".conf"):
                drop_ins.setdefault(name, f"{folder}/logind.conf.d/{name}")
    value = parse_settings(main, "Login").get("RemoveIPC")
    for _, path in sorted(drop_ins.items()):  # in the order in which logind applies them
        settings = map_known(read_text(source, path), lambda text: parse_settings(text, "Login"))
        value = value_or(settings, {}).get("RemoveIPC", value)
    if value is None:
        value = parse_commented(main, "Login").get("RemoveIPC")
    return Unknown(Reason.NOT_RECORDED, "no file shows the default") if value is None else parse_switch(value)


def collect_clock(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `clock`: the daemon that synchronises the clock, and whether it is synchronised."""
    daemon, daemon_refs = _daemon(source, options)
    synchronized, refs = _synchronized(source, options)
    return {"clock": Clock(daemon=daemon, synchronized=synchronized, evidence=(*daemon_refs, *refs))}


def _daemon(source: Source, options: CollectOptions) -> tuple[str | Unknown | None, tuple[EvidenceRef, ...]]:
    folders_read: list[str] = []
    for folder in _SLICES:
        names = source.names(folder)
        if isinstance(names, Unknown):
            continue
        folders_read.append(folder)
        for unit, daemon in _UNITS:
            if unit in names:
                return daemon, (file_ref(f"{folder}/{unit}"),)
    for path in _PID_FILES:
        name = map_known(read_int(source, path), lambda pid: read_text(source, f"/proc/{pid}/comm"))
        if name in _DAEMONS:
            return name, (file_ref(path),)
    processes = _processes(source, options)
    if isinstance(processes, Unknown):
        return (None, tuple(map(file_ref, folders_read))) if folders_read else (processes, ())
    running = {process.name for process in processes}
    return next((name for name in _DAEMONS if name in running), None), (file_ref("/proc"),)


def _synchronized(source: Source, options: CollectOptions) -> tuple[bool | Unknown, tuple[EvidenceRef, ...]]:
    """Return whether the clock is synchronised.

    systemd-timesyncd creates a file; for other daemons, only a command reports the kernel's state.
    """
    if not isinstance(source.link(_SYNCHRONIZED), Unknown):
        return True, (file_ref(_SYNCHRONIZED),)
    if not options.deep:
        return DEEP_ONLY, ()
    text = source.run(_TIMEDATECTL, timeout_s=5).text()
    if isinstance(text, Unknown):
        return text, ()
    value = text.strip().partition("=")[2]
    if value not in ("yes", "no"):
        return Unknown(Reason.UNPARSABLE, f"timedatectl: {quoted(text)}"), ()
    return value == "yes", (command_ref(_TIMEDATECTL),)
