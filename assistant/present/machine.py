"""The host and its software, in a few lines."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from assistant.present.text import CAUTION, DIM, Panel, clean, plural, settled, short, shown
from probes.facts import Limit, MachineFacts
from probes.record import Unknown, known
from probes.units import gib


def software(facts: MachineFacts, *, complete: bool) -> Panel:
    """The versions that decide what can run."""
    it, training = facts.software, facts.training
    rows = [("system", _together(shown(it.operating_system), shown(it.kernel)))]
    if known(facts.gpus) and facts.gpus:
        rows.append(("driver", _together(_installed(it.driver_version), Text(f"CUDA {short(it.cuda_driver_version)}"))))
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
    cores = Text(", ".join(f"? {noun}s" if isinstance(number, Unknown) else plural(number, noun) for number, noun in counts))
    size = shown(memory.total_bytes, gib)
    if known(memory.limit_bytes) and memory.limit_bytes is not None:
        size.append(f", limit {gib(memory.limit_bytes)}", style=CAUTION)
    rows = [
        ("CPU", shown(cpu.model)),
        ("cores", cores),
        ("NUMA", shown(facts.numa_nodes, lambda nodes: plural(len(nodes), "node"))),
        ("memory", size),
        ("limits", Text(f"memlock {_limit(limits.memlock_bytes, gib)}, files {_limit(limits.nofile, str)}")),
        ("shm", shown(limits.shm_bytes, gib)),
        ("runs in", _surroundings(facts)),
    ]
    return Panel(title, settled(rows, complete))


def _limit(value: Limit, how: Callable[[int], str]) -> str:
    return value if isinstance(value, str) else short(value, how)


def _surroundings(facts: MachineFacts) -> Text:
    values = (facts.container.runtime, facts.container.virtualization, facts.cloud.provider, facts.cloud.machine_type)
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
    return Text(", ").join(parts)
