"""Addresses and interfaces over which processes meet."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterator

from probes.logs.cause_rows import load_causes
from probes.logs.deducing.common import begins_before_meeting, completed, found, named, nodes_of, whole
from probes.logs.event import Event
from probes.logs.seen import Seen

_BRIDGES = re.compile(
    r"^(docker|veth|virbr|br-[0-9a-f]{12}|cni|flannel|cali|lxc|lxd|podman|kube|cilium|vmnet)"
)
_PORT = re.compile(r"<\d+>$|(?<=\d):\d+$")
_TUNNELS = re.compile(r"^(tun|tap|wg|tailscale|ppp|zt|ip6tnl|sit|gre)")


def bad_interface(seen: Seen) -> Iterator[Event]:
    """Bootstrap over loopback, a bridge of containers, a tunnel or a link-local address; else its sockets for
    data over one.
    """
    nodes = nodes_of(seen)
    failed = int(seen.has("nccl.connect-failed", "gloo.connect-failed", "torch.store-timeout"))
    works = int(not failed and (completed(seen) or seen.has("nccl.connected", "nccl.init-complete")))
    for event in seen.of("nccl.bootstrap") or seen.of("nccl.socket-interfaces"):
        interface = str(event.fields.get("interface") or event.fields.get("names", ""))
        address = str(event.fields.get("address", ""))
        kind, why = _unfit(interface, address)
        if kind:
            yield found(
                "bad-interface",
                event,
                interface=interface,
                address=address,
                kind=kind,
                why=why,
                nodes=nodes,
                failed=failed,
                works=works,
            )


def connect_to_local(seen: Seen) -> Iterator[Event]:
    """A connection to an address that another host never has, or over an interface that leads to none."""
    for event in seen.of("nccl.connect-failed", "gloo.connect-failed", "torch.connect-failed"):
        peer = str(event.fields.get("peer") or event.fields.get("host") or "")
        address, _, interface = _PORT.sub("", peer).strip("[]").partition("%")
        kind, why = _unfit(interface, address)
        if kind and (interface or nodes_of(seen) > 1):
            yield found("connect-to-local", event, peer=peer, why=why)


def bad_sockets(seen: Seen) -> Iterator[Event]:
    """A bridge or tunnel among the interfaces for data, where a connection failed."""
    if not seen.has("nccl.connect-failed"):
        return
    for event in seen.of("nccl.socket-interfaces"):
        names = str(event.fields.get("names", "")).split(",")
        for name in names if len(names) > 1 else ():
            kind, why = _unfit(name, "")
            if kind:
                yield found("bad-sockets", event, interface=name, why=why)
                return


def host_id_shared(seen: Seen) -> Iterator[Event]:
    """One NCCL_HOSTID on several hosts."""
    hosts: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in seen.of("nccl.environment"):
        if event.fields.get("name") == "NCCL_HOSTID" and event.host is not None:
            hosts[str(event.fields.get("value", ""))].setdefault(event.host, event)
    for value, events in hosts.items():
        if len(events) > 1:
            yield found("host-id-shared", next(iter(events.values())), value=value, hosts=named(events))


def interfaces_differ(seen: Seen) -> Iterator[Event]:
    """Hosts that announce addresses of networks with nothing in common."""
    networks: dict[str, Event] = {}
    for event in seen.of("nccl.bootstrap"):
        address = _address(str(event.fields.get("address", "")))
        if address is not None and address.version == 4 and event.host is not None:
            networks.setdefault(".".join(str(address).split(".")[:1]) + ".x", event)
    if len(networks) > 1:
        yield found("interfaces-differ", next(iter(networks.values())), networks=named(networks))


def host_shared(seen: Seen) -> Iterator[Event]:
    """One host name with two addresses on the interface of the same name: two machines, which NCCL tells
    apart by more.
    """
    addresses: dict[tuple[str, str], dict[str, Event]] = defaultdict(dict)
    for event in seen.of("nccl.bootstrap"):
        if event.host is not None:
            addresses[event.host, str(event.fields.get("interface"))].setdefault(
                str(event.fields.get("address")), event
            )
    failed = int(seen.has(*load_causes().failures))
    for (host, _), events in addresses.items():
        if len(events) > 1:
            yield found(
                "host-shared", next(iter(events.values())), host=host, addresses=named(events), failed=failed
            )


def ranks_missing(seen: Seen) -> Iterator[Event]:
    """Most ranks of a communicator begin, some never do, and none completes."""
    starts = [event for event in seen.of("nccl.init-start") if whole(event.fields.get("ranks")) is not None]
    if seen.has("nccl.init-complete") or not starts or not begins_before_meeting(seen):
        return
    ranks = max(whole(event.fields["ranks"]) or 0 for event in starts)
    begun = {whole(event.fields.get("rank")) for event in starts if whole(event.fields.get("ranks")) == ranks}
    missing = [rank for rank in range(min(ranks, 4096)) if rank not in begun]
    if (
        missing
        and len(missing) * 2 < ranks
        and seen.has("torch.store-timeout", "torch.watchdog-timeout", "slurm.killed", "nccl.connect-failed")
    ):
        yield found(
            "ranks-missing-at-start", starts[0], missing=len(missing), ranks=ranks, names=named(missing)
        )


def _unfit(interface: str, text: str) -> tuple[str, str]:
    address = _address(text)
    if address.is_loopback if address is not None else interface == "lo":
        return "loopback", "is this host itself"
    if _BRIDGES.match(interface):
        return "bridge", "is a bridge of containers within this host"
    if _TUNNELS.match(interface):
        return "tunnel", "is a tunnel or VPN"
    if address is not None and address.version == 4 and address.is_link_local:
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
