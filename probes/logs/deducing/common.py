"""Helpers that several deductions use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from probes.base.versions import at_least
from probes.logs.event import Event, reporting
from probes.logs.events.log_record import R
from probes.logs.events.measurement_events import NcclTestsRank, NcclTestsResult, NcclTestsSummary
from probes.logs.events.nccl_init_events import (
    NcclBootstrap,
    NcclCommShape,
    NcclDestroyed,
    NcclEnvironment,
    NcclInitComplete,
    NcclInitStart,
    NcclVersion,
)
from probes.logs.events.nccl_network_events import NcclNetwork
from probes.logs.events.nccl_topology_events import NcclChannel
from probes.logs.seen import Seen

_BEGINS_FIRST = "2.23"


def deduced(first: Event, record: R) -> Event[R]:
    """Return what several events report together, at the line of the first that it rests on."""
    return msgspec.structs.replace(reporting(first, record), count=1)


def named(values: Iterable[object], most: int = 8) -> str:
    """Return the first values as words, with the number of the others."""
    texts = [str(value) for value in dict.fromkeys(values)]
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def who_calls(calls: Mapping[int, str]) -> str:
    """Return the ranks of each call: "ranks 0, 1 call ALLREDUCE, rank 2 calls BROADCAST"."""
    ranks: dict[str, list[int]] = defaultdict(list)
    for rank, call in sorted(calls.items()):
        ranks[call].append(rank)
    return ", ".join(
        f"rank {some[0]} calls {call}" if len(some) == 1 else f"ranks {named(some)} call {call}"
        for call, some in ranks.items()
    )


def nodes_of(seen: Seen) -> int:
    """Return the number of hosts of the run; 0 where the logs do not report any."""
    shapes = seen.of(NcclCommShape, NcclTestsSummary)
    node_counts = [nodes for event in shapes if (nodes := event.what.nodes) is not None]
    hosts = {
        event.host
        for event in seen.of(NcclBootstrap, NcclInitStart, NcclInitComplete, NcclNetwork, NcclTestsRank)
        if event.host
    }
    across = 2 if any(event.what.transport == "NET" for event in seen.of(NcclChannel)) else 0
    return max([*node_counts, len(hosts), across])


def environment(seen: Seen) -> dict[str, Event[NcclEnvironment]]:
    """Return the variables of NCCL that are in force by name, each with the first line that reports it."""
    names: dict[str, Event[NcclEnvironment]] = {}
    for event in seen.of(NcclEnvironment):
        names.setdefault(event.what.name, event)
    return names


def value_of(seen: Seen, name: str) -> str | None:
    """Return the value of a variable in force."""
    event = environment(seen).get(name)
    return None if event is None else str(event.what.value).strip()


def begins_before_meeting(seen: Seen) -> bool:
    """Return whether ranks write `Init START` before they meet the others, as NCCL does since 2.23.

    True where the version is not known. Source: NVIDIA/nccl, src/init.cc, ncclCommInitRankFunc of 2.18 to
    2.30.
    """
    versions = [event.what.version for event in seen.of(NcclVersion)]
    return all(at_least(version, _BEGINS_FIRST) is not False for version in versions)


def completed(seen: Seen) -> bool:
    """Return whether a collective ran: there are results, or communicators that were destroyed in order."""
    return seen.has(NcclTestsResult, NcclTestsSummary, NcclDestroyed)
