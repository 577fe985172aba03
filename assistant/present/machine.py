"""The host and its software, in a few lines."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from assistant.present.text import CAUTION, DIM, Panel, clean, settled, short, shown
from probes.base.record import Unknown, known, value_or
from probes.base.units import gib, plural
from probes.facts import Limit, Limits, MachineFacts


def software(facts: MachineFacts, *, complete: bool) -> Panel:
    """The versions that decide what can run."""
    it, training = facts.software, facts.training
    rows = [("system", _together(shown(it.operating_system), shown(it.kernel)))]
    if known(facts.gpus) and facts.gpus:
        rows.append(
            (
                "driver",
                _together(_installed(it.driver_version), shown(it.cuda_driver_version, "CUDA {}".format)),
            )
        )
        if it.fabric_manager is not None:
            rows.append(("fabric mgr", shown(it.fabric_manager)))
    rows.append(("python", _interpreter(facts)))
    if known(training.path) and training.path is not None:
        cuda = training.torch_cuda_version
        build = Text("CPU build") if cuda is None else Text(f"CUDA {short(cuda)}")
        parts = [_installed(training.torch_version), build]
        if known(training.nccl_version) and training.nccl_version is not None:
            parts.append(Text(f"NCCL {clean(training.nccl_version)}"))
        rows.append(("torch", _together(*parts)))
    failed = [service.name for service in value_or(it.services, ()) if service.value == "failed"]
    if failed:
        rows.append(("failed", Text(", ".join(map(clean, failed)), style=CAUTION)))
    rows.append(("Slurm", _installed(it.slurm_version)))
    rows.append(("MPI", _installed(it.mpi_version)))
    return Panel("Software", settled(rows, complete))


def _interpreter(facts: MachineFacts) -> Text:
    path = facts.training.path
    if path is None:
        return Text("no interpreter with torch was found", style=CAUTION)
    return shown(path)


def host(facts: MachineFacts, *, complete: bool, title: str = "Host") -> Panel:
    """Processor, memory, limits, and what the machine runs in."""
    cpu, memory, limits = facts.cpu, facts.memory, facts.limits
    counts = ((cpu.sockets, "socket"), (cpu.physical_cores, "core"), (cpu.allowed_cpus, "usable CPU"))
    cores = Text(
        ", ".join(
            f"? {noun}s" if isinstance(number, Unknown) else plural(number, noun) for number, noun in counts
        )
    )
    if isinstance(cpu.sockets, Unknown) and all(number == cpu.sockets for number, _ in counts):
        cores = shown(cpu.sockets)
    size = shown(memory.total_bytes, gib)
    if known(memory.limit_bytes) and memory.limit_bytes is not None:
        size.append(f", limit {gib(memory.limit_bytes)}", style=CAUTION)
    rows = [
        ("machine", _maker(facts)),
        ("CPU", shown(cpu.model)),
        ("cores", cores),
        ("NUMA", shown(facts.numa_nodes, lambda nodes: plural(len(nodes), "node"))),
        ("memory", size),
        ("limits", _limits(limits)),
        ("shm", shown(limits.shm_bytes, gib)),
        ("settings", _settings(facts)),
        ("runs in", _surroundings(facts)),
    ]
    return Panel(title, settled([row for row in rows if row[1].plain], complete))


def _maker(facts: MachineFacts) -> Text:
    words = [clean(value) for value in (facts.dmi.system_vendor, facts.dmi.product_name) if known(value)]
    return Text(" ".join(words))


def _settings(facts: MachineFacts) -> Text:
    """Kernel settings that cost speed where they are wrong."""
    kernel = facts.kernel
    parts = (("IOMMU", kernel.iommu), ("governor", facts.cpu.governor), ("clock", kernel.clocksource))
    return Text(", ".join(f"{name} {clean(value)}" for name, value in parts if known(value)))


def _limits(limits: Limits) -> Text:
    if isinstance(limits.memlock_bytes, Unknown) and limits.nofile == limits.memlock_bytes:
        return shown(limits.memlock_bytes)
    return Text(f"memlock {_limit(limits.memlock_bytes, gib)}, files {_limit(limits.nofile, str)}")


def _limit(value: Limit, how: Callable[[int], str]) -> str:
    return value if isinstance(value, str) else short(value, how)


def _surroundings(facts: MachineFacts) -> Text:
    values = (
        facts.container.runtime,
        facts.container.virtualization,
        facts.cloud.provider,
        facts.cloud.machine_type,
    )
    words = [clean(value) for value in values if known(value) and value is not None]
    if known(facts.scheduler.kind) and facts.scheduler.kind is not None:
        words.append(f"{clean(facts.scheduler.kind)} job {short(facts.scheduler.job_id)}")
    if words:
        return Text(", ".join(words))
    if facts.container.runtime is None and facts.container.virtualization is None:
        return Text("bare metal")
    return shown(facts.container.runtime, lambda runtime: runtime or "the host itself")


def _installed(value: str | Unknown | None) -> Text:
    return Text("not installed", style=DIM) if value is None else shown(value)


def _together(*parts: Text) -> Text:
    """The parts in their order; words that are the same for all once."""
    return parts[0] if len({part.plain for part in parts}) == 1 else Text(", ").join(parts)
