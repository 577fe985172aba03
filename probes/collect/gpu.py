"""Collect GPUs from NVML or else nvidia-smi; for a stored source, also from all its texts."""

import time

import msgspec

from probes.base.record import NOT_RECORDED, Reason, Record, Unknown, first_unknown, items_of, only_known
from probes.collect.collecting import CollectOptions
from probes.facts import Gpu, Unread
from probes.reading.merging import Merged
from probes.reading.nvidia import bus_id, device_count, driver_silence
from probes.reading.pci import cpu_affinity, numa_node, nvidia_gpu_addresses
from probes.reading.texts import GPUS
from probes.sources.base import Source

_BUS_LISTINGS = ("lspci", "hwloc")
"""Kinds of text that show every GPU on the bus, with or without a working driver."""


class _Texts(Record, kw_only=True):
    """GPUs in the texts of the driver, and in texts that describe the bus or the machine."""

    of_driver: tuple[tuple[Gpu, ...], ...] = ()
    of_others: tuple[tuple[Gpu, ...], ...] = ()
    on_bus: tuple[str, ...] = ()
    attached: int | Unknown = NOT_RECORDED
    unread: tuple[Unread, ...] = ()
    silence: Unknown = NOT_RECORDED
    """Reason why no text of the driver reports a GPU."""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `gpus` (empty only if nothing indicates a GPU), `pci_gpus`, and the driver's count and delay."""
    on_bus = nvidia_gpu_addresses(source)
    by_nvml, answer_s = _by_nvml(source)
    own = items_of(by_nvml)
    if own and source.is_live:
        return {"gpus": own, "pci_gpus": on_bus, "attached_gpus": len(own), "driver_answer_s": answer_s}
    # nvidia-smi uses the same library, and would hang if the library hangs.
    is_hung = source.is_live and isinstance(by_nvml, Unknown) and by_nvml.reason is Reason.TIMEOUT
    texts = _Texts() if is_hung else _read(source)
    if isinstance(on_bus, Unknown) and on_bus.reason is Reason.NOT_RECORDED and texts.on_bus:
        on_bus = texts.on_bus
    of_driver = (own, *texts.of_driver) if own else texts.of_driver
    gpus, contradictions = _merged(of_driver, texts)
    silence = _why_silent(by_nvml, texts.silence)
    # NVML answers only if the driver is loaded, so an empty list means that there is no GPU.
    none_counted = by_nvml == () and isinstance(texts.attached, Unknown)
    return {
        "gpus": tuple(_placed(source, gpu) for gpu in gpus) or driver_silence(on_bus, silence) or (),
        "pci_gpus": on_bus,
        "attached_gpus": len(own) or (0 if none_counted else texts.attached),
        "driver_answer_s": NOT_RECORDED,
        "contradictions": contradictions,
        "unread": texts.unread,
    }


def _why_silent(by_nvml: tuple[Gpu, ...] | Unknown, by_texts: Unknown) -> Unknown:
    """Return NVML's reason, or the reason of the texts if NVML gives no reason or does not exist."""
    if isinstance(by_nvml, tuple) or by_nvml.reason is Reason.NOT_RECORDED:
        return by_texts
    is_informative = by_texts.reason not in (Reason.TOOL_MISSING, Reason.NOT_RECORDED)
    return by_texts if by_nvml.reason is Reason.TOOL_MISSING and is_informative else by_nvml


def _by_nvml(source: Source) -> tuple[tuple[Gpu, ...] | Unknown, float | Unknown]:
    """Return all devices of NVML (Unknown if NVML fails as a whole or for every device), and its delay."""
    begun = time.monotonic()
    count = device_count(source)
    if isinstance(count, Unknown):
        return count, NOT_RECORDED
    # Machines without a GPU do not load this module.
    from probes.reading.nvml.nvml_gpu import read_gpu  # noqa: PLC0415

    bus_ids = [bus_id(source, index) for index in range(count)]
    answer_s = round(time.monotonic() - begun, 2) if source.is_live else NOT_RECORDED
    version = source.nvml("nvmlSystemGetDriverVersion")
    if not isinstance(version, str | Unknown):
        version = Unknown(Reason.UNPARSABLE, f"driver version {version!r}")
    gpus: list[Gpu] = []
    for index in range(count):
        if index:
            source.expect(index, like=0)
        gpus.append(read_gpu(source, index, bus_ids, version))
    if gpus and not only_known(value for gpu in gpus for value in (gpu.name, gpu.memory_bytes)):
        return first_unknown(gpus[0].name) or NOT_RECORDED, NOT_RECORDED
    return tuple(gpus), answer_s


def _read(source: Source) -> _Texts:
    """Run every reader. On a live machine, run only live readers, and stop if the first of them fails."""
    of_driver: list[tuple[Gpu, ...]] = []
    of_others: list[tuple[Gpu, ...]] = []
    on_bus: set[str] = set()
    unread: list[Unread] = []
    attached: list[int] = []
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
            attached += [text.attached] if isinstance(text.attached, int) else []
            if reader.kind in _BUS_LISTINGS:
                on_bus |= {gpu.pci_bus_id for gpu in text.records if isinstance(gpu.pci_bus_id, str)}
            silence = text.failure or silence
    return _Texts(
        of_driver=tuple(filter(None, of_driver)),
        of_others=tuple(filter(None, of_others)),
        on_bus=tuple(sorted(on_bus)),
        attached=attached[0] if attached else NOT_RECORDED,
        unread=tuple(unread),
        silence=silence,
    )


def _merged(of_driver: tuple[tuple[Gpu, ...], ...], texts: _Texts) -> Merged[Gpu]:
    """Return the driver's GPUs, or else the GPUs in other texts, unless the driver reports an error."""
    if not of_driver and (not texts.of_others or texts.silence.reason is Reason.ERROR):
        return (), ()
    from probes.reading.merge_gpus import merge_gpus  # noqa: PLC0415 - unless NVML answers

    return merge_gpus(of_driver, texts.of_others) if of_driver else merge_gpus(texts.of_others)


def _placed(source: Source, gpu: Gpu) -> Gpu:
    """Return the GPU with its place according to sysfs, if no text states the place."""
    place: dict[str, object] = {}
    for field, read in (("numa_node", numa_node), ("cpu_affinity", cpu_affinity)):
        stated = getattr(gpu, field)
        if isinstance(stated, Unknown) and isinstance(gpu.pci_bus_id, str):
            in_sysfs = read(source, gpu.pci_bus_id)
            place[field] = stated if isinstance(in_sysfs, Unknown) and stated != NOT_RECORDED else in_sysfs
    return msgspec.structs.replace(gpu, **place)
