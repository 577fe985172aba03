"""Turn facts into a flat table with one text per subject and field, to compare several machines."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from probes.base.record import Record, Unknown, first_unknown, only_known
from probes.base.units import duration, gb_per_s, gbit_per_s, gib
from probes.facts import Count, Gpu, Interface, LogEvent, MachineFacts, Nic, NvLink, PciDevice, State

HOST = "host"
Leaf = str | tuple[str, ...] | Unknown
"""A value as text, a set of texts, or the reason why there is no value."""


class Key(NamedTuple):
    """The subject and field of a row."""

    subject: str
    """Part of the machine: `mlx5_2`, `host` and others; for a GPU, `GPU`, a NUL character and its key."""
    field: str
    """Path in the JSON below the subject; empty for the row that states that the subject exists."""


EXISTS = "there"

VOLATILE = frozenset({
    "temperature_c", "memory_temperature_c", "temperature_margin_c", "power_w", "sm_clock_mhz",
    "memory_clock_mhz", "utilization_percent", "memory_used_bytes", "processes", "throttle_reasons",
    "performance_state", "fan_percent", "violations_us", "pcie.generation", "pcie_replays",
    "ecc_corrected_volatile", "corrected_aggregate", "counters", "aer_correctable", "aer_nonfatal",
    "aer_fatal", "pre_fec_bit_error_rate", "bit_error_rate", "carrier_changes", "available_bytes",
    "free_bytes", "memory_free_bytes", "shm_free_bytes", "free_blocks_1mib", "uptime_s", "load_average",
    "zombie_processes", "blocked_processes", "memory_errors_corrected", "system_w", "crc_errors",
    "replay_errors", "recovery_errors", "count", "first_time", "last_time", "line", "message",
    "tool_results", "contradictions", "unread", "failed_queries", "last_line", "first_line",
})  # fmt: skip
"""Fields that change all the time, and growing counters, for callers that leave them out."""

IDENTITY = frozenset({
    "hostname", "uuid", "serial", "node_guid", "port_guid", "gids", "lid", "addresses", "cluster_uuid",
    "neighbour", "job_id", "mig_devices",
})  # fmt: skip
"""Fields that differ between any two machines of a kind."""

_LEFT_OUT = frozenset({"evidence", "source", "schema_version", "index", "name", "bus_id", "port", "a", "b"})
_WORDS = {
    "software.driver_version": "driver",
    "driver_version": "driver",
    "software.cuda_driver_version": "CUDA of the driver",
    "software.kernel": "kernel",
    "software.operating_system": "operating system",
    "vbios_version": "VBIOS",
    "gsp_firmware_version": "GSP firmware",
    "firmware_version": "firmware",
    "nvlinks.up": "NVLinks up",
    "nvlinks.count": "NVLinks",
    "nvlinks.rate": "rate of an NVLink",
    "mig_enabled": "MIG",
    "ecc_enabled": "ECC",
    "pci_bus_id": "PCI address",
    "power_limit_default_w": "default power limit",
    "nvlink_count": "NVLinks",
    "state": "",
    "kind": "",
    "pcie.width": "PCIe width",
    "pcie.width_max": "PCIe width possible",
    "pcie.generation_max": "PCIe generation possible",
    "numa_node": "NUMA node",
    "cpu_affinity": "CPU affinity",
    "mtu": "MTU",
    "value": "",
    "naming.addresses": "addresses of its name",
    "cpu.model": "processor",
    "cpu.architecture": "processor architecture",
    "cpu.flags": "processor flags",
    "cpu.max_mhz": "highest processor clock",
    "memory.total_bytes": "memory",
    "memory.available_bytes": "available memory",
    "memory.limit_bytes": "memory limit",
    "memory.swap_total_bytes": "swap",
    "memory.hugepages_total": "huge pages",
    "memory.hugepage_bytes": "size of a huge page",
    "limits.memlock_bytes": "limit of locked memory",
    "limits.nofile": "limit of open files",
    "limits.stack_bytes": "limit of the stack",
    "limits.shm_bytes": "shared memory",
    "limits.processes": "limit of processes",
    "limits.core_bytes": "limit of core dumps",
    "clock.daemon": "time daemon",
    "clock.synchronized": "clock synchronised",
    "power.system_w": "power",
    "power.supply_capacity_w": "power of the supplies",
    "training.path": "training interpreter",
    "training.found_by": "training interpreter found by",
    "training.nccl_version": "NCCL of torch",
    "training.torch_cuda_version": "CUDA of torch",
    "software.fabric_manager": "Fabric Manager",
    "software.fabric_manager_version": "Fabric Manager version",
    "container.runtime": "container runtime",
    "cloud.provider": "cloud",
    "scheduler.kind": "batch system",
    "scheduler.version": "version of the batch system",
    "scheduler.settings": "settings of the batch system",
    "fabric.status": "fabric status",
    "fabric.health": "fabric health",
}
_ACRONYMS = frozenset({
    "bios", "bmc", "cpu", "cuda", "dcgm", "ecc", "gpu", "gsp", "imex", "ipc", "lid", "mig", "mpi", "mtu",
    "nccl", "numa", "ofed", "pci", "rdma", "sm", "sram", "uuid", "vbios",
})  # fmt: skip
_IDENTIFYING = (
    "a", "b", "mount", "tool", "test", "subject", "metric", "size_bytes", "node", "port", "name", "bus_id",
    "pid",
)  # fmt: skip
"""Fields that identify a record among others of its type, in the order in which they are written."""
_RECORDS = {"NumaNode": "NUMA node", "NvLink": "NVLink"}
_UNITS: dict[str, Callable[[float], str]] = {
    "_bytes_per_s": gb_per_s,
    "_bytes": gib,
    "_gbps": gbit_per_s,
    "_mhz": lambda value: f"{value:g} MHz",
    "_w": lambda value: f"{value:g} W",
    "_c": lambda value: f"{value:g} °C",
    "_s": duration,
    "_percent": lambda value: f"{value:g} %",
}


def flat(facts: MachineFacts, *, by: str = "bus", skip: frozenset[str] = frozenset()) -> dict[Key, Leaf]:
    """Return the table of a machine without the fields in `skip`.

    `by` selects the property that identifies a GPU: `bus` (PCI address) or `index`.
    """
    # All GPUs share one driver. The version per GPU is used only if the version of the machine is unknown.
    known_driver = not isinstance(facts.software.driver_version, Unknown)
    per_gpu = frozenset({"driver_version"}) if known_driver else frozenset()
    rows: dict[Key, Leaf] = {}
    for name in facts.__struct_fields__:
        value = getattr(facts, name)
        if name == "gpus" and isinstance(value, tuple):
            for gpu in value:
                rows.update(_gpu(gpu, by, skip | per_gpu))
        elif name not in _LEFT_OUT:
            rows.update(_rows(HOST, name, value, skip))
    return rows


def words_of(field: str) -> str:
    """Return the label of a field: `power limit` for `power_limit_w`; empty if the value needs no label."""
    last = field.rpartition(".")[2]
    if field in _WORDS or last in _WORDS:
        return _WORDS[field] if field in _WORDS else _WORDS[last]
    unit = next((suffix for suffix in _UNITS if last.endswith(suffix)), "")
    words = last.removesuffix(unit).removesuffix("_version").removeprefix("is_").split("_")
    return " ".join(map(_capital, words))


def _capital(word: str) -> str:
    """Return `NCCL` and `CPUs` for acronyms, and other words unchanged."""
    stem = word.removesuffix("s")
    return stem.upper() + word[len(stem) :] if stem in _ACRONYMS else word


def _is_among(field: str, names: frozenset[str]) -> bool:
    """Return whether the last name of a field's path, or the last two, are among `names`."""
    parts = field.split(".")
    return parts[-1] in names or ".".join(parts[-2:]) in names


def gpu_key(gpu: Gpu, by: str) -> str | None:
    """Return the identity of a GPU by `uuid`, `bus` or `index`; None if unknown."""
    value: Any = {"uuid": gpu.uuid, "bus": gpu.pci_bus_id}.get(by, gpu.index)
    return None if isinstance(value, Unknown) else str(value)


def _gpu(gpu: Gpu, by: str, skip: frozenset[str]) -> Iterator[tuple[Key, Leaf]]:
    subject = f"GPU\0{gpu_key(gpu, by)}"
    yield Key(subject, ""), EXISTS
    yield Key(subject, "index"), str(gpu.index)
    for name in gpu.__struct_fields__:
        if name == "name":
            yield Key(subject, "model"), _leaf(name, gpu.name)
        elif name not in _LEFT_OUT:
            yield from _rows(subject, name, getattr(gpu, name), skip)


def _rows(subject: str, field: str, value: Any, skip: frozenset[str]) -> Iterator[tuple[Key, Leaf]]:
    """Yield the rows of a value of any type."""
    if _is_among(field, skip):
        return
    if isinstance(value, Record):
        for name in value.__struct_fields__:
            if name not in _LEFT_OUT:
                yield from _rows(subject, f"{field}.{name}", getattr(value, name), skip)
    elif field == "nvlinks" and isinstance(value, tuple):
        yield from _nvlinks(subject, value)
    elif isinstance(value, tuple) and value and isinstance(value[0], Record):
        for record in value:
            yield from _record(subject, field, record, skip)
    else:
        yield Key(subject, field), _leaf(field, value)


def _record(subject: str, field: str, record: Record, skip: frozenset[str]) -> Iterator[tuple[Key, Leaf]]:
    """Yield the rows of a record in a list, under the name that identifies the record."""
    if isinstance(record, State | Count):
        yield Key(subject, f"{field}.{record.name}"), str(record.value)
        return
    name_of_record = _name(record)
    subject_of_record = name_of_record if subject == HOST else f"{subject} {name_of_record}"
    yield Key(subject_of_record, ""), EXISTS
    for name in record.__struct_fields__:
        if name not in _LEFT_OUT:
            yield from _rows(subject_of_record, name, getattr(record, name), skip)


def _name(record: Record) -> str:
    match record:
        case Nic():
            return record.name if record.port == 1 else f"{record.name}:{record.port}"
        case Interface():
            return f"interface {record.name}"
        case PciDevice():
            return f"{record.kind} {record.bus_id}"
        case LogEvent():
            code = f" {record.code}" if record.code is not None else ""
            return f"event {record.kind}{code}" + (f" on {record.device}" if record.device else "")
    parts = [
        str(value)
        for name in _IDENTIFYING
        if (value := getattr(record, name, None)) not in (None, "") and not isinstance(value, Unknown)
    ]
    if hasattr(record, "index"):
        kind = type(record).__name__
        parts.append(f"{_RECORDS.get(kind, kind)} {record.index}")
    if hasattr(record, "capability"):
        parts.append(str(record.capability))
    return " ".join(parts) or _RECORDS.get(type(record).__name__, type(record).__name__)


def _nvlinks(subject: str, links: tuple[NvLink, ...]) -> Iterator[tuple[Key, Leaf]]:
    states = [link.active for link in links]
    unknown = first_unknown(*states)
    yield Key(subject, "nvlinks.count"), str(len(links))
    yield Key(subject, "nvlinks.up"), unknown or str(sum(state is True for state in states))
    rates = only_known(link.bandwidth_bytes_per_s for link in links)
    if rates:
        yield Key(subject, "nvlinks.rate"), gb_per_s(min(rates))


def _leaf(field: str, value: Any) -> Leaf:
    match value:
        case Unknown():
            return value
        case None:
            return "none"
        case bool():
            return "on" if value else "off"
        case int() | float():
            unit = next((suffix for suffix in _UNITS if field.endswith(suffix)), "")
            return _UNITS[unit](value) if unit else f"{value:g}" if isinstance(value, float) else str(value)
        case tuple():
            return tuple(sorted(map(str, value)))
    return str(value)
