"""Counters of a machine at one moment. A later run judges only the increase since then."""

from collections.abc import Callable
from typing import Any

import msgspec

from probes.base.record import Record, Unknown
from probes.facts import Gpu, MachineFacts, Nic

_LINK_COUNTERS = ("replay_errors", "recovery_errors", "crc_errors")
_ROW_COUNTERS = ("remapped_rows_corrected", "remapped_rows_uncorrected")
_SAME_BOOT_S = 300.0
"""Maximum difference in seconds between two computed times of one boot: clocks may be set in between."""

Change = Callable[[str, int], int]
"""Function of a counter's name and value that returns the value to use."""


class Snapshot(Record, kw_only=True):
    """The counters of NVLinks, remapped rows and RDMA ports that a run has read."""

    taken_s: float
    """Seconds since 1970."""
    booted_s: float
    """Time of the boot, computed from the uptime, in seconds since 1970."""
    counts: dict[str, int]
    """Value of each counter by its name, which contains the device."""


def snapshot(facts: MachineFacts, now_s: float) -> Snapshot | None:
    """Return the counters of a machine; None if the time since its boot is unknown."""
    uptime_s = facts.kernel.uptime_s
    if isinstance(uptime_s, Unknown):
        return None
    counts: dict[str, int] = {}
    _changed(facts, counts.setdefault)
    return Snapshot(taken_s=now_s, booted_s=now_s - uptime_s, counts=counts)


def is_before(earlier: Snapshot, later: Snapshot) -> bool:
    """Return whether `earlier` was taken before `later` in the same boot."""
    return earlier.taken_s <= later.taken_s and abs(earlier.booted_s - later.booted_s) <= _SAME_BOOT_S


def since(facts: MachineFacts, earlier: Snapshot) -> MachineFacts:
    """Return the facts, with each counter of a snapshot reduced to its increase since `earlier`.

    The whole value counts if `earlier` lacks the counter, or if the counter is lower than before and so was
    reset.
    """

    def added(name: str, value: int) -> int:
        before = earlier.counts.get(name, 0)
        return value - before if value >= before else value

    return _changed(facts, added)


def _changed(facts: MachineFacts, change: Change) -> MachineFacts:
    gpus, nics = facts.gpus, facts.nics
    return msgspec.structs.replace(
        facts,
        gpus=gpus if isinstance(gpus, Unknown) else tuple(_changed_gpu(gpu, change) for gpu in gpus),
        nics=nics if isinstance(nics, Unknown) else tuple(_changed_nic(nic, change) for nic in nics),
    )


def _changed_gpu(gpu: Gpu, change: Change) -> Gpu:
    name = next((str(value) for value in (gpu.uuid, gpu.pci_bus_id) if isinstance(value, str)), gpu.index)
    links = gpu.nvlinks
    if not isinstance(links, Unknown):
        links = tuple(_fields(link, _LINK_COUNTERS, f"{name} link {link.index}", change) for link in links)
    rows = _fields(gpu.memory_health, _ROW_COUNTERS, str(name), change)
    return msgspec.structs.replace(gpu, nvlinks=links, memory_health=rows)


def _changed_nic(nic: Nic, change: Change) -> Nic:
    if isinstance(nic.counters, Unknown):
        return nic
    counters = tuple(
        msgspec.structs.replace(each, value=change(f"{nic.name} {nic.port} {each.name}", each.value))
        for each in nic.counters
    )
    return msgspec.structs.replace(nic, counters=counters)


def _fields(record: Any, fields: tuple[str, ...], name: str, change: Change) -> Any:
    """Return the record with its known counters changed."""
    values = {field: getattr(record, field) for field in fields}
    known_values = {field: value for field, value in values.items() if isinstance(value, int)}
    return msgspec.structs.replace(
        record, **{field: change(f"{name} {field}", value) for field, value in known_values.items()}
    )
