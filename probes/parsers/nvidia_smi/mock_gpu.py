"""A GPU description of go-nvml: the variants of a model, what MIG can make of them, and how many a server
has.

Source of the format: the mock of NVIDIA/go-nvml (pkg/nvml/mock), as JSON. Several variants of one model share
only what is equal among them: a description of four kinds of A100 does not say which of them is in the
machine.
"""

from __future__ import annotations

from typing import Any

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.base.units import MIB
from probes.facts import Gpu, MigDevice
from probes.parsers.tools.documents import load_json, members, table, whole, word

_MOST_GPUS = 64
_SLICES = {f"GPU_INSTANCE_PROFILE_{number}_SLICE": number for number in range(1, 9)}


def recognise(text: str) -> bool:
    head = text[:2000]
    return (
        head.lstrip().startswith("{")
        and '"variants"' in head
        and '"MemoryMB"' in head
        and '"PciDeviceId"' in head
    )


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs of the server; one where the description is of a model alone."""
    document = load_json(text)
    variants = {name: row for name, row in table(document, "variants").items() if isinstance(row, dict)}
    count = whole(table(document, "dgx_server").get("gpus"))
    if count is not None:
        variants = {
            name: row for name, row in variants.items() if "SXM" in name
        } or variants  # a DGX has SXM boards
    if not variants:
        return ()
    gpu = _common([_gpu(row, document) for row in variants.values()])
    number = 1 if count is None or not 0 < count <= _MOST_GPUS else count
    return tuple(msgspec.structs.replace(gpu, index=index) for index in range(number))


def _gpu(row: dict[str, Any], document: dict[str, Any]) -> Gpu:
    name, memory = word(row.get("Name")), whole(row.get("MemoryMB"))
    major, minor = whole(row.get("CudaMajor")), whole(row.get("CudaMinor"))
    return Gpu(
        index=0,
        name=name.removeprefix("Mock ") if name else NOT_RECORDED,
        memory_bytes=memory * MIB if memory is not None and 0 < memory < 1 << 30 else NOT_RECORDED,
        pci_device_id=_device_id(word(row.get("PciDeviceId"))),
        compute_capability=f"{major}.{minor}" if major is not None and minor is not None else NOT_RECORDED,
        mig_profiles=_mig_profiles(word(row.get("MIGProfiles")), document),
    )


def _mig_profiles(name: str | None, document: dict[str, Any]) -> tuple[MigDevice, ...] | Unknown:
    """The GPU instances that the variant can be cut into. The plain ones only; variants with media engines
    repeat them.
    """
    tables = table(document, "mig_gpu_instance_profiles")
    rows = members(tables, (name or "").replace("_MIGProfiles", "_GpuInstanceProfiles"))
    found: list[MigDevice] = []
    for row in rows[:64]:
        slices = _SLICES.get(str(row.get("profile"))) if isinstance(row, dict) else None
        memory = whole(row.get("MemorySizeMB")) if isinstance(row, dict) else None
        if slices is not None and memory is not None and 0 < memory < 1 << 30:
            profile = word(row.get("mig_name")) or f"{slices}g.{round(memory / 1000)}gb"
            found.append(MigDevice(profile=profile, memory_bytes=memory * MIB))
    return tuple(found) or NOT_RECORDED


def _common(gpus: list[Gpu]) -> Gpu:
    """What all variants have in common."""
    first = gpus[0]
    fields: dict[str, object] = {}
    for field in ("name", "memory_bytes", "pci_device_id", "compute_capability", "mig_profiles"):
        values = {getattr(gpu, field) for gpu in gpus}
        if len(values) > 1:
            words = ", ".join(sorted({gpu.name for gpu in gpus if isinstance(gpu.name, str)}))
            fields[field] = Unknown(Reason.NOT_RECORDED, f"the description is of several: {words}"[:300])
    return msgspec.structs.replace(first, **fields)


def _device_id(text: str | None) -> str | Unknown:
    """`10de:2330` for `0x233010DE`."""
    digits = (text or "").lower().removeprefix("0x")
    if len(digits) != 8 or not set(digits) <= set("0123456789abcdef"):
        return NOT_RECORDED
    return f"{digits[4:]}:{digits[:4]}"
