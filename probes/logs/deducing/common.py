"""Helpers for several deductions: phrases, variables, nodes, and the hardware that logs name."""

from collections.abc import Iterable, Mapping

import msgspec

from probes.base.grouping import grouped
from probes.base.units import GB
from probes.base.versions import at_least
from probes.catalogue.hardware import MachineModel, load_catalogue
from probes.logs.event import Event, reporting
from probes.logs.events.compared_events import MachineGpu, MachinePort
from probes.logs.events.log_record import R
from probes.logs.events.measurement_events import NcclTestsRank, NcclTestsResult, NcclTestsSummary
from probes.logs.events.nccl_events import (
    NcclBootstrap,
    NcclChannel,
    NcclCommShape,
    NcclDestroyed,
    NcclEnvironment,
    NcclInitComplete,
    NcclInitStart,
    NcclTopology,
    NcclVersion,
)
from probes.logs.events.nccl_network_events import NcclHca, NcclHcas, NcclNetwork, OfiPlatform, OfiProvider
from probes.logs.logged_events import LoggedEvents

_BEGINS_FIRST = "2.23"
_BITS = 8


def deduced(first: Event, record: R) -> Event[R]:
    """Return a deduced event at the line of the first event that supports it."""
    return msgspec.structs.replace(reporting(first, record), count=1)


def named(values: Iterable[object], most: int = 8) -> str:
    """Return a phrase that lists the first `most` values and counts the others: "a, b and 3 more"."""
    texts = [str(value) for value in dict.fromkeys(values)]
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def who_calls(calls: Mapping[int, str]) -> str:
    """Return a phrase with the ranks of each call: "ranks 0, 1 call ALLREDUCE, rank 2 calls BROADCAST"."""
    ranks = grouped((call, rank) for rank, call in sorted(calls.items()))
    return ", ".join(
        f"rank {some[0]} calls {call}" if len(some) == 1 else f"ranks {named(some)} call {call}"
        for call, some in ranks.items()
    )


def nodes_of(logged: LoggedEvents) -> int:
    """Return the number of hosts of the run; at least 2 if a channel uses the network, 0 if unknown."""
    shapes = logged.of(NcclCommShape, NcclTestsSummary)
    node_counts = [nodes for event in shapes if (nodes := event.what.nodes) is not None]
    hosts = {
        event.host
        for event in logged.of(NcclBootstrap, NcclInitStart, NcclInitComplete, NcclNetwork, NcclTestsRank)
        if event.host
    }
    across = 2 if any(event.what.transport == "NET" for event in logged.of(NcclChannel)) else 0
    return max([*node_counts, len(hosts), across])


def environment(logged: LoggedEvents) -> dict[str, Event[NcclEnvironment]]:
    """Return the NCCL variables that are in force: by name, the first event that reports each."""
    names: dict[str, Event[NcclEnvironment]] = {}
    for event in logged.of(NcclEnvironment):
        names.setdefault(event.what.name, event)
    return names


def value_of(logged: LoggedEvents, name: str) -> str | None:
    """Return the value of a variable in force."""
    event = environment(logged).get(name)
    return None if event is None else str(event.what.value).strip()


def begins_before_meeting(logged: LoggedEvents) -> bool:
    """Return whether ranks write `Init START` before they meet the others, as NCCL does since 2.23.

    True if the version is unknown. Source: NVIDIA/nccl, src/init.cc, ncclCommInitRankFunc of 2.18 to
    2.30.
    """
    versions = [event.what.version for event in logged.of(NcclVersion)]
    return all(at_least(version, _BEGINS_FIRST) is not False for version in versions)


def completed(logged: LoggedEvents) -> bool:
    """Return whether a collective ran: the logs report results, or communicators destroyed as intended."""
    return logged.has(NcclTestsResult, NcclTestsSummary, NcclDestroyed)


def nic_rate(logged: LoggedEvents) -> float | None:
    """Return the total bytes per second of the HCAs in use, on the host that names the most HCAs.
    None if the logs, the machine's facts and the catalogue state no speed.
    """
    by_host: dict[str, dict[str, int]] = {}
    for event in logged.of(NcclHca):
        by_host.setdefault(event.host or "", {})[f"{event.what.name}:{event.what.port}"] = (
            event.what.speed_mbps
        )
    used = used_hcas(logged)
    best = max(by_host.values(), key=len, default={})
    chosen = {name: speed for name, speed in best.items() if not used or name in used}
    if chosen and not used - chosen.keys():
        return sum(chosen.values()) * 1e6 / _BITS
    if used and (rate := _rate_beside(logged, used)) is not None:
        return rate
    model = machine(logged)
    return (
        model.nic_count * model.nic_rate_gbps * 1e9 / _BITS
        if model is not None and model.nic_rate_gbps
        else None
    )


def _rate_beside(logged: LoggedEvents, used: set[str]) -> float | None:
    """Return the rate of the ports in use, from the machine's facts or else from NCCL's topology."""
    ports = {f"{event.what.name}:{event.what.port}": event.what.gbps for event in logged.of(MachinePort)}
    speeds = [ports[name] for name in used if name in ports]
    if len(speeds) == len(used):
        return sum(speeds) * 1e9 / _BITS
    of_adapters = {event.what.gbps for event in logged.of(NcclTopology) if event.what.link == "NET"}
    speed = of_adapters.pop() if len(of_adapters) == 1 else None
    return None if not speed else len(used) * speed * GB


def machine(logged: LoggedEvents) -> MachineModel | None:
    """Return the kind of machine that a plugin names; None if the run uses another number of adapters."""
    for event in logged.of(OfiPlatform):
        for model in load_catalogue().machines_sold_as(event.what.name):
            nics = [provider.what.nics for provider in logged.of(OfiProvider)]
            if set(nics) <= {model.nic_count, None}:
                return model
    return None


def gpu_id(logged: LoggedEvents) -> str | None:
    """Return the id of the GPU model: from the logs, the machine's facts, or the machine that a plugin names.

    None if none of them names a model, or if the logs or the facts name several models.
    """
    names = {event.what.name for event in logged.of(NcclTestsRank) if event.what.name}
    names = names or {event.what.name for event in logged.of(MachineGpu)}
    if len(names) != 1:
        sold = machine(logged)
        return None if names or sold is None else sold.gpu
    model = load_catalogue().gpu(next(iter(names)))
    return None if model is None else model.id


def used_hcas(logged: LoggedEvents) -> set[str]:
    """Return the HCAs of the process with the longest list."""
    most: list[str] = []
    for event in logged.of(NcclHcas):
        names = event.what.names.split(",")
        most = names if len(names) > len(most) else most
    return set(most)
