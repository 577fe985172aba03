"""Summary of a run without a fault, and the bandwidth to expect of its shape."""

from __future__ import annotations

from typing import NamedTuple

from probes.base.units import GB
from probes.compare.reference_rows import load_bench_references
from probes.logs.deducing.common import nodes_of
from probes.logs.deducing.run_hardware import gpu_id, nic_rate, used_hcas
from probes.logs.event import Event
from probes.logs.events.measurement_events import NcclTestsResult, NcclTestsSummary
from probes.logs.events.nccl_init_events import NcclCommShape, NcclInitComplete, NcclInitStart, NcclVersion
from probes.logs.events.nccl_network_events import NcclHcas, NcclNetwork, NcclSocketInterfaces, OfiProvider
from probes.logs.events.nccl_topology_events import (
    NcclChannel,
    NcclChannels,
    NcclConnected,
    NcclNvls,
    NcclRings,
    NcclTopology,
)
from probes.logs.machine_words import machine_words
from probes.logs.seen import Seen
from probes.logs.wording import begun

_MESSAGE_BYTES = 8 << 30
_PAIR = 2
"""Machines between which a tree sends each byte once and a ring twice, which bus bandwidth ignores."""


class Expectation(NamedTuple):
    """A bus bandwidth of large messages."""

    bytes_per_s: float
    words: str
    source: str


def healthy_summary(seen: Seen) -> tuple[str, tuple[str, ...]]:
    """Return a summary of a healthy run: transport, GPUDirect, NVLS and channels, and the expectation.

    Without lines of NCCL, the summary is that of diagnostics and other measurements; empty where there is
    neither.
    """
    words = "; ".join(
        part
        for part in (", ".join([*_network(seen), *_within(seen), *_channels(seen)]), _shape(seen))
        if part
    )
    if not words:
        return machine_words(seen.events), ()
    sentence = begun(words)
    expected = expectation(seen)
    if expected is None:
        return sentence, ()
    rate = _rounded(expected.bytes_per_s)
    measured = _measured(seen)
    if measured is None or measured * GB < expected.bytes_per_s:
        sentence += f"; expect {rate} GB/s"
    return sentence, (f"{expected.words}: about {rate} GB/s bus bandwidth ({expected.source})",)


def expectation(seen: Seen) -> Expectation | None:
    """Return the expected bandwidth of large messages for the measured collective, else for all-reduce.

    Empty where the hardware or the number of ranks is unknown, or no reference applies.
    """
    measured = {event.what.collective for event in seen.of(NcclTestsResult)}
    collective = "all_reduce" if not measured or "all_reduce" in measured else min(measured)
    name = collective.replace("_", "-").capitalize()
    nodes = nodes_of(seen)
    rate = nic_rate(seen)
    references = load_bench_references()
    if nodes > 1:
        row = references.across(collective, _MESSAGE_BYTES)
        if row is None or rate is None or not _with_gdr(seen):
            return None
        more = ", more where trees or NVLS carry it" if nodes == _PAIR and collective == "all_reduce" else ""
        return Expectation(
            rate * row.fraction,
            f"{name} of at least {row.bytes >> 30} GiB across {nodes} machines{more}",
            row.source,
        )
    ranks, gpu = _ranks(seen), gpu_id(seen)
    if nodes != 1 or ranks is None or gpu is None:
        return None
    version = next((event.what.version for event in seen.of(NcclVersion)), "")
    rows = references.collective_rates(gpu, collective, ranks, _MESSAGE_BYTES, version)
    best = rows.get("NVLS") if _nvls(seen) else None
    best = best or rows.get("ring") or rows.get("")
    if best is None:
        return None
    return Expectation(
        best.rates[collective],
        f"{name} of at least {best.bytes >> 20} MiB over {ranks} GPUs of one machine",
        best.source,
    )


def _network(seen: Seen) -> list[str]:
    names = list(dict.fromkeys(event.what.name for event in seen.of(NcclNetwork)))
    channels = [event.what.network or "" for event in _net_channels(seen)]
    sockets = next((event.what.names for event in seen.of(NcclSocketInterfaces)), "")
    hcas = used_hcas(seen)
    name = " and ".join(names) or next(iter(channels), "") or ("Socket" if sockets and not hcas else "")
    rails = len(hcas) or max((event.what.nics or 0 for event in seen.of(OfiProvider)), default=0)
    if not name and not hcas:
        return []
    words = name or "RDMA"
    if _with_gdr(seen):
        words += " with GPUDirect"
    elif words == "Socket":
        words += f" over {sockets.replace(',', ', ')}" if sockets else ""
    elif _net_channels(seen):
        words += " without GPUDirect"
    return [f"{words} on {rails} rails" if rails > 1 else words]


def _within(seen: Seen) -> list[str]:
    """Return the way between GPUs within a node."""
    ways = {event.what.transport for event in seen.of(NcclChannel)}
    words = []
    if seen.has(NcclNvls):
        words.append("NVLS on" if _nvls(seen) else "NVLS off")
    if any(event.what.how == "MNNVL" for event in seen.of(NcclChannel)):
        words.append("NVLink across trays")
    elif "P2P" in ways:
        words.append("GPUs peer to peer")
    elif "SHM" in ways:
        words.append("shared memory within a node")
    links = {event.what.gbps for event in seen.of(NcclTopology) if event.what.link == "NVL"}
    if links - {None}:
        words.append(f"NVLink of {max(link for link in links if link is not None):g} GB/s")
    return words


def _channels(seen: Seen) -> list[str]:
    counts = [event.what.coll for event in seen.of(NcclChannels)]
    counts = counts or [event.what.channels for event in seen.of(NcclRings)]
    return [f"{max(counts)} channels"] if counts else []


def _shape(seen: Seen) -> str:
    ranks, nodes, best = _ranks(seen), nodes_of(seen), _measured(seen)
    words = [f"{ranks} rank{'s' * (ranks > 1)}"] if ranks else []
    words += [f"{nodes} nodes"] * (nodes > 1)
    text = " on ".join(words)
    return f"{text}{', ' if text else ''}{best:g} GB/s bus bandwidth measured" if best is not None else text


def _measured(seen: Seen) -> float | None:
    """Return the best bus bandwidth of all sizes, in GB/s."""
    return max((event.what.busbw_gbps for event in seen.of(NcclTestsResult)), default=None)


def _nvls(seen: Seen) -> bool:
    available = any(event.what.available for event in seen.of(NcclNvls))
    counts = [count for event in seen.of(NcclChannels) if (count := event.what.nvls) is not None]
    return available and (not counts or max(counts) > 0)


def _net_channels(seen: Seen) -> list[Event[NcclChannel]]:
    return [event for event in seen.of(NcclChannel) if event.what.transport == "NET"]


def _with_gdr(seen: Seen) -> bool:
    if any(event.what.gdr for event in _net_channels(seen)):
        return True
    connected = [event.what.gdr for event in seen.of(NcclConnected) if event.what.gdr is not None]
    return bool(seen.has(NcclHcas) and any(connected))


def _ranks(seen: Seen) -> int | None:
    counts = [
        count
        for event in seen.of(NcclInitStart, NcclInitComplete, NcclCommShape, NcclTestsSummary)
        if (count := event.what.ranks) is not None
    ]
    return max(counts, default=None)


def _rounded(rate: float) -> str:
    return f"{rate / GB:.0f}" if rate < 100 * GB else f"{round(rate / GB / 10) * 10:d}"
