"""GPUs: NVML; where it does not answer `nvidia-smi -q -x`; and where neither is there, what the PCI bus says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from probes.collecting import CollectOptions
from probes.evidence import command_ref
from probes.facts import Gpu, NvLink
from probes.nvidia import (
    SMI_NVLINK,
    SMI_QUERY,
    SMI_TIMEOUT_S,
    SMI_TOPOLOGY,
    bus_id,
    device_count,
    driver_silence,
    smi_nvlinks,
    smi_topology,
)
from probes.outputs import outputs
from probes.pci import cpu_affinity, numa_node, nvidia_gpu_addresses
from probes.record import NOT_RECORDED, Reason, Unknown
from probes.sources.base import Source

if TYPE_CHECKING:
    from probes.parsers.nvlink_status import NvlinkStatus
    from probes.parsers.topo_matrix import TopoGpu


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """`gpus`, empty only where nothing hints at one, and `pci_gpus`."""
    on_bus = nvidia_gpu_addresses(source)
    return {"gpus": _gpus(source, on_bus), "pci_gpus": on_bus, "attached_gpus": NOT_RECORDED}


def _gpus(source: Source, on_bus: tuple[str, ...] | Unknown) -> tuple[Gpu, ...] | Unknown:
    found = _by_nvml(source)
    if isinstance(found, tuple) and found:
        return found
    by_smi = _by_smi(source)
    if isinstance(by_smi, tuple):
        return by_smi
    if by_smi.reason is Reason.NOT_RECORDED and (pasted := _by_loose_outputs(source)):
        return pasted
    # NVML's own reason says more than that nvidia-smi is missing too, unless NVML was just never recorded.
    silence = by_smi if isinstance(found, tuple) or found.reason is Reason.NOT_RECORDED else found
    return driver_silence(on_bus, silence) or ()


def _by_nvml(source: Source) -> tuple[Gpu, ...] | Unknown:
    """All devices of NVML; Unknown where it fails as a whole or for every one of them."""
    count = device_count(source)
    if isinstance(count, Unknown):
        return count
    from probes.nvml_gpu import read_gpu  # noqa: PLC0415 - most machines without GPU never need it

    bus_ids = [bus_id(source, index) for index in range(count)]
    driver = source.nvml("nvmlSystemGetDriverVersion")
    version = driver if isinstance(driver, str | Unknown) else Unknown(Reason.UNPARSABLE, f"driver version {driver!r}")
    gpus = tuple(read_gpu(source, index, bus_ids, version) for index in range(count))
    if gpus and all(isinstance(gpu.name, Unknown) and isinstance(gpu.memory_bytes, Unknown) for gpu in gpus):
        return next(gpu.name for gpu in gpus if isinstance(gpu.name, Unknown))
    return gpus


def _by_smi(source: Source) -> tuple[Gpu, ...] | Unknown:
    found = outputs(source, "nvidia-smi-xml", SMI_QUERY, timeout_s=SMI_TIMEOUT_S)
    if isinstance(found, Unknown):
        return found
    from probes.parsers.nvsmi_xml import parse_smi_xml  # noqa: PLC0415 - the XML parser takes longer to load than all else

    log = parse_smi_xml(found[0].text)
    if isinstance(log, Unknown):
        return log
    evidence = (command_ref(SMI_QUERY, log.problem),)
    links = _nvlinks_by_index(source)
    return tuple(
        msgspec.structs.replace(
            gpu,
            numa_node=numa_node(source, gpu.pci_bus_id),
            cpu_affinity=cpu_affinity(source, gpu.pci_bus_id),
            nvlinks=_ports(links, gpu.index),
            evidence=evidence,
        )
        for gpu in log.gpus
    )


def _nvlinks_by_index(source: Source) -> dict[int, NvlinkStatus] | Unknown:
    status = smi_nvlinks(source)
    return status if isinstance(status, Unknown) else {gpu.index: gpu for gpu in status}


def _ports(links: dict[int, NvlinkStatus] | Unknown, index: int) -> tuple[NvLink, ...] | Unknown:
    if isinstance(links, Unknown):
        return links
    return links[index].nvlinks if index in links else NOT_RECORDED


def _by_loose_outputs(source: Source) -> tuple[Gpu, ...]:
    """What a pasted `nvidia-smi topo -m` or `nvidia-smi nvlink -s` alone tells: that GPUs are there, and little more."""
    matrix = smi_topology(source)
    places = {} if isinstance(matrix, Unknown) else {gpu.index: gpu for gpu in matrix.gpus}
    status = _nvlinks_by_index(source)
    links = {} if isinstance(status, Unknown) else status
    return tuple(_loose_gpu(index, places.get(index), links.get(index)) for index in sorted({*places, *links}))


def _loose_gpu(index: int, place: TopoGpu | None, status: NvlinkStatus | None) -> Gpu:
    gpu = Gpu(index=index)
    if place is not None:
        evidence = (*gpu.evidence, command_ref(SMI_TOPOLOGY))
        gpu = msgspec.structs.replace(gpu, cpu_affinity=place.cpu_affinity, numa_node=place.numa_node, evidence=evidence)
    if status is not None:
        evidence = (*gpu.evidence, command_ref(SMI_NVLINK))
        gpu = msgspec.structs.replace(gpu, name=status.name, uuid=status.uuid, nvlinks=status.nvlinks, evidence=evidence)
    return gpu
