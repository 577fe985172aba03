"""Which network carries data between nodes, and whether it is the one that should."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from probes.logs.cause_rows import load_causes
from probes.logs.deducing.common import completed, found, named, nodes_of, value_of, whole
from probes.logs.event import Event
from probes.logs.seen import Seen

_IB_INTERFACE = re.compile(r"^(ib\w*\d|ibp|ibs)")
_RDMA_PLUGINS = re.compile(r"IBext|SHARP|OFI|Libfabric|gIB|FasTrak|rdma", re.IGNORECASE)
_OF_IMAGES = re.compile(r"IBext|SHARP", re.IGNORECASE)
"""HPC-X's plugin comes with images, whatever the machine has."""
_ANOTHER_LINE = re.compile(r"(?<=[A-Za-z])(?<!_v)\s?\d.*")
"""Behind the name of a network, where lines run together: names have no digits but those of a version."""
_SOCKET = "Socket"
_WITHOUT_GDR = re.compile(r"via NET/[^/]+/\d+(?:\(\d+\))?(?:/Shared)?(?: comm .{1,60})?\s*$")
_FLAPS = 3
"""A link goes down and up twice while a host starts."""
_OF_SOCKETS = (
    "nccl.network",
    "nccl.socket-interfaces",
    "nccl.bootstrap",
    "nccl.version",
    "nccl.driver",
    "nccl.plugin-missing",
)
"""What an excerpt says that holds nothing but the choice of sockets."""
_RANK_ON_GPU = re.compile(r"\b(\d{1,7})\[(\d{1,2})\]")


def sockets(seen: Seen) -> Iterator[Event]:
    """Sockets between nodes, and what speaks for RDMA being there."""
    names = {str(event.fields.get("name")) for event in seen.of("nccl.network")}
    first = _sockets_event(seen)
    if first is None or names - {_SOCKET} or (not names and _uses_rdma(seen)):
        return
    interface = str(first.fields.get("names", "")).split(",")[0]
    where = {"interface": interface} if interface else {}
    signs = _signs_of_rdma(seen, hcas_only=False)
    if signs and not _of_image_only(seen, signs) and not _wants_sockets(seen) and not _within_a_node(seen):
        yield found("sockets-despite-rdma", first, why=signs, **where)
    elif _between_nodes(seen):
        told = seen.has("nccl.no-ib", *load_causes().failures) or _wants_sockets(seen) or completed(seen)
        kind = "sockets" if told else "sockets-between-nodes"
        yield found(kind, first, **where)
    elif all(event.kind in _OF_SOCKETS for event in seen.events):
        yield found("sockets-alone", first, **where)


def _uses_rdma(seen: Seen) -> bool:
    """Whether HCAs are told of: up to 2.4 sockets are listed for the bootstrap, and no line names the network
    that is used.
    """
    return seen.has("nccl.hcas", "nccl.queue-pair") or any(
        event.fields.get("network") not in (None, _SOCKET) for event in seen.of("nccl.channel")
    )


def _wants_sockets(seen: Seen) -> bool:
    return value_of(seen, "NCCL_IB_DISABLE") == "1" or value_of(seen, "NCCL_NET") == _SOCKET


def _within_a_node(seen: Seen) -> bool:
    """Whether all communicators are told to be of one node, where no network carries data."""
    told = [whole(event.fields.get("nodes")) for event in seen.of("nccl.comm-shape")]
    return bool(told) and all(nodes == 1 for nodes in told)


def _across(seen: Seen) -> bool:
    return nodes_of(seen) > 1


def no_rdma_despite(seen: Seen) -> Iterator[Event]:
    """No verbs device, although something tells that there should be one."""
    missing = seen.of("nccl.no-ib")
    names = {str(event.fields.get("name")) for event in seen.of("nccl.network")}
    if (
        not missing
        or names - {_SOCKET}
        or _wants_sockets(seen)
        or _within_a_node(seen)
        or seen.has("nccl.hcas")
    ):
        return
    why = _signs_of_rdma(seen, hcas_only=True)
    if why:
        kind = "no-rdma-perhaps" if _of_image_only(seen, why) else "no-rdma-despite"
        yield found(kind, missing[0], why=why, reason=str(missing[0].fields.get("reason", "no device")))


def _signs_of_rdma(seen: Seen, *, hcas_only: bool) -> str:
    """What tells that RDMA should be there, in words; empty where nothing does."""
    if value_of(seen, "NCCL_IB_HCA"):
        return "NCCL_IB_HCA names HCAs"
    for event in seen.of("nccl.bootstrap", "nccl.socket-interfaces"):
        interface = str(event.fields.get("interface") or event.fields.get("names") or "")
        if _IB_INTERFACE.match(interface):
            return f"{interface.split(',', maxsplit=1)[0]} is an InfiniBand interface"
    plugin = _plugin_of(seen, _RDMA_PLUGINS)
    if plugin:
        return plugin
    if seen.has("ofi.version", "ofi.platform", "ofi.provider") and not hcas_only:
        return "the plugin for libfabric is loaded"
    if not hcas_only and seen.has("nccl.hcas"):
        return "HCAs were found"
    return ""


def _of_image_only(seen: Seen, why: str) -> bool:
    """Whether RDMA is expected for nothing but a plugin that images hold, in a run that may need no
    network.
    """
    return why == _plugin_of(seen, _OF_IMAGES) and not _between_nodes(seen)


def _between_nodes(seen: Seen) -> bool:
    return _across(seen) or any(event.fields.get("network") == _SOCKET for event in seen.of("nccl.channel"))


def _plugin_of(seen: Seen, names: re.Pattern[str]) -> str:
    for event in seen.of("nccl.plugin-loaded"):
        if names.search(f"{event.fields.get('name', '')} {event.fields.get('path', '')}"):
            return f"the plugin {event.fields.get('name') or 'for RDMA'} is loaded"
    return ""


def _sockets_event(seen: Seen) -> Event | None:
    chosen = [event for event in seen.of("nccl.network") if event.fields.get("name") == _SOCKET]
    listed = seen.of("nccl.socket-interfaces")
    return next(iter([*listed, *chosen]), None)


def mixed_hcas(seen: Seen) -> Iterator[Event]:
    """InfiniBand and Ethernet, or single ports and bonds, in one list of HCAs."""
    for event in seen.of("nccl.hcas"):
        names = str(event.fields.get("names", "")).split(",")
        links = {
            link.partition("/")[0].upper() for link in str(event.fields.get("links", "")).split(",") if link
        }
        bonds = [name for name in names if "bond" in name]
        if {"IB", "ROCE"} <= links:
            yield found("mixed-hcas", event, names=named(names), why="InfiniBand and Ethernet HCAs are mixed")
        elif bonds and len(bonds) < len(names):
            yield found(
                "mixed-hcas",
                event,
                names=named(names),
                why=f"the bond {bonds[0]} is mostly for storage or management",
            )


def hca_prefix(seen: Seen) -> Iterator[Event]:
    """A name in NCCL_IB_HCA that is the beginning of more HCAs than it names."""
    wanted = value_of(seen, "NCCL_IB_HCA") or ""
    if not wanted or wanted[0] in "=^":
        return
    asked = [item.partition(":")[0].strip() for item in wanted.split(",")]
    for event in seen.of("nccl.hcas"):
        names = [name.partition(":")[0] for name in str(event.fields.get("names", "")).split(",")]
        extra = [
            name
            for name in names
            if name not in asked
            and any(item in names and re.fullmatch(re.escape(item) + r"\d+", name) for item in asked)
        ]
        if extra:
            yield found(
                "hca-prefix",
                event,
                names=named(names),
                why=f"NCCL_IB_HCA={wanted} takes {named(extra)} too, as a prefix",
            )
            return


def hcas_differ(seen: Seen) -> Iterator[Event]:
    """Processes of one run with different numbers of HCAs."""
    counts: dict[int, Event] = {}
    for event in seen.of("nccl.hcas"):
        if "interface" not in event.fields:
            continue  # A line that was cut.
        counts.setdefault(len(str(event.fields.get("names", "")).split(",")), event)
    if len(counts) > 1 and len({event.host for event in counts.values()}) > 1 and nodes_of(seen) > 1:
        fewest = counts[min(counts)]
        yield found(
            "hcas-differ", fewest, names=str(fewest.fields.get("names")), why=f"others use {max(counts)} HCAs"
        )


def mixed_network(seen: Seen) -> Iterator[Event]:
    """Processes of one run with different networks."""
    by_process: dict[tuple[object, ...], Event] = {}
    for event in seen.of("nccl.network"):
        if event.host is not None or event.rank is not None:
            by_process.setdefault((event.source, event.host, event.pid, event.rank), event)
    names: dict[str, list[Event]] = defaultdict(list)
    for event in by_process.values():
        names[_ANOTHER_LINE.sub("", str(event.fields.get("name")))].append(event)
    for name in [name for name in names if any(other != name and other.startswith(name) for other in names)]:
        del names[name]  # The beginning of another one is a line that was cut.
    hosts = [{event.host for event in events} for events in names.values()]
    if len(names) > 1 and (seen.has("nccl.socket-wrong-type") or not set.intersection(*hosts) - {None}):
        words = "; ".join(
            f"{name} on {named(_place(event) for event in events)}" for name, events in names.items()
        )
        yield found("mixed-network", min(names.values(), key=len)[0], networks=words)


def _place(event: Event) -> str:
    host = event.host or ""
    return host if event.rank is None else f"{host} (rank {event.rank})" if host else f"rank {event.rank}"


def gdr_missing(seen: Seen) -> Iterator[Event]:
    """Channels over an RDMA network without GPUDirect, where nothing says that the distance is why."""
    channels = [
        event
        for event in seen.of("nccl.channel")
        if event.fields.get("transport") == "NET"
        and event.fields.get("network") != _SOCKET
        and not _cut(event)
    ]
    with_gdr = {event.host for event in channels if whole(event.fields.get("gdr"))}
    without = [event for event in channels if event.host not in with_gdr]
    if not without or _too_far(seen):
        return
    first, why = without[0], "its channels do not say GDRDMA"
    if with_gdr and first.host is not None:
        why = f"{first.host} does without, while {named(with_gdr)} uses it"
    firm = bool(with_gdr) or (_local_ranks(seen, channels) >= 8 and not _lacks_peer_to_peer(seen))
    level = value_of(seen, "NCCL_NET_GDR_LEVEL")
    network = str(first.fields.get("network", ""))
    yield found("gdr-missing", first, firm=int(firm and level is None), network=network, why=why)


def _lacks_peer_to_peer(seen: Seen) -> bool:
    """Whether the GPUs are of those that neither reach each other nor let an HCA reach them."""
    return any(event.fields.get("transport") == "SHM" for event in seen.of("nccl.channel")) or any(
        "GeForce" in str(event.fields.get("name", "")) for event in seen.of("nccl_tests.rank")
    )


def _cut(event: Event) -> bool:
    """Whether the line lacks its end, where GPUDirect would stand."""
    return not whole(event.fields.get("gdr")) and _WITHOUT_GDR.search(event.text) is None


def gdr_too_far(seen: Seen) -> Iterator[Event]:
    """GPUDirect refused for the distance alone."""
    for event in _too_far(seen)[:1]:
        yield found(
            "gdr-too-far",
            event,
            **{
                name: value
                for name, value in event.fields.items()
                if name in ("gpu", "hca", "distance", "limit")
            },
        )


def _too_far(seen: Seen) -> list[Event]:
    return [
        event
        for event in seen.of("nccl.gdr")
        if whole(event.fields.get("enabled")) == 0
        and (distance := whole(event.fields.get("distance"))) is not None
        and distance > (whole(event.fields.get("limit")) or 0)
    ]


def _local_ranks(seen: Seen, channels: list[Event]) -> int:
    """Ranks of one node, as far as told: by the shape, or by the first rank of another node, whose GPU's
    number is smaller.
    """
    told = [
        local
        for event in seen.of("nccl.comm-shape")
        if (local := whole(event.fields.get("local_ranks"))) is not None
    ]
    pairs = [(int(rank), int(gpu)) for event in channels for rank, gpu in _RANK_ON_GPU.findall(event.text)]
    offsets = [rank - gpu for rank, gpu in pairs if rank > gpu]
    return max(told) if told else min(offsets, default=0)


def gid_suspected(seen: Seen) -> Iterator[Event]:
    """No answer from the peer where addresses of Ethernet decide: before any data passed, or with an index
    that was set.
    """
    errors = [
        event for event in seen.of("nccl.ib.completion-error") if whole(event.fields.get("status")) == 12
    ]
    links = {str(event.fields.get("links", "")) for event in seen.of("nccl.hcas")}
    if not errors or (links and not any("RoCE" in text for text in links)):
        return
    index = value_of(seen, "NCCL_IB_GID_INDEX")
    why = ": on RoCE no answer often means a GID of another kind or network"
    if index is not None:
        why = f" (NCCL_IB_GID_INDEX={index})"
    link_local = next(
        (event for event in errors if str(event.fields.get("local_gid", "")).startswith("fe80")), None
    )
    if link_local is not None:
        # NCCL names GIDs on Ethernet alone, where one of fe80:: reaches no other network.
        yield found(
            "gid-suspected",
            link_local,
            firm=1,
            why=f": {link_local.fields['local_gid']} is a link-local address",
        )
        return
    at_start = bool(links) and index is not None and not seen.has("nccl.connected", "nccl_tests.result")
    yield found("gid-suspected", errors[0], firm=int(at_start), why=why)


def port_flaps(seen: Seen) -> Iterator[Event]:
    """A port of the network that went down more than once, or down and not up again."""
    states: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in seen.of("kernel.link"):
        states[event.host or "", str(event.fields.get("device", ""))].append(event)
    for (_, device), events in states.items():
        downs = [event for event in events if event.fields.get("state") == "down"]
        times = sum(event.count for event in downs)
        ups = sum(event.count for event in events if event.fields.get("state") == "up")
        if times >= _FLAPS or times > ups > 0:
            yield found("port-flaps", downs[0], device=device, why=f"{times} times in this log")


def pcie_errors(seen: Seen) -> Iterator[Event]:
    """Errors of PCIe that lose data, in words for what is collected."""
    for event in seen.of("kernel.aer"):
        if event.fields.get("severity") in ("fatal", "uncorrected"):
            yield found(
                "pcie-error",
                event,
                message=f"a PCIe error ({event.fields['severity']}) at {event.fields.get('bus', 'a device')}",
            )
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
