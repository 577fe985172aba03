"""Deductions about GPUs, their drivers, and the links between them."""

import functools
import signal
from collections import defaultdict
from collections.abc import Iterator

from probes.catalogue.xids import load_xids
from probes.logs.cause_rows import load_causes
from probes.logs.deducing.common import deduced, named, value_of
from probes.logs.event import Event
from probes.logs.events.deduced_hardware_events import (
    DeducedDriverOlderThanCuda,
    DeducedFabricDegraded,
    DeducedFlatTopology,
    DeducedGpuShared,
    DeducedShmWithinNode,
    DeducedSwitchError,
    DeducedVersionsDiffer,
    DeducedXid,
)
from probes.logs.events.kernel_log_events import FabricSwitchError, KernelSxid, KernelXid
from probes.logs.events.nccl_events import (
    NcclChannel,
    NcclDriver,
    NcclInitComplete,
    NcclInitStart,
    NcclMnnvl,
    NcclP2pDisabled,
    NcclP2pUnavailable,
    NcclVersion,
)
from probes.logs.events.process_events import ProcessSignal
from probes.logs.logged_events import LoggedEvents

_DOMAIN_BITS = 20
"""Number of bits below the domain in NCCL's integer for a bus id (domain, bus, device, function)."""
_NOT_SUPPORTED, _COMPLETED = 0, 3
"""States of a GPU's registration with the fabric (NVML, nvmlGpuFabricInfoV)."""
_DEGRADED = 1
"""Two-bit value in the fabric's health mask: 0 not supported, 1 true, 2 false (nvmlGpuFabricInfoV)."""


def shared_gpu(logged: LoggedEvents) -> Iterator[Event]:
    """Yield each GPU that several ranks of one communicator and one host use."""
    ranks: dict[tuple[str, str, str], dict[int, Event]] = defaultdict(dict)
    hosts: dict[tuple[str, int], set[str]] = defaultdict(set)
    for event in logged.of(NcclInitStart, NcclInitComplete):
        comm, rank, bus, host = event.what.comm, event.what.rank, event.what.bus, event.host
        if host is None:
            continue
        hosts[comm, rank].add(host)
        if bus and comm:
            ranks[host, comm, bus].setdefault(rank, event)
    for (_, comm, bus), events in ranks.items():
        # A rank with two hosts comes from a damaged line: another process wrote into the line.
        if len(events) > 1 and all(len(hosts[comm, rank]) == 1 for rank in events):
            yield deduced(next(iter(events.values())), DeducedGpuShared(names=named(sorted(events)), bus=bus))


def shm_within_node(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a deduction if GPUs of a node use shared memory and no pair uses peer-to-peer.

    Yield nothing if NCCL_P2P_DISABLE is the reason.
    """
    channels = logged.of(NcclChannel)
    shared = [event for event in channels if event.what.transport == "SHM"]
    if not shared or any(event.what.transport == "P2P" for event in channels):
        return
    if value_of(logged, "NCCL_P2P_DISABLE") in (None, "0"):
        a, b = shared[0].what.from_rank, shared[0].what.to_rank
        yield deduced(shared[0], DeducedShmWithinNode(a=a, b=b, how="channels go via SHM"))


def flat_topology(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a deduction if the GPUs cannot access each other and each is alone in a PCI domain."""
    refused = logged.of(NcclP2pUnavailable)
    if not refused or logged.has(NcclP2pDisabled):
        return
    buses = {bus for event in refused for bus in (event.what.bus_a, event.what.bus_b)}
    domains = {_domain(bus) for bus in buses}
    if len(buses) >= 3 and len(domains) == len(buses) and None not in domains:
        why = f"each of {len(buses)} GPUs is alone in a PCI domain, as in virtual machines"
        yield deduced(refused[0], DeducedFlatTopology(why=why))


def _domain(bus: str) -> int | None:
    try:
        return int(bus, 16) >> _DOMAIN_BITS
    except ValueError:
        return None


def fabric_degraded(logged: LoggedEvents) -> Iterator[Event]:
    """Yield an unhealthy NVLink fabric.

    The signs are its health mask, an incomplete registration, or a crash while the GPUs of its domain join.
    """
    joins = logged.of(NcclMnnvl)
    for event in joins:
        health, state = event.what.health or "", event.what.state
        mask = _mask(event.what.health)
        if mask is not None and any((mask >> shift) & 3 == _DEGRADED for shift in range(0, 8, 2)):
            why = "a part of the fabric is degraded, or its routes are not healthy"
        elif state not in (None, _NOT_SUPPORTED, _COMPLETED):
            why = f"the registration with the fabric is not complete (state {state})"
        else:
            continue
        yield deduced(event, DeducedFabricDegraded(health_mask=health, why=why))
        return
    joins = [event for event in joins if event.what.health]
    has_crash = any(event.what.signal == signal.SIGSEGV for event in logged.of(ProcessSignal))
    if joins and has_crash and not logged.has(NcclInitComplete):
        why = "NCCL crashed while the GPUs of its NVLink domain joined"
        yield deduced(joins[0], DeducedFabricDegraded(health_mask=joins[0].what.health or "", why=why))


def _mask(text: str | None) -> int | None:
    try:
        return None if text is None else int(text, 16)
    except ValueError:
        return None


def xids(logged: LoggedEvents) -> Iterator[Event]:
    """Yield each Xid that no other cause explains, with the recommended action, in order of time."""
    table, xids_elsewhere = load_xids(), _xids_of_other_causes()
    for event in logged.in_order(logged.of(KernelXid)):
        error = event.what
        if error.xid in xids_elsewhere or error.after in xids_elsewhere:
            continue
        row = table.find(error.xid)
        yield deduced(
            event,
            DeducedXid(
                severity=error.severity or "none",
                action=row.action if row is not None else "Look the number up in NVIDIA's Xid catalogue.",
                xid=error.xid,
                name=error.name or "without a known name",
                bus=error.bus,
                process=error.process,
                followers=error.followers,
            ),
        )


@functools.lru_cache(maxsize=1)
def _xids_of_other_causes() -> frozenset[int]:
    """Return the Xid numbers that another cause of the table explains."""
    codes: set[int] = set()
    for row in load_causes().cause:
        for pattern in row.pattern:
            condition = pattern.where.get("xid")
            if pattern.event == "kernel.xid" and isinstance(condition, list):
                codes.update(int(code) for code in condition)
    return frozenset(codes)


def switch_errors(logged: LoggedEvents) -> Iterator[Event]:
    """Yield the first NVSwitch error that the kernel or the Fabric Manager reports.

    Fatal errors have priority.
    """
    events = logged.in_order(logged.of(KernelSxid, FabricSwitchError))
    fatal = [event for event in events if event.what.fatal == 1]
    counted = fatal or events
    lines = sum(event.count for event in counted)
    for event in counted[:1]:
        match event.what:
            case (
                KernelSxid(sxid=code, bus=bus, link=place)
                | FabricSwitchError(error=code, bus=bus, port=place)
            ):
                why = f"{'fatal' if fatal else 'non-fatal'} NVSwitch error {code or ''}"
                why += f", {lines} lines" if lines > 1 else ""
                record = DeducedSwitchError(
                    fatal=int(bool(fatal)), bus=bus or "", link=f"{place or ''}", why=why
                )
                yield deduced(event, record)


def driver_older(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a driver whose major version of CUDA is older than the version that NCCL was built for."""
    for driver in logged.of(NcclDriver)[:1]:
        api = driver.what.api
        for version in logged.of(NcclVersion):
            built = version.what.cuda or ""
            major = built.partition(".")[0]
            if major.isdecimal() and api // 1000 < int(major):
                of_driver = f"{api // 1000}.{api % 1000 // 10}"
                yield deduced(driver, DeducedDriverOlderThanCuda(actual=of_driver, needed=built))
                return


def versions_differ(logged: LoggedEvents) -> Iterator[Event]:
    """Yield different versions of NCCL on hosts of one run."""
    hosts: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in logged.of(NcclVersion):
        if event.host is not None:
            hosts[event.host].setdefault(event.what.version, event)
    chosen = {host: next(iter(versions)) for host, versions in hosts.items() if len(versions) == 1}
    if len(set(chosen.values())) > 1:
        first = next(iter(hosts[next(iter(chosen))].values()))
        versions = named(f"{version} on {host}" for host, version in chosen.items())
        yield deduced(first, DeducedVersionsDiffer(versions=versions))


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
