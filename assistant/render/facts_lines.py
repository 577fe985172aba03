"""A machine for the eye, read in ten seconds: one row for each subject, alike devices together, what is unknown with why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from assistant.render.lines import bold, filled
from probes.facts import Filesystem, Gpu, Interface, Limit, Link, MachineFacts, Nic
from probes.judging import fold_names, subject_name
from probes.record import Unknown, known, value_or
from probes.units import gbit_per_s, gib

T = TypeVar("T")

_INDENT = 11
_FILESYSTEMS_SHOWN = 6
_NEAREST_FIRST = ("PIX", "PXB", "PHB", "NODE", "SYS")

Part = tuple[str, str | Unknown]
"""What a value is called where it is unknown, and its words where it is known."""


def facts_lines(facts: MachineFacts, *, colour: bool) -> list[str]:
    """All lines of the overview."""
    rows: list[tuple[str, list[str]]] = [
        ("Machine", [_machine(facts)]),
        ("GPUs", _gpus(facts.gpus)),
        ("GPU links", _gpu_links(facts)),
        ("NICs", _nics(facts.nics)),
        ("Network", _interfaces(facts.interfaces)),
        ("CPU", [_cpu(facts)]),
        ("Memory", [_memory(facts)]),
        ("Limits", [_limits(facts)]),
        ("Software", [_software(facts)]),
        ("Training", [_training(facts)]),
        ("Storage", _storage(facts.storage)),
    ]
    lines = []
    for label, texts in rows:
        for number, text in enumerate(texts):
            first, *rest = filled(text, label=label if number == 0 else "", indent=_INDENT)
            lines += [bold(first[:_INDENT], colour=colour) + first[_INDENT:], *rest]
    return lines


def _joined(parts: Iterable[Part]) -> str:
    """Known words in their order, then what is unknown, together by reason: `a, b; c, d: unknown (not recorded)`."""
    words: list[str] = []
    unknown: dict[str, list[str]] = {}
    for name, value in parts:
        if isinstance(value, Unknown):
            unknown.setdefault(str(value), []).append(name)
        elif value:
            words.append(value)
    return "; ".join([", ".join(words)] * bool(words) + [f"{', '.join(names)}: {why}" for why, names in unknown.items()])


def _said(value: T | Unknown | None, form: str = "{}", none: str = "") -> str | Unknown:
    """`value` in words; an unknown stays one."""
    if isinstance(value, Unknown):
        return value
    return none if value is None else form.format(value)


def _size(value: int | Unknown | None, form: str = "{}", none: str = "") -> str | Unknown:
    return _said(gib(value) if isinstance(value, int) else value, form, none)


def _together(items: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names by their description, in the order of first appearance."""
    groups: dict[str, list[str]] = {}
    for name, description in items:
        groups.setdefault(description, []).append(name)
    return groups


def _machine(facts: MachineFacts) -> str:
    container, cloud, scheduler = facts.container, facts.cloud, facts.scheduler
    provider = _said(cloud.provider)
    return _joined(
        (
            ("name", _said(facts.hostname)),
            ("source", facts.source and f"read from {facts.source}" if facts.source != "live" else ""),
            ("container", _said(container.runtime, "in {}", "no container")),
            ("virtualisation", _said(container.virtualization, "on {}", "no hypervisor")),
            ("cloud", provider),
            ("machine type", _said(cloud.machine_type) if provider else ""),
            ("scheduler", _said(scheduler.kind, "in a job of {}", "no batch job")),
            ("job", _said(scheduler.job_id, "job {}") if isinstance(scheduler.kind, str) else ""),
        )
    )


def _gpus(gpus: tuple[Gpu, ...] | Unknown) -> list[str]:
    if isinstance(gpus, Unknown):
        return [str(gpus)]
    groups = _together((subject_name(gpu), _gpu(gpu)) for gpu in gpus)
    return [f"{fold_names(names)}: {len(names)} x {text}" for text, names in groups.items()] or ["none"]


def _gpu(gpu: Gpu) -> str:
    links = gpu.nvlinks
    up = str(sum(link.active is True for link in links)) if known(links) else links
    return _joined(
        (
            ("name", _said(gpu.name)),
            ("memory", _size(gpu.memory_bytes)),
            ("compute capability", _said(gpu.compute_capability, "compute capability {}")),
            ("power limit", _said(gpu.power_limit_w, "{:.0f} W")),
            ("PCIe width", _said(gpu.pcie.width, "PCIe x{}")),
            ("NVLinks", "no NVLink" if up == "0" else _said(up, "{} NVLinks up")),
            ("MIG", "MIG on" if gpu.mig_enabled is True else ""),
        )
    )


def _gpu_links(facts: MachineFacts) -> list[str]:
    links, gpus = facts.links, value_or(facts.gpus, ())
    if isinstance(links, Unknown):
        return [str(links)]
    between = Counter(_kind(link) for link in links if link.a.startswith("GPU") and link.b.startswith("GPU"))
    texts = [", ".join(f"{count} GPU pair{'s' * (count > 1)} {kind}" for kind, count in between.most_common())] if between else []
    nearest = [text for gpu in gpus if (text := _nearest_nics(gpu, links))]
    return texts + ([", ".join(nearest)] if nearest else []) or ["none"]


def _kind(link: Link) -> str:
    return f"{link.kind} x{link.nvlink_count}" if link.nvlink_count else str(link.kind)


def _nearest_nics(gpu: Gpu, links: Sequence[Link]) -> str:
    """`GPU0 PIX mlx5_0`: the NICs at the shortest distance, unless that is all of them."""
    name = subject_name(gpu)
    reach: dict[str, list[str]] = {}
    for link in links:
        if name in (link.a, link.b) and known(link.kind):
            other = link.b if link.a == name else link.a
            if not other.startswith("GPU"):
                reach.setdefault(link.kind, []).append(other)
    kind = next((kind for kind in _NEAREST_FIRST if kind in reach), None)
    return f"{name} {kind} {fold_names(reach[kind])}" if kind else ""


def _nics(nics: tuple[Nic, ...] | Unknown) -> list[str]:
    if isinstance(nics, Unknown):
        return [str(nics)]
    groups = _together((subject_name(nic), _nic(nic)) for nic in nics)
    return [f"{fold_names(names)}: {len(names)} x {text}" for text, names in groups.items()] or ["none"]


def _nic(nic: Nic) -> str:
    return _joined(
        (
            ("link layer", _said(nic.link_layer)),
            ("rate", _said(gbit_per_s(nic.rate_gbps) if known(nic.rate_gbps) else nic.rate_gbps)),
            ("state", _said(nic.state)),
            ("type", _said(nic.device_type)),
        )
    )


def _interfaces(interfaces: tuple[Interface, ...] | Unknown) -> list[str]:
    if isinstance(interfaces, Unknown):
        return [str(interfaces)]
    shown = [interface for interface in interfaces if interface.up is True and interface.is_virtual is not True]
    texts = []
    for interface in shown:
        route = "default route" if interface.is_default_route is True else ""
        addresses = interface.addresses if isinstance(interface.addresses, Unknown) else " ".join(interface.addresses)
        speed = "" if isinstance(interface.speed_gbps, Unknown) else gbit_per_s(interface.speed_gbps)
        texts.append(_joined((("name", interface.name), ("speed", speed), ("addresses", addresses), ("route", route))))
    hidden = len(interfaces) - len(shown)
    return texts + ([f"{hidden} virtual or down"] if hidden else []) or ["none"]


def _cpu(facts: MachineFacts) -> str:
    cpu, nodes = facts.cpu, facts.numa_nodes
    sockets = f"{cpu.sockets} x " if known(cpu.sockets) else ""
    return _joined(
        (
            ("model", _said(cpu.model, sockets + "{}")),
            ("sockets", cpu.sockets if isinstance(cpu.sockets, Unknown) else ""),
            ("cores", _said(cpu.physical_cores, "{} cores")),
            ("CPUs", _said(cpu.logical_cpus, "{} CPUs")),
            (
                "usable CPUs",
                "" if cpu.allowed_cpus == cpu.logical_cpus and known(cpu.allowed_cpus) else _said(cpu.allowed_cpus, "{} usable"),
            ),
            ("NUMA nodes", nodes if isinstance(nodes, Unknown) else f"{len(nodes)} NUMA node{'s' * (len(nodes) != 1)}"),
            ("flags", cpu.flags if isinstance(cpu.flags, Unknown) else " ".join(cpu.flags)),
        )
    )


def _memory(facts: MachineFacts) -> str:
    memory = facts.memory
    return _joined(
        (
            ("total", _size(memory.total_bytes)),
            ("available", _size(memory.available_bytes, "{} available")),
            ("limit", _size(memory.limit_bytes, "limited to {}", "no limit")),
            ("swap", "no swap" if memory.swap_total_bytes == 0 else _size(memory.swap_total_bytes, "{} swap")),
        )
    )


def _limits(facts: MachineFacts) -> str:
    limits = facts.limits
    return _joined(
        (
            ("locked memory", _limit(limits.memlock_bytes, "locked memory {}")),
            ("open files", _said(limits.nofile, "{} open files")),
            ("stack", _limit(limits.stack_bytes, "stack {}")),
            ("shared memory", _size(limits.shm_bytes, "shared memory {}")),
        )
    )


def _limit(value: Limit, form: str) -> str | Unknown:
    return _said(value, form) if value == "unlimited" or isinstance(value, Unknown) else form.format(gib(value))


def _software(facts: MachineFacts) -> str:
    software = facts.software
    module = {True: " (open kernel module)", False: " (proprietary kernel module)"}.get(
        value_or(software.driver_open_module, None) or False
    )
    module = module if known(software.driver_open_module) else ""
    return _joined(
        (
            ("operating system", _said(software.operating_system)),
            ("kernel", _said(software.kernel, "kernel {}")),
            ("driver", _said(software.driver_version, "driver {}" + str(module), "no NVIDIA driver")),
            (
                "CUDA of the driver",
                "" if software.driver_version is None else _said(software.cuda_driver_version, "up to CUDA {}"),
            ),
            ("CUDA toolkit", _said(software.cuda_toolkit_version, "CUDA toolkit {}", "no CUDA toolkit")),
            ("NCCL", _said(software.nccl_version, "NCCL {}", "no system NCCL")),
            ("MPI", _said(software.mpi_version, "MPI {}", "no MPI")),
            ("Slurm", _said(software.slurm_version, "Slurm {}", "no Slurm")),
            ("Fabric Manager", _said(software.fabric_manager, "Fabric Manager {}")),
        )
    )


def _training(facts: MachineFacts) -> str:
    training = facts.training
    if training.path is None:
        return "no Python interpreter with torch was found"
    by = f" ({training.found_by})" if training.found_by else ""
    return _joined(
        (
            ("interpreter", _said(training.path, "{}" + by.replace("{", "{{").replace("}", "}}"))),
            ("Python", _said(training.python_version, "Python {}")),
            ("torch", _said(training.torch_version, "torch {}", "no torch")),
            (
                "CUDA of torch",
                "" if training.torch_version is None else _said(training.torch_cuda_version, "CUDA {}", "without CUDA"),
            ),
            ("NCCL of torch", "" if training.torch_version is None else _said(training.nccl_version, "NCCL {}", "without NCCL")),
        )
    )


def _storage(storage: tuple[Filesystem, ...] | Unknown) -> list[str]:
    if isinstance(storage, Unknown):
        return [str(storage)]
    texts = [
        _joined(
            (
                ("mount", filesystem.mount),
                ("type", _said(filesystem.kind)),
                ("free", _size(filesystem.free_bytes, "{} free")),
                ("size", _size(filesystem.total_bytes, "of {}")),
            )
        )
        for filesystem in storage[:_FILESYSTEMS_SHOWN]
    ]
    more = len(storage) - len(texts)
    return texts + ([f"and {more} more"] if more else []) or ["none"]
