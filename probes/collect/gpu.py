"""Collect GPUs: from NVML, else from nvidia-smi; from a stored source also from all its texts."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Record, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import Contradiction, Gpu, Unread
from probes.reading.nvidia import bus_id, device_count, driver_silence
from probes.reading.pci import cpu_affinity, numa_node, nvidia_gpu_addresses
from probes.sources.base import Source

_BUS_LISTINGS = ("lspci", "hwloc")
"""Kinds of text that show every GPU on the bus, with or without a working driver."""


class _Texts(Record, kw_only=True):
    """GPUs in texts: those of the driver, and those that describe the bus or the machine."""

    of_driver: tuple[tuple[Gpu, ...], ...] = ()
    of_others: tuple[tuple[Gpu, ...], ...] = ()
    on_bus: tuple[str, ...] = ()
    attached: int | Unknown = NOT_RECORDED
    unread: tuple[Unread, ...] = ()
    silence: Unknown = NOT_RECORDED
    """Reason why no text of the driver reports a GPU."""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `gpus` (empty only without any hint of a GPU), `pci_gpus`, and the driver's count."""
    on_bus = nvidia_gpu_addresses(source)
    by_nvml = _by_nvml(source)
    if isinstance(by_nvml, tuple) and by_nvml and source.is_live:
        return _answer(by_nvml, on_bus, len(by_nvml), (), ())
    texts = _read(source)
    if isinstance(on_bus, Unknown) and on_bus.reason is Reason.NOT_RECORDED and texts.on_bus:
        on_bus = texts.on_bus
    own = (by_nvml,) if isinstance(by_nvml, tuple) and by_nvml else ()
    gpus, contradictions = _merged(source, (*own, *texts.of_driver), texts)
    attached = len(by_nvml) if isinstance(by_nvml, tuple) and by_nvml else texts.attached
    answered_gpus: tuple[Gpu, ...] | Unknown = gpus
    if not gpus:
        answered_gpus = driver_silence(on_bus, _why_silent(by_nvml, texts.silence)) or ()
    return _answer(answered_gpus, on_bus, attached, contradictions, texts.unread)


def _why_silent(by_nvml: tuple[Gpu, ...] | Unknown, by_texts: Unknown) -> Unknown:
    """Return NVML's reason rather than a missing nvidia-smi, unless NVML was not recorded or is missing."""
    if isinstance(by_nvml, tuple) or by_nvml.reason is Reason.NOT_RECORDED:
        return by_texts
    is_informative = by_texts.reason not in (Reason.TOOL_MISSING, Reason.NOT_RECORDED)
    return by_texts if by_nvml.reason is Reason.TOOL_MISSING and is_informative else by_nvml


def _answer(
    gpus: tuple[Gpu, ...] | Unknown,
    on_bus: tuple[str, ...] | Unknown,
    attached: int | Unknown,
    contradictions: tuple[Contradiction, ...],
    unread: tuple[Unread, ...],
) -> dict[str, object]:
    return {
        "gpus": gpus,
        "pci_gpus": on_bus,
        "attached_gpus": attached,
        "contradictions": contradictions,
        "unread": unread,
    }


def _by_nvml(source: Source) -> tuple[Gpu, ...] | Unknown:
    """Return all devices of NVML; Unknown if it fails as a whole or for every device."""
    count = device_count(source)
    if isinstance(count, Unknown):
        return count
    # Machines without a GPU do not load this module.
    from probes.reading.nvml.nvml_gpu import read_gpu  # noqa: PLC0415

    bus_ids = [bus_id(source, index) for index in range(count)]
    driver = source.nvml("nvmlSystemGetDriverVersion")
    version = (
        driver
        if isinstance(driver, str | Unknown)
        else Unknown(Reason.UNPARSABLE, f"driver version {driver!r}")
    )
    gpus: list[Gpu] = []
    for index in range(count):
        if index:
            source.expect(index, like=0)
        gpus.append(read_gpu(source, index, bus_ids, version))
    if gpus and all(isinstance(gpu.name, Unknown) and isinstance(gpu.memory_bytes, Unknown) for gpu in gpus):
        return next(gpu.name for gpu in gpus if isinstance(gpu.name, Unknown))
    return tuple(gpus)


def _read(source: Source) -> _Texts:
    """Ask every reader; on a live machine only those that are worth it, and none after the first has
    failed.
    """
    from probes.reading.readers.reader_rows import GPUS  # noqa: PLC0415 - unless NVML answers

    of_driver: list[tuple[Gpu, ...]] = []
    of_others: list[tuple[Gpu, ...]] = []
    on_bus: list[str] = []
    unread: list[Unread] = []
    attached: int | Unknown = NOT_RECORDED
    silence: Unknown = NOT_RECORDED
    for reader in GPUS:
        if source.is_live and not reader.is_live:
            continue
        texts = reader.read(source)
        if isinstance(texts, Unknown):
            silence = texts if silence == NOT_RECORDED else silence
            if source.is_live and not of_driver:
                break
            continue
        for text in texts:
            (of_driver if reader.is_driver else of_others).append(text.records)
            unread += text.unread
            if isinstance(attached, Unknown) and isinstance(text.attached, int):
                attached = text.attached
            if reader.kind in _BUS_LISTINGS:
                on_bus += [gpu.pci_bus_id for gpu in text.records if isinstance(gpu.pci_bus_id, str)]
            if text.failure is not None:
                silence = text.failure
    return _Texts(
        of_driver=tuple(gpus for gpus in of_driver if gpus),
        of_others=tuple(gpus for gpus in of_others if gpus),
        on_bus=tuple(sorted(set(on_bus))),
        attached=attached,
        unread=tuple(unread),
        silence=silence,
    )


def _merged(
    source: Source, of_driver: tuple[tuple[Gpu, ...], ...], texts: _Texts
) -> tuple[tuple[Gpu, ...], tuple[Contradiction, ...]]:
    """Return the GPUs that the driver reports.

    If it reports none without an error, those of the other texts.
    """
    if not of_driver and (not texts.of_others or texts.silence.reason is Reason.ERROR):
        return (), ()
    from probes.reading.merging.merge_gpus import merge_gpus  # noqa: PLC0415 - likewise

    gpus, contradictions = (
        merge_gpus(of_driver, texts.of_others) if of_driver else merge_gpus(texts.of_others)
    )
    return tuple(_placed(source, gpus)), contradictions


def _placed(source: Source, gpus: Iterable[Gpu]) -> Iterable[Gpu]:
    """Yield the GPUs with their places according to sysfs."""
    for gpu in gpus:
        node, cpus = gpu.numa_node, gpu.cpu_affinity
        if isinstance(node, Unknown) and isinstance(gpu.pci_bus_id, str):
            node_in_sysfs = numa_node(source, gpu.pci_bus_id)
            node = node_in_sysfs if not isinstance(node_in_sysfs, Unknown) or node == NOT_RECORDED else node
        if isinstance(cpus, Unknown) and isinstance(gpu.pci_bus_id, str):
            cpus_in_sysfs = cpu_affinity(source, gpu.pci_bus_id)
            cpus = cpus_in_sysfs if not isinstance(cpus_in_sysfs, Unknown) or cpus == NOT_RECORDED else cpus
        yield msgspec.structs.replace(gpu, numa_node=node, cpu_affinity=cpus)
