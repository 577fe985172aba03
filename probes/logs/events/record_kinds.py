"""All records of log events by the names of their kinds, as rows of data name them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

import msgspec

from probes.logs.events import (
    compared_events,
    cuda_events,
    deduced_course_events,
    deduced_hardware_events,
    deduced_network_events,
    fabric_manager_events,
    flight_recorder_events,
    framework_events,
    host_events,
    kernel_log_events,
    measurement_events,
    nccl_failure_events,
    nccl_init_events,
    nccl_network_events,
    nccl_topology_events,
    process_events,
    slurm_events,
    torch_events,
)
from probes.logs.events.log_record import LogRecord, kind_of

_FAMILIES: tuple[ModuleType, ...] = (
    nccl_init_events,
    nccl_network_events,
    nccl_topology_events,
    nccl_failure_events,
    torch_events,
    flight_recorder_events,
    process_events,
    slurm_events,
    framework_events,
    cuda_events,
    measurement_events,
    host_events,
    deduced_course_events,
    deduced_hardware_events,
    deduced_network_events,
    compared_events,
    kernel_log_events,
    fabric_manager_events,
)


def _records(family: ModuleType) -> dict[str, type[LogRecord]]:
    classes = (
        value for value in vars(family).values() if isinstance(value, type) and issubclass(value, LogRecord)
    )
    return {kind: each for each in classes if (kind := kind_of(each))}


RECORDS: Mapping[str, type[LogRecord]] = {
    kind: record for family in _FAMILIES for kind, record in _records(family).items()
}


def kinds_named(name: str) -> tuple[str, ...]:
    """Return the kinds that a row names: `.*` at the end means any with that prefix, `|` means either."""
    kinds: list[str] = []
    for each in name.split("|"):
        kinds += [kind for kind in RECORDS if kind.startswith(each[:-1])] if each.endswith(".*") else [each]
    return tuple(kinds)


def unknown_names(name: str, fields: Mapping[str, object]) -> tuple[str, ...]:
    """Return what a row names that does not exist: kinds, and fields that none of its kinds has."""
    kinds = kinds_named(name)
    unknown = [kind for kind in kinds if kind not in RECORDS]
    known = {
        field.name for kind in kinds if kind in RECORDS for field in msgspec.structs.fields(RECORDS[kind])
    }
    missing = (
        [field for field in fields if field not in known] if all(kind in RECORDS for kind in kinds) else []
    )
    return (*unknown, *(f"{name}: {field}" for field in missing))
