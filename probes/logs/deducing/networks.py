"""Deductions about the network between nodes: which network carries data, and whether it should."""

import re
from collections.abc import Iterator

from probes.base.grouping import grouped
from probes.base.units import plural
from probes.logs.cause_rows import load_causes
from probes.logs.deducing.common import completed, deduced, named, nodes_of, value_of
from probes.logs.deducing.meeting_interfaces import interface_of
from probes.logs.event import Event, carries
from probes.logs.events.deduced_hardware_events import DeducedPcieError
from probes.logs.events.deduced_network_events import (
    DeducedGdrMissing,
    DeducedGdrTooFar,
    DeducedGidSuspected,
    DeducedHcaPrefix,
    DeducedHcasDiffer,
    DeducedMixedHcas,
    DeducedMixedNetwork,
    DeducedNoRdmaDespite,
    DeducedNoRdmaPerhaps,
    DeducedPortFlaps,
    DeducedSockets,
    DeducedSocketsAlone,
    DeducedSocketsBetweenNodes,
    DeducedSocketsDespiteRdma,
)
from probes.logs.events.kernel_log_events import KernelAer, KernelLink
from probes.logs.events.measurement_events import NcclTestsRank, NcclTestsResult
from probes.logs.events.nccl_events import (
    NcclBootstrap,
    NcclChannel,
    NcclCommShape,
    NcclConnected,
    NcclDriver,
    NcclVersion,
)
from probes.logs.events.nccl_failure_events import NcclIbCompletionError, NcclSocketWrongType
from probes.logs.events.nccl_network_events import (
    NcclGdr,
    NcclHcas,
    NcclNetwork,
    NcclNoIb,
    NcclPluginLoaded,
    NcclPluginMissing,
    NcclQueuePair,
    NcclSocketInterfaces,
    OfiPlatform,
    OfiProvider,
    OfiVersion,
)
from probes.logs.logged_events import LoggedEvents

_IB_INTERFACE = re.compile(r"^(ib\w*\d|ibp|ibs)")
_RDMA_PLUGINS = re.compile(r"IBext|SHARP|OFI|Libfabric|gIB|FasTrak|rdma", re.IGNORECASE)
_IMAGE_PLUGINS = re.compile(r"IBext|SHARP", re.IGNORECASE)
"""Plugins of HPC-X. Container images contain these plugins even for machines without RDMA."""
_ANOTHER_LINE = re.compile(r"(?<=[A-Za-z])(?<!_v)\s?\d.*")
"""Remainder of another line after the name of a network; names have no digits except in a version."""
_SOCKET = "Socket"
_WITHOUT_GDR = re.compile(r"via NET/[^/]+/\d+(?:\(\d+\))?(?:/Shared)?(?: comm .{1,60})?\s*$")
_FLAPS = 3
"""Number of times that a link must go down to be reported; at a host's start, links go down twice."""
_SOCKET_RECORDS = (
    NcclNetwork,
    NcclSocketInterfaces,
    NcclBootstrap,
    NcclVersion,
    NcclDriver,
    NcclPluginMissing,
)
"""Records that may occur in an excerpt of a log which shows only that NCCL chose sockets."""
_RANK_ON_GPU = re.compile(r"\b(\d{1,7})\[(\d{1,2})\]")


def sockets(logged: LoggedEvents) -> Iterator[Event]:
    """Yield the use of sockets: despite signs of RDMA, between nodes, or in a log that shows nothing else."""
    names = {event.what.name for event in logged.of(NcclNetwork)}
    first = _sockets_event(logged)
    if first is None or names - {_SOCKET} or (not names and _uses_rdma(logged)):
        return
    listed = first.what.names if carries(first, NcclSocketInterfaces) else ""
    interface = listed.split(",")[0] or None
    signs = _signs_of_rdma(logged, hcas_only=False)
    if (
        signs
        and not _only_image_suggests(logged, signs)
        and not _wants_sockets(logged)
        and not _within_a_node(logged)
    ):
        yield deduced(first, DeducedSocketsDespiteRdma(why=signs, interface=interface))
    elif _between_nodes(logged):
        is_sure = logged.has(NcclNoIb, *load_causes().failures) or _wants_sockets(logged) or completed(logged)
        record = DeducedSockets if is_sure else DeducedSocketsBetweenNodes
        yield deduced(first, record(interface=interface))
    elif all(carries(event, *_SOCKET_RECORDS) for event in logged.events):
        yield deduced(first, DeducedSocketsAlone(interface=interface))


def _uses_rdma(logged: LoggedEvents) -> bool:
    """Return whether HCAs are in use.

    NCCL up to 2.4 lists the sockets of the bootstrap but does not name the network that carries data.
    """
    return logged.has(NcclHcas, NcclQueuePair) or any(
        event.what.network not in (None, _SOCKET) for event in logged.of(NcclChannel)
    )


def _wants_sockets(logged: LoggedEvents) -> bool:
    return value_of(logged, "NCCL_IB_DISABLE") == "1" or value_of(logged, "NCCL_NET") == _SOCKET


def _within_a_node(logged: LoggedEvents) -> bool:
    """Return whether all communicators are within a node, so that no network carries data."""
    node_counts = [event.what.nodes for event in logged.of(NcclCommShape)]
    return bool(node_counts) and all(nodes == 1 for nodes in node_counts)


def no_rdma_despite(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a missing verbs device if other lines suggest that such a device should exist."""
    missing = logged.of(NcclNoIb)
    names = {event.what.name for event in logged.of(NcclNetwork)}
    if (
        not missing
        or names - {_SOCKET}
        or _wants_sockets(logged)
        or _within_a_node(logged)
        or logged.has(NcclHcas)
    ):
        return
    why = _signs_of_rdma(logged, hcas_only=True)
    if why:
        record = DeducedNoRdmaPerhaps if _only_image_suggests(logged, why) else DeducedNoRdmaDespite
        yield deduced(missing[0], record(why=why, reason=missing[0].what.reason))


def _signs_of_rdma(logged: LoggedEvents, *, hcas_only: bool) -> str:
    """Return a phrase with the reason to expect RDMA; empty if there is no reason."""
    if value_of(logged, "NCCL_IB_HCA"):
        return "NCCL_IB_HCA names HCAs"
    for event in logged.of(NcclBootstrap, NcclSocketInterfaces):
        interface, _ = interface_of(event)
        if _IB_INTERFACE.match(interface):
            return f"{interface.split(',', maxsplit=1)[0]} is an InfiniBand interface"
    plugin = _plugin_of(logged, _RDMA_PLUGINS)
    if plugin:
        return plugin
    if logged.has(OfiVersion, OfiPlatform, OfiProvider) and not hcas_only:
        return "the plugin for libfabric is loaded"
    if not hcas_only and logged.has(NcclHcas):
        return "HCAs were found"
    return ""


def _only_image_suggests(logged: LoggedEvents, why: str) -> bool:
    """Return whether only a plugin of the container image suggests RDMA, and the run may need no network."""
    return why == _plugin_of(logged, _IMAGE_PLUGINS) and not _between_nodes(logged)


def _between_nodes(logged: LoggedEvents) -> bool:
    return nodes_of(logged) > 1 or any(event.what.network == _SOCKET for event in logged.of(NcclChannel))


def _plugin_of(logged: LoggedEvents, names: re.Pattern[str]) -> str:
    for event in logged.of(NcclPluginLoaded):
        if names.search(f"{event.what.name or ''} {event.what.path or ''}"):
            return f"the plugin {event.what.name or 'for RDMA'} is loaded"
    return ""


def _sockets_event(logged: LoggedEvents) -> Event | None:
    chosen = [event for event in logged.of(NcclNetwork) if event.what.name == _SOCKET]
    listed = logged.of(NcclSocketInterfaces)
    return next(iter([*listed, *chosen]), None)


def mixed_hcas(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a list of HCAs that mixes InfiniBand with Ethernet, or single ports with bonds."""
    for event in logged.of(NcclHcas):
        names = event.what.names.split(",")
        links = {link.partition("/")[0].upper() for link in event.what.links.split(",") if link}
        bonds = [name for name in names if "bond" in name]
        if {"IB", "ROCE"} <= links:
            yield deduced(
                event, DeducedMixedHcas(names=named(names), why="InfiniBand and Ethernet HCAs are mixed")
            )
        elif bonds and len(bonds) < len(names):
            yield deduced(
                event,
                DeducedMixedHcas(
                    names=named(names), why=f"the bond {bonds[0]} usually serves storage or management"
                ),
            )


def hca_prefix(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a name in NCCL_IB_HCA that is the prefix of further HCAs."""
    wanted = value_of(logged, "NCCL_IB_HCA") or ""
    if not wanted or wanted[0] in "=^":
        return
    asked = [item.partition(":")[0].strip() for item in wanted.split(",")]
    for event in logged.of(NcclHcas):
        names = [name.partition(":")[0] for name in event.what.names.split(",")]
        extra = [
            name
            for name in names
            if name not in asked
            and any(item in names and re.fullmatch(re.escape(item) + r"\d+", name) for item in asked)
        ]
        if extra:
            yield deduced(
                event,
                DeducedHcaPrefix(
                    names=named(names),
                    why=f"NCCL_IB_HCA={wanted} is a prefix and therefore also selects {named(extra)}",
                ),
            )
            return


def hcas_differ(logged: LoggedEvents) -> Iterator[Event]:
    """Yield processes of one run that use different numbers of HCAs."""
    counts: dict[int, Event[NcclHcas]] = {}
    for event in logged.of(NcclHcas):
        if event.what.interface is None:
            continue  # A line that was cut.
        counts.setdefault(len(event.what.names.split(",")), event)
    if len(counts) > 1 and len({event.host for event in counts.values()}) > 1 and nodes_of(logged) > 1:
        fewest = counts[min(counts)]
        yield deduced(
            fewest,
            DeducedHcasDiffer(
                names=fewest.what.names, why=f"other processes use {plural(max(counts), 'HCA')}"
            ),
        )


def mixed_network(logged: LoggedEvents) -> Iterator[Event]:
    """Yield processes of one run that use different networks."""
    by_process: dict[tuple[object, ...], Event[NcclNetwork]] = {}
    for event in logged.of(NcclNetwork):
        if event.host is not None or event.rank is not None:
            by_process.setdefault((event.source, event.host, event.pid, event.rank), event)
    names = grouped((_ANOTHER_LINE.sub("", chosen.what.name), chosen) for chosen in by_process.values())
    for name in [name for name in names if any(other != name and other.startswith(name) for other in names)]:
        del names[name]  # The line with the shorter name was cut.
    hosts = [{event.host for event in events} for events in names.values()]
    if len(names) > 1 and (logged.has(NcclSocketWrongType) or not set.intersection(*hosts) - {None}):
        words = "; ".join(
            f"{name} on {named(_place(event) for event in events)}" for name, events in names.items()
        )
        yield deduced(min(names.values(), key=len)[0], DeducedMixedNetwork(networks=words))


def _place(event: Event) -> str:
    host = event.host or ""
    return host if event.rank is None else f"{host} (rank {event.rank})" if host else f"rank {event.rank}"


def gdr_missing(logged: LoggedEvents) -> Iterator[Event]:
    """Yield the first RDMA channel of a host whose channels do not use GPUDirect.

    Yield nothing if a line gives the distance as the reason.
    """
    channels = [
        event
        for event in logged.of(NcclChannel)
        if event.what.transport == "NET" and event.what.network != _SOCKET and not _cut(event)
    ]
    with_gdr = {event.host for event in channels if event.what.gdr}
    without = [event for event in channels if event.host not in with_gdr]
    if not without or _too_far(logged):
        return
    first, why = without[0], "its channels do not report GDRDMA"
    if with_gdr and first.host is not None:
        why = f"{first.host} does not use it, and {named(with_gdr)} does"
    firm = bool(with_gdr) or (_local_ranks(logged, channels) >= 8 and not _lacks_peer_to_peer(logged))
    level = value_of(logged, "NCCL_NET_GDR_LEVEL")
    network = first.what.network or ""
    yield deduced(first, DeducedGdrMissing(firm=firm and level is None, network=network, why=why))


def _lacks_peer_to_peer(logged: LoggedEvents) -> bool:
    """Return whether the GPUs probably support neither peer-to-peer nor access by an HCA."""
    return any(event.what.transport == "SHM" for event in logged.of(NcclChannel)) or any(
        "GeForce" in event.what.name for event in logged.of(NcclTestsRank)
    )


def _cut(event: Event[NcclChannel]) -> bool:
    """Return whether the line was cut before its end, which would show whether GPUDirect is used."""
    return not event.what.gdr and _WITHOUT_GDR.search(event.text) is None


def gdr_too_far(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a GPU and adapter for which NCCL refused GPUDirect only because of the distance."""
    for event in _too_far(logged)[:1]:
        gdr = event.what
        yield deduced(
            event, DeducedGdrTooFar(gpu=gdr.gpu, hca=gdr.hca, distance=gdr.distance, limit=gdr.limit)
        )


def _too_far(logged: LoggedEvents) -> list[Event[NcclGdr]]:
    return [
        event
        for event in logged.of(NcclGdr)
        if not event.what.enabled
        and (distance := event.what.distance) is not None
        and distance > (event.what.limit or 0)
    ]


def _local_ranks(logged: LoggedEvents, channels: list[Event[NcclChannel]]) -> int:
    """Estimate the number of ranks per node from communicators, or else from ranks of other nodes.

    On all nodes but the first, the number of the GPU is smaller than the rank.
    """
    counts = [local for event in logged.of(NcclCommShape) if (local := event.what.local_ranks) is not None]
    pairs = [(int(rank), int(gpu)) for event in channels for rank, gpu in _RANK_ON_GPU.findall(event.text)]
    offsets = [rank - gpu for rank, gpu in pairs if rank > gpu]
    return max(counts) if counts else min(offsets, default=0)


def gid_suspected(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a peer that does not answer, if the RoCE address (GID) of this side may be the reason."""
    errors = [event for event in logged.of(NcclIbCompletionError) if event.what.status == 12]
    links = {event.what.links for event in logged.of(NcclHcas)}
    if not errors or (links and not any("RoCE" in text for text in links)):
        return
    index = value_of(logged, "NCCL_IB_GID_INDEX")
    why = (
        ": on RoCE, a missing answer often means that the GID has another type or belongs to another network"
    )
    if index is not None:
        why = f" (NCCL_IB_GID_INDEX={index})"
    link_local = next((event for event in errors if (event.what.local_gid or "").startswith("fe80")), None)
    if link_local is not None:
        # NCCL prints GIDs only on Ethernet; a GID that begins with fe80:: reaches no other network.
        yield deduced(
            link_local,
            DeducedGidSuspected(firm=True, why=f": {link_local.what.local_gid} is a link-local address"),
        )
        return
    at_start = bool(links) and index is not None and not logged.has(NcclConnected, NcclTestsResult)
    yield deduced(errors[0], DeducedGidSuspected(firm=at_start, why=why))


def port_flaps(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a network port that went down at least three times, or came up again but went down more often."""
    states = grouped(((event.host or "", event.what.device), event) for event in logged.of(KernelLink))
    for (_, device), events in states.items():
        downs = [event for event in events if event.what.state == "down"]
        times = sum(event.count for event in downs)
        ups = sum(event.count for event in events if event.what.state == "up")
        if times >= _FLAPS or times > ups > 0:
            yield deduced(downs[0], DeducedPortFlaps(device=device, why=f"{times} times in this log"))


def pcie_errors(logged: LoggedEvents) -> Iterator[Event]:
    """Yield the first PCIe error that the hardware could not correct."""
    for event in logged.of(KernelAer):
        match event.what:
            case KernelAer(severity="fatal" | "uncorrected" as severity, bus=bus):
                place = "a device" if bus is None else bus
                yield deduced(event, DeducedPcieError(message=f"a PCIe error ({severity}) at {place}"))
                return


DEDUCTIONS = (
    sockets,
    no_rdma_despite,
    mixed_hcas,
    hca_prefix,
    hcas_differ,
    mixed_network,
    gdr_missing,
    gdr_too_far,
    gid_suspected,
    port_flaps,
    pcie_errors,
)
