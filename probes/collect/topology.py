"""Collect how GPUs and NICs are connected: from NVML and sysfs, and from texts if these are incomplete."""

from __future__ import annotations

from itertools import combinations

from probes.base.evidence import file_ref, nvml_ref
from probes.base.record import EvidenceRef, Record, Unknown, value_or
from probes.collect.collecting import CollectOptions
from probes.facts import Contradiction, Link, LinkKind, NvLink, PeerAccess, Unread
from probes.parsers.topology.pci_addresses import pci_distance
from probes.reading.merging.merge_links import merge_links
from probes.reading.nvidia import bus_id, device_count, driver_silence, nvlinks
from probes.reading.pci import DEVICES, device_path, nvidia_gpu_addresses
from probes.reading.pci import numa_node as numa_node_of
from probes.reading.rdma import rdma_devices
from probes.sources.base import Source

_ANCESTORS: dict[int, LinkKind] = {10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""Link kind by nvmlGpuTopologyLevel_t.

0 (two GPUs of one board) is a single bridge, which nvidia-smi prints as PIX.
"""


_CAPABILITIES = {0: "read"}
"""Capability by nvmlGpuP2PCapsIndex_t.

NCCL requires reading; the driver grants writing along with it.
"""
_STATUS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
"""Status by nvmlGpuP2PStatus_t, in the words of `nvidia-smi topo -p2p`."""


class _Place(Record, kw_only=True):
    """A GPU or NIC and its place on the bus."""

    name: str
    origin: str
    """File that states the place."""
    address: str | Unknown
    path: str | Unknown
    numa_node: int | Unknown | None
    nvlinks: tuple[NvLink, ...] | Unknown = ()
    gpu_index: int | None = None


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `links` of every pair of GPUs and NICs, and `peer_access` between GPUs."""
    links, contradictions, unread = _links(source)
    access, half_read = _peer_access(source)
    return {
        "links": links,
        "peer_access": access,
        "contradictions": contradictions,
        "unread": (*unread, *half_read),
    }


_Answer = tuple[tuple[Link, ...] | Unknown, tuple[Contradiction, ...], tuple[Unread, ...]]


def _links(source: Source) -> _Answer:
    gpus = _gpus(source)
    nics = _nics(source)
    if isinstance(gpus, Unknown):
        return _by_texts(source, gpus, nics)
    places = [*gpus, *value_or(nics, [])]
    links = tuple(_link(source, a, b) for a, b in combinations(places, 2))
    is_complete = all(not isinstance(link.kind, Unknown) for link in links)
    if source.is_live and is_complete:
        return links, (), ()
    text_links, unread = _read_texts(source)
    merged, contradictions = merge_links((links, *text_links))
    return merged, contradictions, unread


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
        return Link(
            a=a.name,
            b=b.name,
            kind="NVLINK",
            nvlink_count=count,
            sees_nvlink=True,
            evidence=_nvlink_evidence(a, b),
        )
    sees = not isinstance(a.nvlinks, Unknown) and not isinstance(b.nvlinks, Unknown)
    if a.gpu_index is not None and b.gpu_index is not None:
        level = source.nvml("nvmlDeviceGetTopologyCommonAncestor", a.gpu_index, b.gpu_index)
        if isinstance(level, int) and (level == 0 or level in _ANCESTORS):
            evidence = (nvml_ref(f"nvmlDeviceGetTopologyCommonAncestor({a.gpu_index}, {b.gpu_index})"),)
            return Link(
                a=a.name, b=b.name, kind=_ANCESTORS.get(level, "PIX"), sees_nvlink=sees, evidence=evidence
            )
    return Link(a=a.name, b=b.name, kind=_distance(a, b), evidence=(file_ref(a.origin), file_ref(b.origin)))


def _nvlink_count(a: _Place, b: _Place) -> int:
    """Return the NVLinks between two GPUs.

    Direct links, or the smaller number of links to shared switches.
    """
    if isinstance(a.nvlinks, Unknown) or isinstance(b.nvlinks, Unknown):
        return 0
    if isinstance(a.address, Unknown) or isinstance(b.address, Unknown):
        direct = 0
    else:
        direct = sum(link.active is True and link.remote == b.address for link in a.nvlinks)
    to_switch = [
        sum(link.active is True and link.remote == "switch" for link in links)
        for links in (a.nvlinks, b.nvlinks)
    ]
    return direct or min(to_switch)


def _distance(a: _Place, b: _Place) -> LinkKind | Unknown:
    for path in (a.path, b.path):
        if isinstance(path, Unknown):
            return path
    return pci_distance(str(a.path), str(b.path), a.numa_node, b.numa_node)


def _nvlink_evidence(a: _Place, b: _Place) -> tuple[EvidenceRef, ...]:
    return tuple(nvml_ref(f"nvmlDeviceGetNvLink*({place.gpu_index})") for place in (a, b))


def _read_texts(source: Source) -> tuple[list[tuple[Link, ...]], tuple[Unread, ...]]:
    """Return what each text reports, and what of them could not be read. A live machine has nvidia-smi's
    matrix alone.
    """
    from probes.reading.readers.reader_rows import LINKS  # noqa: PLC0415 - likewise
    from probes.reading.readers.text_reader import read_all, unread_of  # noqa: PLC0415 - pastes only

    texts = read_all(source, (reader for reader in LINKS if reader.is_live or not source.is_live))
    return [text.records for text in texts], unread_of(texts)


def _by_texts(source: Source, nvml: Unknown, nics: list[_Place] | Unknown) -> _Answer:
    """Return the links of the texts if NVML does not answer; without GPUs the links among NICs."""
    text_links, unread = _read_texts(source)
    between_nics = (
        () if isinstance(nics, Unknown) else tuple(_link(source, a, b) for a, b in combinations(nics, 2))
    )
    if any(text_links) or (text_links and not unread):
        merged, contradictions = merge_links((*text_links, between_nics))
        return merged, contradictions, unread
    unknown = driver_silence(nvidia_gpu_addresses(source), nvml)
    if unknown is not None:
        return unknown, (), unread
    return (nics if isinstance(nics, Unknown) else between_nics), (), unread


def _peer_access(source: Source) -> tuple[tuple[PeerAccess, ...] | Unknown, tuple[Unread, ...]]:
    """NVML's word on each pair, and every pasted table."""
    from probes.reading.readers.reader_rows import PEER_ACCESS  # noqa: PLC0415 - likewise
    from probes.reading.readers.text_reader import read_all, records_of, unread_of  # noqa: PLC0415 - likewise

    texts = () if source.is_live else read_all(source, PEER_ACCESS)
    by_nvml = _nvml_peer_access(source)
    if isinstance(by_nvml, Unknown):
        return (records_of(texts) if texts else by_nvml), unread_of(texts)
    return (*by_nvml, *records_of(texts)), unread_of(texts)


def _nvml_peer_access(source: Source) -> tuple[PeerAccess, ...] | Unknown:
    """Return each pair once: the driver answers the same for both directions."""
    count = device_count(source)
    if isinstance(count, Unknown):
        return count
    access: list[PeerAccess] = []
    for a, b in combinations(range(count), 2):
        for number, capability in _CAPABILITIES.items():
            status = source.nvml("nvmlDeviceGetP2PStatus", a, b, number)
            if isinstance(status, Unknown):
                return status
            word = _STATUS.get(status, "U") if isinstance(status, int) else "U"
            evidence = (nvml_ref(f"nvmlDeviceGetP2PStatus({a}, {b}, {number})"),)
            access.append(
                PeerAccess(a=f"GPU{a}", b=f"GPU{b}", capability=capability, status=word, evidence=evidence)
            )
    return tuple(access)
