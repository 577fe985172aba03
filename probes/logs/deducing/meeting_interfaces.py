"""Deductions about the addresses and interfaces over which processes connect at the start."""

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterator

from probes.logs.cause_rows import load_causes
from probes.logs.deducing.common import begins_before_meeting, completed, deduced, named, nodes_of
from probes.logs.event import Event
from probes.logs.events.deduced_network_events import (
    DeducedBadInterface,
    DeducedBadSockets,
    DeducedConnectToLocal,
    DeducedHostIdShared,
    DeducedHostShared,
    DeducedInterfacesDiffer,
    DeducedRanksMissingAtStart,
)
from probes.logs.events.framework_events import GlooConnectFailed
from probes.logs.events.nccl_events import (
    NcclBootstrap,
    NcclConnected,
    NcclEnvironment,
    NcclInitComplete,
    NcclInitStart,
)
from probes.logs.events.nccl_failure_events import NcclConnectFailed
from probes.logs.events.nccl_network_events import NcclSocketInterfaces
from probes.logs.events.process_events import SlurmKilled
from probes.logs.events.torch_events import TorchConnectFailed, TorchStoreTimeout, TorchWatchdogTimeout
from probes.logs.logged_events import LoggedEvents

_BRIDGES = re.compile(
    r"^(docker|veth|virbr|br-[0-9a-f]{12}|cni|flannel|cali|lxc|lxd|podman|kube|cilium|vmnet)"
)
_PORT = re.compile(r"<\d+>$|(?<=\d):\d+$")
_TUNNELS = re.compile(r"^(tun|tap|wg|tailscale|ppp|zt|ip6tnl|sit|gre)")


def bad_interface(logged: LoggedEvents) -> Iterator[Event]:
    """Yield each interface that may reach no other host.

    Such interfaces are loopback, bridges, tunnels and those with a link-local address. The interface of the
    bootstrap is examined; if the logs do not name it, NCCL's socket interfaces for data are examined.
    """
    nodes = nodes_of(logged)
    failed = logged.has(NcclConnectFailed, GlooConnectFailed, TorchStoreTimeout)
    works = not failed and (completed(logged) or logged.has(NcclConnected, NcclInitComplete))
    bootstraps = logged.of(NcclBootstrap)
    events: list[Event] = [*bootstraps] if bootstraps else [*logged.of(NcclSocketInterfaces)]
    for event in events:
        interface, address = interface_of(event)
        kind, why = _unfit(interface, address)
        if kind:
            yield deduced(
                event,
                DeducedBadInterface(
                    interface=interface,
                    address=address,
                    kind=kind,
                    why=why,
                    nodes=nodes,
                    failed=failed,
                    works=works,
                ),
            )


def interface_of(event: Event) -> tuple[str, str]:
    """Return the interface over which ranks connect or send data, and its address if the line has one."""
    match event.what:
        case NcclBootstrap(interface=interface, address=address):
            return interface, address
        case NcclSocketInterfaces(names=names):
            return names, ""
    return "", ""


def connect_to_local(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a failed connection to an address, or over an interface, that reaches no other host."""
    for event in logged.of(NcclConnectFailed, GlooConnectFailed, TorchConnectFailed):
        match event.what:
            case NcclConnectFailed(peer=address):
                peer = address or ""
            case GlooConnectFailed(host=host) | TorchConnectFailed(host=host):
                peer = host
        address, _, interface = _PORT.sub("", peer).strip("[]").partition("%")
        kind, why = _unfit(interface, address)
        if kind and (interface or nodes_of(logged) > 1):
            yield deduced(event, DeducedConnectToLocal(peer=peer, why=why))


def bad_sockets(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a bridge or tunnel among the interfaces for data, if a connection failed."""
    if not logged.has(NcclConnectFailed):
        return
    for event in logged.of(NcclSocketInterfaces):
        names = event.what.names.split(",")
        for name in names if len(names) > 1 else ():
            kind, why = _unfit(name, "")
            if kind:
                yield deduced(event, DeducedBadSockets(interface=name, why=why))
                return


def host_id_shared(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a NCCL_HOSTID that several hosts share."""
    hosts: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in logged.of(NcclEnvironment):
        if event.what.name == "NCCL_HOSTID" and event.host is not None:
            hosts[str(event.what.value)].setdefault(event.host, event)
    for value, events in hosts.items():
        if len(events) > 1:
            yield deduced(next(iter(events.values())), DeducedHostIdShared(value=value, hosts=named(events)))


def interfaces_differ(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a deduction if hosts announce IPv4 addresses that differ in the first number."""
    networks: dict[str, Event] = {}
    for event in logged.of(NcclBootstrap):
        address = _address(event.what.address)
        if address is not None and address.version == 4 and event.host is not None:
            networks.setdefault(".".join(str(address).split(".")[:1]) + ".x", event)
    if len(networks) > 1:
        yield deduced(next(iter(networks.values())), DeducedInterfacesDiffer(networks=named(networks)))


def host_shared(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a host name that has two addresses on one interface: two machines share the name.

    NCCL itself distinguishes such machines.
    """
    addresses: dict[tuple[str, str], dict[str, Event]] = defaultdict(dict)
    for event in logged.of(NcclBootstrap):
        if event.host is not None:
            addresses[event.host, event.what.interface].setdefault(event.what.address, event)
    failed = logged.has(*load_causes().failures)
    for (host, _), events in addresses.items():
        if len(events) > 1:
            yield deduced(
                next(iter(events.values())),
                DeducedHostShared(host=host, addresses=named(events), failed=failed),
            )


def ranks_missing(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a communicator that most ranks begin to initialise, some never begin, and none completes.

    Yield nothing unless a line reports a timeout, a failed connection, or a job that Slurm ended.
    """
    starts = logged.of(NcclInitStart)
    if logged.has(NcclInitComplete) or not starts or not begins_before_meeting(logged):
        return
    ranks = max(event.what.ranks for event in starts)
    begun = {event.what.rank for event in starts if event.what.ranks == ranks}
    missing = [rank for rank in range(min(ranks, 4096)) if rank not in begun]
    if (
        missing
        and len(missing) * 2 < ranks
        and logged.has(TorchStoreTimeout, TorchWatchdogTimeout, SlurmKilled, NcclConnectFailed)
    ):
        yield deduced(
            starts[0], DeducedRanksMissingAtStart(missing=len(missing), ranks=ranks, names=named(missing))
        )


def _unfit(interface: str, text: str) -> tuple[str, str]:
    address = _address(text)
    if address.is_loopback if address is not None else interface == "lo":
        return "loopback", "is this host itself"
    if _BRIDGES.match(interface):
        return "bridge", "is a container bridge within this host"
    if _TUNNELS.match(interface):
        return "tunnel", "is a tunnel or VPN"
    if address is not None and address.is_link_local:
        return "link-local", "is a link-local address"
    if not interface and address is not None and address.version == 4 and str(address).startswith("172.17."):
        return "bridge", "is Docker's own bridge"
    return "", ""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


DEDUCTIONS = (
    bad_interface,
    bad_sockets,
    host_id_shared,
    connect_to_local,
    interfaces_differ,
    host_shared,
    ranks_missing,
)
