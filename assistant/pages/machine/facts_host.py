"""Describe the host: its processors and memory, settings and limits, power and disks."""

from assistant.pages.machine.facts_words import (
    Line,
    Subject,
    counted,
    first,
    flag,
    joined,
    noted,
    said,
    size,
    subject,
    unknown_subject,
)
from probes.base.grouping import grouped
from probes.base.record import Unknown, items_of, known, map_known
from probes.base.units import duration, gib, plural
from probes.facts import Filesystem, Limit, MachineFacts
from probes.facts.host_facts import CALLER
from probes.judging.reporting import fold_names

_FILESYSTEMS_SHOWN = 6


def identity(facts: MachineFacts, *, verbose: bool) -> list[Subject]:
    """Return the rows that identify the machine."""
    container, cloud, scheduler, dmi = facts.container, facts.cloud, facts.scheduler, facts.dmi
    provider = said(cloud.provider)
    whole = joined(
        (
            ("name", said(facts.hostname)),
            ("maker", said(dmi.system_vendor)),
            ("model", said(dmi.product_name)),
            ("firmware", said(dmi.bios_version, "BIOS {}")),
            ("management controller", said(dmi.bmc_version, "BMC {}")),
            ("container", said(container.runtime, "in {}", "no container")),
            ("virtualisation", said(container.virtualization, "on {}", "no hypervisor")),
            ("cloud", provider),
            ("machine type", said(cloud.machine_type) if provider else ""),
            ("scheduler", said(scheduler.kind, "in a job of {}", "no batch job")),
            ("job", said(scheduler.job_id, "job {}") if isinstance(scheduler.kind, str) else ""),
        )
    )
    source = Line(f"read from {facts.source}" if facts.source not in ("", "live") else "")
    return [subject("Source", [source]), subject("Machine", [whole])]


def _many(number: int | Unknown, noun: str) -> str | Unknown:
    return map_known(number, lambda count: plural(count, noun) if count else "")


def sections(facts: MachineFacts, *, verbose: bool) -> list[Subject]:
    return [
        subject("CPU", [_cpu(facts), *(_nodes(facts) if verbose else [])]),
        subject("Memory", [_memory(facts)]),
        subject("Settings", [_settings(facts), _trouble(facts, verbose=verbose)]),
        subject("Limits", [_limits(facts, verbose=verbose)]),
        subject("Power", [_power(facts)]),
        _storage(facts.storage, verbose=verbose),
    ]


def _cpu(facts: MachineFacts) -> Line:
    cpu, nodes = facts.cpu, facts.numa_nodes
    sockets = f"{cpu.sockets} x " if known(cpu.sockets) else ""
    is_all = cpu.allowed_cpus == cpu.logical_cpus and known(cpu.allowed_cpus)
    return joined(
        (
            ("model", said(cpu.model, sockets + "{}")),
            ("sockets", cpu.sockets if isinstance(cpu.sockets, Unknown) else ""),
            ("cores", counted(cpu.physical_cores, "core")),
            ("CPUs", counted(cpu.logical_cpus, "CPU")),
            ("usable CPUs", "" if is_all else said(cpu.allowed_cpus, "{} usable")),
            ("NUMA nodes", nodes if isinstance(nodes, Unknown) else plural(len(nodes), "NUMA node")),
            ("flags", cpu.flags if isinstance(cpu.flags, Unknown) else " ".join(cpu.flags)),
        )
    )


def _nodes(facts: MachineFacts) -> list[Line]:
    """Return NUMA nodes with their CPUs, memory and distances; equal nodes share a line."""
    groups = grouped(
        (
            joined(
                (
                    ("CPUs", "no CPUs" if node.cpus == "" else said(node.cpus, "CPUs {}")),
                    ("memory", size(node.memory_bytes)),
                    ("free memory", size(node.memory_free_bytes, "{} free")),
                    ("use", flag(node.is_gpu_memory, yes="memory of a GPU")),
                    (
                        "distances",
                        node.distances
                        if isinstance(node.distances, Unknown)
                        else "distances " + " ".join(map(str, node.distances)),
                    ),
                )
            ),
            f"{node.index}",
        )
        for node in items_of(facts.numa_nodes)
    )
    return [
        Line(f"NUMA node {fold_names(names)}: {line.text}", line.unknown) for line, names in groups.items()
    ]


def _memory(facts: MachineFacts) -> Line:
    memory, page = facts.memory, facts.memory.hugepage_bytes
    return joined(
        (
            ("total", size(memory.total_bytes)),
            ("available", size(memory.available_bytes, "{} available")),
            ("limit", size(memory.limit_bytes, "limited to {}", "no limit")),
            ("swap", "no swap" if memory.swap_total_bytes == 0 else size(memory.swap_total_bytes, "{} swap")),
            (
                "huge pages",
                noted(
                    memory.hugepages_total,
                    0,
                    form="{} huge pages" + (f" of {gib(page)}" if known(page) else ""),
                ),
            ),
        )
    )


def _settings(facts: MachineFacts) -> Line:
    """Return the kernel settings that affect speed, the state of the clock, and the uptime."""
    kernel, clock = facts.kernel, facts.clock
    return joined(
        (
            ("IOMMU", said(kernel.iommu, "IOMMU {}")),
            ("governor", said(facts.cpu.governor, "governor {}")),
            ("transparent huge pages", said(kernel.transparent_hugepages, "transparent huge pages {}")),
            ("NUMA balancing", flag(kernel.numa_balancing, yes="NUMA balancing on", no="NUMA balancing off")),
            ("clock source", said(kernel.clocksource, "clock source {}")),
            ("time daemon", said(clock.daemon, "time kept by {}", "no time daemon")),
            ("synchronisation", flag(clock.synchronized, no="clock not synchronised")),
            ("uptime", "" if isinstance(kernel.uptime_s, Unknown) else f"up {_uptime(kernel.uptime_s)}"),
        )
    )


def _uptime(uptime_s: float) -> str:
    days = int(uptime_s // 86400)
    return plural(days, "day") if days else duration(uptime_s)


def _trouble(facts: MachineFacts, *, verbose: bool) -> Line:
    """Return memory errors and blocked processes; with `verbose`, also the number of zombies."""
    kernel, blocked = facts.kernel, items_of(facts.kernel.blocked_processes)
    return Line(
        tone="caution",
        text=joined(
            (
                (
                    "memory errors",
                    noted(kernel.memory_errors_uncorrected, 0, form="{} uncorrected memory errors"),
                ),
                (
                    "corrected memory errors",
                    noted(kernel.memory_errors_corrected, 0, form="{} corrected memory errors"),
                ),
                ("blocked", f"blocked: {', '.join(first(blocked, 4))}" if blocked else ""),
                ("zombies", _many(kernel.zombie_processes, "zombie") if verbose else ""),
            )
        ).text,
    )


def _limits(facts: MachineFacts, *, verbose: bool) -> Line:
    limits = facts.limits
    parts = [
        (
            "locked memory",
            _limit(limits.memlock_for_training, f"locked memory {{}}{_owner(limits.memlock_owner)}"),
        ),
        ("open files", said(limits.nofile_for_training, f"{{}} open files{_owner(limits.nofile_owner)}")),
        ("stack", _limit(limits.stack_bytes, "stack {}")),
        ("shared memory", size(limits.shm_bytes, "shared memory {}")),
    ]
    if verbose:
        parts += [
            ("free shared memory", size(limits.shm_free_bytes, "{} of it free")),
            ("processes", said(limits.processes, "{} processes")),
            ("core files", _limit(limits.core_bytes, "core files {}")),
        ]
    return joined(parts)


def _owner(owner: str) -> str:
    """Return the owner of a limit, escaped for `str.format`; empty for the calling process itself."""
    return "" if owner == CALLER else f" ({owner})".replace("{", "{{").replace("}", "}}")


def _limit(value: Limit, form: str) -> str | Unknown:
    return (
        said(value, form) if value == "unlimited" or isinstance(value, Unknown) else form.format(gib(value))
    )


def _power(facts: MachineFacts) -> Line:
    """Return the power draw, failed supplies and alarms, and the capacity that the firmware states."""
    power = facts.power
    failed, alarms = items_of(power.failed_supplies), items_of(power.sensor_alarms)
    line = joined(
        (
            ("draw", said(power.system_w, "{:.0f} W now")),
            ("supplies", said(power.supply_capacity_w, "supplies of {:.0f} W in total")),
            ("failed", f"failed: {', '.join(first(failed, 6))}" if failed else ""),
            ("alarms", f"outside of limits: {', '.join(first(alarms, 6))}" if alarms else ""),
        )
    )
    return Line(line.text)


def _storage(storage: tuple[Filesystem, ...] | Unknown, *, verbose: bool) -> Subject:
    if isinstance(storage, Unknown):
        return unknown_subject("Storage", storage)
    lines: list[Line | str] = [
        joined(
            (
                ("mount", filesystem.mount),
                ("type", said(filesystem.kind)),
                ("free", size(filesystem.free_bytes, "{} free")),
                ("size", size(filesystem.total_bytes, "of {}")),
                ("mode", flag(filesystem.read_only, yes="read only") if known(filesystem.read_only) else ""),
            )
        )
        for filesystem in (storage if verbose else storage[:_FILESYSTEMS_SHOWN])
    ]
    more = len(storage) - len(lines)
    return subject("Storage", [*lines, f"and {more} more" if more else ""] if storage else ["none"])
