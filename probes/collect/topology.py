"""How GPUs and NICs reach each other: NVML and sysfs, and `nvidia-smi topo -m` for what they leave open."""

from __future__ import annotations

from itertools import combinations

import msgspec

from probes.collecting import CollectOptions
from probes.evidence import command_ref, file_ref, nvml_ref
from probes.facts import Link, LinkKind, MachineFacts, NvLink
from probes.nvidia import SMI_TOPOLOGY, bus_id, device_count, driver_silence, nvlinks, smi_topology
from probes.parsers.pci import pci_distance
from probes.pci import DEVICES, device_path, nvidia_gpu_addresses
from probes.pci import numa_node as numa_node_of
from probes.rdma import rdma_devices
from probes.record import EvidenceRef, Reason, Record, Unknown
from probes.sources.base import Source

_ANCESTORS: dict[int, LinkKind] = {10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t. 0 (two GPUs of one board) is a single bridge, which nvidia-smi prints as PIX."""


class _Place(Record, kw_only=True):
    """A GPU or NIC and where it sits."""

    name: str
    origin: str
    """The file that says where it sits."""
    address: str | Unknown
    path: str | Unknown
    numa_node: int | Unknown | None
    nvlinks: tuple[NvLink, ...] | Unknown = ()
    gpu_index: int | None = None


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """`links`: every pair of GPUs and NICs."""
    return {"links": _links(source), "peer_access": MachineFacts().peer_access}


def _links(source: Source) -> tuple[Link, ...] | Unknown:
    gpus = _gpus(source)
    nics = _nics(source)
    if isinstance(gpus, Unknown):
        return _by_matrix(source, gpus, nics)
    places = [*gpus, *([] if isinstance(nics, Unknown) else nics)]
    links = tuple(_link(source, a, b) for a, b in combinations(places, 2))
    return links if all(not isinstance(link.kind, Unknown) for link in links) else _completed(source, links)


def _gpus(source: Source) -> list[_Place] | Unknown:
    count = device_count(source)
    if isinstance(count, Unknown):
        return count
    addresses = [bus_id(source, index) for index in range(count)]
    return [
        _Place(
            name=f"GPU{index}",
            origin=f"{DEVICES}/{address}",
            address=address,
            path=device_path(source, address),
            numa_node=numa_node_of(source, address),
            nvlinks=nvlinks(source, index, addresses),
            gpu_index=index,
        )
        for index, address in enumerate(addresses)
    ]


def _nics(source: Source) -> list[_Place] | Unknown:
    devices = rdma_devices(source)
    if isinstance(devices, Unknown):
        return devices
    return [
        _Place(
            name=device.name,
            origin=device.folder,
            address=device.pci_bus_id,
            path=device.path,
            numa_node=numa_node_of(source, device.pci_bus_id),
        )
        for device in devices
    ]


def _link(source: Source, a: _Place, b: _Place) -> Link:
    count = _nvlink_count(a, b)
    if count:
        return Link(a=a.name, b=b.name, kind="NVLINK", nvlink_count=count, evidence=_nvlink_evidence(a, b))
    if a.gpu_index is not None and b.gpu_index is not None:
        level = source.nvml("nvmlDeviceGetTopologyCommonAncestor", a.gpu_index, b.gpu_index)
        if isinstance(level, int) and (level == 0 or level in _ANCESTORS):
            evidence = (nvml_ref(f"nvmlDeviceGetTopologyCommonAncestor({a.gpu_index}, {b.gpu_index})"),)
            return Link(a=a.name, b=b.name, kind=_ANCESTORS.get(level, "PIX"), evidence=evidence)
    return Link(a=a.name, b=b.name, kind=_distance(a, b), evidence=(file_ref(a.origin), file_ref(b.origin)))


def _nvlink_count(a: _Place, b: _Place) -> int:
    """NVLinks between two GPUs: direct ones, or all that the lesser of the two has to the switches they share."""
    if isinstance(a.nvlinks, Unknown) or isinstance(b.nvlinks, Unknown):
        return 0
    if isinstance(a.address, Unknown) or isinstance(b.address, Unknown):
        direct = 0
    else:
        direct = sum(link.active is True and link.remote == b.address for link in a.nvlinks)
    to_switch = [sum(link.active is True and link.remote == "switch" for link in links) for links in (a.nvlinks, b.nvlinks)]
    return direct or min(to_switch)


def _distance(a: _Place, b: _Place) -> LinkKind | Unknown:
    for path in (a.path, b.path):
        if isinstance(path, Unknown):
            return path
    return pci_distance(str(a.path), str(b.path), a.numa_node, b.numa_node)


def _nvlink_evidence(a: _Place, b: _Place) -> tuple[EvidenceRef, ...]:
    return tuple(nvml_ref(f"nvmlDeviceGetNvLink*({place.gpu_index})") for place in (a, b))


def _completed(source: Source, links: tuple[Link, ...]) -> tuple[Link, ...]:
    """`links` with what the matrix knows of those whose kind is open."""
    matrix = _matrix_links(source)
    if isinstance(matrix, Unknown):
        return links
    by_pair = {frozenset((link.a, link.b)): link for link in matrix}
    return tuple(by_pair.get(frozenset((link.a, link.b)), link) if isinstance(link.kind, Unknown) else link for link in links)


def _matrix_links(source: Source) -> tuple[Link, ...] | Unknown:
    matrix = smi_topology(source)
    if isinstance(matrix, Unknown):
        return matrix
    evidence = (command_ref(SMI_TOPOLOGY),)
    return tuple(msgspec.structs.replace(link, evidence=evidence) for link in matrix.named_links())


def _by_matrix(source: Source, nvml: Unknown, nics: list[_Place] | Unknown) -> tuple[Link, ...] | Unknown:
    """Without NVML: the matrix; without GPUs: the NICs among themselves."""
    matrix = _matrix_links(source)
    if not isinstance(matrix, Unknown):
        return matrix
    reason = nvml if nvml.reason is not Reason.NOT_RECORDED else matrix
    silence = driver_silence(nvidia_gpu_addresses(source), reason)
    if silence is not None:
        return silence
    if isinstance(nics, Unknown):
        return nics
    return tuple(_link(source, a, b) for a, b in combinations(nics, 2))
