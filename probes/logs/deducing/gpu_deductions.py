"""GPUs, their links and the way between them."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator

from probes.catalogue.xids import load_xids
from probes.logs.cause_rows import load_causes
from probes.logs.deducing.common import found, named, value_of, whole
from probes.logs.event import Event, Value
from probes.logs.events.fabric_manager_events import FabricSwitchError
from probes.logs.events.kernel_log_events import KernelSxid, KernelXid
from probes.logs.seen import Seen

_DOMAIN_BITS = 20
"""NCCL writes a bus id as one number: domain, bus, device and function in 5 + 4 hexadecimal digits behind the
domain.
"""
_DEGRADED = 1
"""In the health mask of the fabric each two bits are 0 not supported, 1 true, 2 false (NVML,
nvmlGpuFabricInfoV).
"""
_SWITCH_ERRORS = (KernelSxid, FabricSwitchError)


def shared_gpu(seen: Seen) -> Iterator[Event]:
    """Ranks of one communicator and one host with the same bus id."""
    ranks: dict[tuple[str, str, str], dict[int, Event]] = defaultdict(dict)
    hosts: dict[tuple[object, int], set[str]] = defaultdict(set)
    for event in seen.of("nccl.init-start", "nccl.init-complete"):
        bus, rank, host = event.fields.get("bus"), whole(event.fields.get("rank")), event.host
        if rank is not None and host is not None:
            hosts[event.fields.get("comm"), rank].add(host)
        if bus and rank is not None and host is not None and event.fields.get("comm"):
            ranks[host, str(event.fields["comm"]), str(bus)].setdefault(rank, event)
    for (_, comm, address), events in ranks.items():
        # A rank that is told of two hosts has a line that was written into another one.
        if len(events) > 1 and all(len(hosts[comm, rank]) == 1 for rank in events):
            yield found("gpu-shared", next(iter(events.values())), names=named(sorted(events)), bus=address)


def shm_within_node(seen: Seen) -> Iterator[Event]:
    """Shared memory between the GPUs of a node, and peer-to-peer between none."""
    channels = [event for event in seen.of("nccl.channel") if event.fields.get("transport") == "SHM"]
    if not channels or any(event.fields.get("transport") == "P2P" for event in seen.of("nccl.channel")):
        return
    if value_of(seen, "NCCL_P2P_DISABLE") in (None, "0"):
        first = channels[0]
        fields = {
            "a": first.fields.get("from_rank", ""),
            "b": first.fields.get("to_rank", ""),
            "how": "channels go via SHM",
        }
        yield found("shm-within-node", first, **fields)


def flat_topology(seen: Seen) -> Iterator[Event]:
    """Every GPU in a PCI domain of its own, and none reaches another."""
    refused = seen.of("nccl.p2p-unavailable")
    if not refused or seen.has("nccl.p2p-disabled"):
        return
    buses = {str(event.fields.get(name)) for event in refused for name in ("bus_a", "bus_b")}
    domains = {_domain(bus) for bus in buses}
    if len(buses) >= 3 and len(domains) == len(buses) and None not in domains:
        yield found(
            "flat-topology",
            refused[0],
            why=f"each of {len(buses)} GPUs is alone in a PCI domain, as virtual machines show them",
        )


def _domain(bus: str) -> int | None:
    try:
        return int(bus, 16) >> _DOMAIN_BITS
    except ValueError:
        return None


def fabric_degraded(seen: Seen) -> Iterator[Event]:
    """A health mask that says so, or a crash while GPUs of several trays join."""
    for event in seen.of("nccl.mnnvl"):
        mask = _mask(event.fields.get("health"))
        state = whole(event.fields.get("state"))
        text = str(event.fields.get("health", ""))
        if mask is not None and any((mask >> shift) & 3 == _DEGRADED for shift in range(0, 8, 2)):
            yield found(
                "fabric-degraded",
                event,
                health_mask=text,
                why="a part of it is degraded, or its routes are not healthy",
            )
            return
        if state not in (None, 3) and state != 0:
            yield found(
                "fabric-degraded",
                event,
                health_mask=text,
                why=f"its registration is not complete (state {state})",
            )
            return
    crashes = [event for event in seen.of("process.signal") if event.fields.get("signal") in (11, "SIGSEGV")]
    joined = [event for event in seen.of("nccl.mnnvl") if event.fields.get("health")]
    if crashes and joined and not seen.has("nccl.init-complete"):
        yield found(
            "fabric-degraded",
            joined[0],
            health_mask=str(joined[0].fields["health"]),
            why="NCCL crashed while the GPUs of its NVLink domain joined",
        )


def _mask(value: object) -> int | None:
    try:
        return None if value is None else int(str(value), 16)
    except ValueError:
        return None


def xids(seen: Seen) -> Iterator[Event]:
    """What is to be done about each error that the driver reports, the worst numbers first in time."""
    table, told_elsewhere = load_xids(), _xids_of_other_causes()
    for event in seen.in_order(seen.of(KernelXid.KIND)):
        match event.what:
            case KernelXid(xid=xid) as error if xid not in told_elsewhere:
                row = table.find(xid)
                yield found(
                    "xid",
                    event,
                    severity=error.severity or "none",
                    action=row.action if row is not None else "Look the number up in NVIDIA's Xid catalogue.",
                    xid=xid,
                    name=error.name or "of no name that rigtune knows",
                    **_known(bus=error.bus, process=error.process),
                )


def _known(**fields: Value | None) -> dict[str, Value]:
    return {name: value for name, value in fields.items() if value is not None}


@functools.lru_cache(maxsize=1)
def _xids_of_other_causes() -> frozenset[int]:
    """The numbers for which a cause of their own stands in the table."""
    codes: set[int] = set()
    for row in load_causes().cause:
        for pattern in row.pattern:
            condition = pattern.where.get("xid")
            if pattern.event == "kernel.xid" and isinstance(condition, list):
                codes.update(int(code) for code in condition)
    return frozenset(codes)


def switch_errors(seen: Seen) -> Iterator[Event]:
    """Errors of NVSwitches, by the kernel or by the fabric manager."""
    events = seen.in_order(seen.of(KernelSxid.KIND, FabricSwitchError.KIND))
    fatal = [event for event in events if isinstance(event.what, _SWITCH_ERRORS) and event.what.fatal == 1]
    counted = fatal or events
    lines = sum(event.count for event in counted)
    for event in counted[:1]:
        match event.what:
            case (
                KernelSxid(sxid=code, bus=bus, link=place)
                | FabricSwitchError(error=code, bus=bus, port=place)
            ):
                words = f"{'fatal' if fatal else 'non-fatal'} NVSwitch error {code or ''}"
                yield found(
                    "switch-error",
                    event,
                    fatal=int(bool(fatal)),
                    bus=bus or "",
                    link=f"{place or ''}",
                    why=words + (f", {lines} lines" if lines > 1 else ""),
                )


def driver_older(seen: Seen) -> Iterator[Event]:
    """A driver of an older major version of CUDA than NCCL was built for."""
    for driver in seen.of("nccl.driver")[:1]:
        api = whole(driver.fields.get("api"))
        for version in seen.of("nccl.version"):
            built = str(version.fields.get("cuda", "")).partition(".")[0]
            if api is not None and built.isdecimal() and api // 1000 < int(built):
                text = f"{api // 1000}.{api % 1000 // 10}"
                yield found("driver-older-than-cuda", driver, found=text, needed=str(version.fields["cuda"]))
                return


def versions_differ(seen: Seen) -> Iterator[Event]:
    """Hosts with different NCCL in logs of one run."""
    hosts: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in seen.of("nccl.version"):
        if event.host is not None:
            hosts[event.host].setdefault(str(event.fields.get("version")), event)
    chosen = {host: next(iter(versions)) for host, versions in hosts.items() if len(versions) == 1}
    if len(set(chosen.values())) > 1:
        first = next(iter(hosts[next(iter(chosen))].values()))
        yield found(
            "versions-differ",
            first,
            versions=named(f"{version} on {host}" for host, version in chosen.items()),
        )


DEDUCTIONS = (
    shared_gpu,
    shm_within_node,
    flat_topology,
    fabric_degraded,
    xids,
    switch_errors,
    driver_older,
    versions_differ,
)
