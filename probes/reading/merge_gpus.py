"""Merge the reports of several texts about the GPUs of one machine."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from probes.base.grouping import grouped
from probes.base.record import Record, Unknown, only_known
from probes.facts import Gpu, MigDevice
from probes.facts.gpu_facts import UNNUMBERED
from probes.reading.merging import Merged, merge, merge_groups

R = TypeVar("R", bound=Record)

STEADY = frozenset({
    "name", "uuid", "serial", "memory_bytes", "pci_bus_id", "pci_device_id", "driver_version",
    "vbios_version", "gsp_firmware_version", "inforom_version", "compute_capability", "pcie.width_max",
    "numa_node", "virtualization", "confidential_compute", "mig_enabled", "ecc_enabled",
    "power_limit_default_w", "sm_clock_max_mhz",
})  # fmt: skip
"""Fields that stay constant, so that two readings must agree.

The fastest PCIe generation is left out: nvidia-smi reports the slot's generation, lspci the card's
generation.
"""

_SHORT = "..."
"""Ending of a name that a table cut off."""


def _volatile() -> frozenset[str]:
    names: set[str] = set()
    for name in Gpu.__struct_fields__:
        value = getattr(Gpu(index=0), name)
        inner = value.__struct_fields__ if isinstance(value, Record) else ()
        names |= {f"{name}.{leaf}" for leaf in inner} or {name}
    return frozenset(names - STEADY)


def merge_gpus(texts: Sequence[Sequence[Gpu]], others: Sequence[Sequence[Gpu]] = ()) -> Merged[Gpu]:
    """Return one record per GPU of `texts` (in order of trust), in the order of their indices.

    `others` add values to these GPUs, but no further GPUs. A GPU is matched by its address, or else by
    its UUID, or else by its index. A UUID or address that a text uses for several GPUs (a redacted value) is
    ignored.
    """
    slots: list[list[Gpu]] = []
    for text, is_own in (*((text, True) for text in texts), *((text, False) for text in others)):
        new: list[list[Gpu]] = []
        addresses, uuids = _unique(text, "pci_bus_id"), _unique(text, "uuid")
        is_related = any(_known_by(slot, "pci_bus_id", addresses) for slot in slots)
        for gpu in text:
            slot = _slot_of(gpu, slots, addresses, uuids, is_related=is_related)
            if slot is not None:
                slot.append(gpu)
            elif is_own:
                new.append([gpu])
        slots += new
    return _joined(_numbered(slots))


def _unique(text: Sequence[Gpu], field: str) -> frozenset[str]:
    counts = Counter(value for gpu in text if isinstance(value := getattr(gpu, field), str))
    return frozenset(value for value, count in counts.items() if count == 1)


def _known_by(slot: list[Gpu], field: str, values: Iterable[str]) -> bool:
    return any(getattr(gpu, field) in values for gpu in slot)


def _slot_of(
    gpu: Gpu, slots: list[list[Gpu]], addresses: frozenset[str], uuids: frozenset[str], *, is_related: bool
) -> list[Gpu] | None:
    for field, values in (("pci_bus_id", addresses), ("uuid", uuids)):
        value = getattr(gpu, field)
        if value in values:
            matches = [slot for slot in slots if _known_by(slot, field, (value,))]
            if len(matches) == 1:
                return matches[0]
    if gpu.index == UNNUMBERED:
        return None
    for slot in slots:
        if any(other.index == gpu.index for other in slot):
            elsewhere = isinstance(gpu.pci_bus_id, str) and any(
                isinstance(other.pci_bus_id, str) for other in slot
            )
            # If a text has none of the known addresses, it is from another or a virtual machine: its GPUs are
            # compared, not added.
            return None if elsewhere and is_related else slot
    return None


def _numbered(slots: list[list[Gpu]]) -> list[list[Gpu]]:
    """Return slots by index; slots without a free index are numbered by their addresses."""
    by_index: dict[int, list[Gpu]] = {}
    waiting: list[list[Gpu]] = []
    for slot in slots:
        index = next((gpu.index for gpu in slot if gpu.index != UNNUMBERED), UNNUMBERED)
        if index == UNNUMBERED or index in by_index:
            waiting.append(slot)
        else:
            by_index[index] = slot
    free = 0
    for slot in sorted(waiting, key=lambda slot: str(slot[0].pci_bus_id)):
        while free in by_index:
            free += 1
        by_index[free] = slot
    return [
        [msgspec.structs.replace(gpu, index=index) for gpu in by_index[index]] for index in sorted(by_index)
    ]


def _joined(slots: list[list[Gpu]]) -> Merged[Gpu]:
    groups = ((f"GPU{slot[0].index}", _without_short_names(slot)) for slot in slots)
    merged, contradictions = merge_groups(groups, volatile=_volatile())
    gpus = (
        slot[0] if len(slot) == 1 else _with_parts(gpu, slot) for gpu, slot in zip(merged, slots, strict=True)
    )
    return tuple(gpus), contradictions


def _with_parts(gpu: Gpu, slot: list[Gpu]) -> Gpu:
    """Return a merged GPU with the NVLinks, processes, MIG devices and failed queries of all texts."""
    failed = only_known(record.failed_queries for record in slot)
    return msgspec.structs.replace(
        gpu,
        nvlinks=_by_key([record.nvlinks for record in slot], "index"),
        processes=_by_key([record.processes for record in slot], "pid"),
        mig_devices=_mig_devices([record.mig_devices for record in slot]),
        failed_queries=tuple(dict.fromkeys(name for names in failed for name in names))
        if failed
        else slot[0].failed_queries,
    )


def _without_short_names(slot: list[Gpu]) -> list[Gpu]:
    """Return GPUs without cut-off names: `NVIDIA A100-SXM...` does not contradict the full name."""
    full = [gpu.name for gpu in slot if isinstance(gpu.name, str) and not gpu.name.endswith(_SHORT)]

    def is_short(gpu: Gpu) -> bool:
        return isinstance(gpu.name, str) and any(
            gpu.name.endswith(_SHORT) and name.startswith(gpu.name.removesuffix(_SHORT).rstrip())
            for name in full
        )

    return [msgspec.structs.replace(gpu, name=Gpu(index=0).name) if is_short(gpu) else gpu for gpu in slot]


def _by_key(values: Sequence[tuple[R, ...] | Unknown], key: str) -> tuple[R, ...] | Unknown:
    """Return the parts of all texts; parts with the same value of the field `key` become one record."""
    known = only_known(values)
    if not known:
        return values[0]
    parts = grouped((getattr(part, key), part) for value in known for part in value)
    return tuple(map(_first_known, parts.values()))


def _mig_devices(values: Sequence[tuple[MigDevice, ...] | Unknown]) -> tuple[MigDevice, ...] | Unknown:
    """Return the MIG devices, merged by position.

    Each text contains either their profiles or their memory, and all texts list them in the same order.
    A text that lists fewer devices than another text is left out.
    """
    known = only_known(values)
    if not known:
        return values[0]
    most = max(map(len, known))
    return tuple(map(_first_known, zip(*(value for value in known if len(value) == most), strict=True)))


def _first_known(records: Sequence[R]) -> R:
    """Return the first known value of each field; differences are not contradictions."""
    return merge("", records, volatile=frozenset(records[0].__struct_fields__))[0]
