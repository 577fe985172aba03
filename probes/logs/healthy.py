"""Summary of a run without a fault, and the bandwidth to expect for its hardware and number of ranks."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from probes.base.units import GB, KIB, MIB, plural
from probes.compare.reference_rows import load_bench_references
from probes.logs.bench_facts import BenchFacts
from probes.logs.deducing.common import gpu_id, nic_rate, nodes_of, used_hcas
from probes.logs.event import Event
from probes.logs.events.measurement_events import NcclTestsResult, NcclTestsSummary
from probes.logs.events.nccl_events import (
    NcclChannel,
    NcclChannels,
    NcclCommShape,
    NcclConnected,
    NcclInitComplete,
    NcclInitStart,
    NcclNvls,
    NcclRings,
    NcclTopology,
    NcclVersion,
)
from probes.logs.events.nccl_network_events import NcclHcas, NcclNetwork, NcclSocketInterfaces, OfiProvider
from probes.logs.events.process_events import ProgramFinished, TrainingCourse
from probes.logs.logged_events import LoggedEvents
from probes.logs.machine_facts import MachineFacts
from probes.logs.wording import begun

_MESSAGE_BYTES = 8 << 30
_PAIR = 2
"""Number of machines with which a tree sends each byte once but a ring twice.

The formula of bus bandwidth assumes the ring, so a tree may exceed the expected bus bandwidth.
"""
_MOST_TESTS = 4
_UNITS = {"gigabytes_per_s": "GB/s", "gigabits_per_s": "Gbit/s", "us": "us"}
"""Unit of a measured value, by the name of the value in a row of `BenchFacts`."""


class Expectation(NamedTuple):
    """The bus bandwidth to expect for large messages."""

    bytes_per_s: float
    words: str
    source: str


def healthy_summary(logged: LoggedEvents) -> tuple[str, tuple[str, ...]]:
    """Return a summary of a healthy run (transport, GPUDirect, NVLS, channels), and the expected performance.

    Without lines of NCCL, the summary describes training steps, diagnostics and other measurements; it is
    empty if the logs contain none of these.
    """
    words = "; ".join(
        part
        for part in (", ".join([*_network(logged), *_within(logged), *_channels(logged)]), _shape(logged))
        if part
    )
    course = _course(logged)
    if not words:
        return "; ".join(filter(None, (course, machine_words(logged.events)))), ()
    sentence = f"{course}; {words}" if course else begun(words)
    expected = expectation(logged)
    if expected is None:
        return sentence, ()
    rate = _rounded(expected.bytes_per_s)
    measured = _measured(logged)
    if measured is None or measured * GB < expected.bytes_per_s:
        sentence += f"; expect {rate} GB/s"
    return sentence, (f"{expected.words}: about {rate} GB/s bus bandwidth ({expected.source})",)


def ends_midway(logged: LoggedEvents) -> bool:
    """Return whether a training reports steps, and no line reports its end."""
    courses = logged.of(TrainingCourse)
    return bool(courses) and not (logged.has(ProgramFinished) or any(each.what.finished for each in courses))


def _course(logged: LoggedEvents) -> str:
    """Return a sentence about how far the training came; empty if no line reports a step."""
    courses = [event.what for event in logged.of(TrainingCourse)]
    if not courses:
        return ""
    last = max(courses, key=lambda course: course.step)
    of_all = f" of {last.steps}" if last.steps else ""
    if ends_midway(logged):
        return f"It ran to step {last.step}{of_all}, then the log ends"
    return f"The training finished after step {last.step}{of_all}"


def expectation(logged: LoggedEvents) -> Expectation | None:
    """Return the expected bandwidth of large messages for all-reduce.

    If the logs only contain measurements of other collectives, the alphabetically first of these is used
    instead. None if the hardware or the number of ranks is unknown, if no reference applies, or if the run
    between machines does not use GPUDirect.
    """
    measured = {event.what.collective for event in logged.of(NcclTestsResult)}
    collective = "all_reduce" if not measured or "all_reduce" in measured else min(measured)
    name = collective.replace("_", "-").capitalize()
    nodes = nodes_of(logged)
    rate = nic_rate(logged)
    references = load_bench_references()
    if nodes > 1:
        row = references.across(collective, _MESSAGE_BYTES)
        if row is None or rate is None or not _with_gdr(logged):
            return None
        more = ", or more by trees or NVLS" if nodes == _PAIR and collective == "all_reduce" else ""
        return Expectation(
            rate * row.fraction,
            f"{name} of at least {row.bytes >> 30} GiB across {nodes} machines{more}",
            row.source,
        )
    ranks, gpu = _ranks(logged), gpu_id(logged)
    if nodes != 1 or ranks is None or gpu is None:
        return None
    version = next((event.what.version for event in logged.of(NcclVersion)), "")
    rows = references.collective_rates(gpu, collective, ranks, _MESSAGE_BYTES, version)
    best = rows.get("NVLS") if _nvls(logged) else None
    best = best or rows.get("ring") or rows.get("")
    if best is None:
        return None
    return Expectation(
        best.rates[collective],
        f"{name} of at least {best.bytes >> 20} MiB over {plural(ranks, 'GPU')} of one machine",
        best.source,
    )


def _network(logged: LoggedEvents) -> list[str]:
    names = list(dict.fromkeys(event.what.name for event in logged.of(NcclNetwork)))
    channels = [event.what.network or "" for event in _net_channels(logged)]
    sockets = next((event.what.names for event in logged.of(NcclSocketInterfaces)), "")
    hcas = used_hcas(logged)
    name = " and ".join(names) or next(iter(channels), "") or ("Socket" if sockets and not hcas else "")
    rails = len(hcas) or max((event.what.nics or 0 for event in logged.of(OfiProvider)), default=0)
    if not name and not hcas:
        return []
    words = name or "RDMA"
    if _with_gdr(logged):
        words += " with GPUDirect"
    elif words == "Socket":
        words += f" over {sockets.replace(',', ', ')}" if sockets else ""
    elif _net_channels(logged):
        words += " without GPUDirect"
    return [f"{words} on {rails} rails" if rails > 1 else words]


def _within(logged: LoggedEvents) -> list[str]:
    """Return phrases about how the GPUs of a node reach each other."""
    ways = {event.what.transport for event in logged.of(NcclChannel)}
    words = []
    if logged.has(NcclNvls):
        words.append("NVLS on" if _nvls(logged) else "NVLS off")
    if any(event.what.how == "MNNVL" for event in logged.of(NcclChannel)):
        words.append("NVLink across trays")
    elif "P2P" in ways:
        words.append("GPUs peer to peer")
    elif "SHM" in ways:
        words.append("shared memory within a node")
    links = {event.what.gbps for event in logged.of(NcclTopology) if event.what.link == "NVL"}
    if links - {None}:
        words.append(f"NVLink of {max(link for link in links if link is not None):g} GB/s")
    return words


def _channels(logged: LoggedEvents) -> list[str]:
    counts = [event.what.coll for event in logged.of(NcclChannels)]
    counts = counts or [event.what.channels for event in logged.of(NcclRings)]
    return [plural(max(counts), "channel")] if counts else []


def _shape(logged: LoggedEvents) -> str:
    ranks, nodes, best = _ranks(logged), nodes_of(logged), _measured(logged)
    words = [f"{ranks} rank{'s' * (ranks > 1)}"] if ranks else []
    words += [f"{nodes} nodes"] * (nodes > 1)
    text = " on ".join(words)
    return f"{text}{', ' if text else ''}{best:g} GB/s bus bandwidth measured" if best is not None else text


def _measured(logged: LoggedEvents) -> float | None:
    """Return the highest bus bandwidth over all sizes, in GB/s."""
    return max((event.what.busbw_gbps for event in logged.of(NcclTestsResult)), default=None)


def _nvls(logged: LoggedEvents) -> bool:
    available = any(event.what.available for event in logged.of(NcclNvls))
    counts = [count for event in logged.of(NcclChannels) if (count := event.what.nvls) is not None]
    return available and (not counts or max(counts) > 0)


def _net_channels(logged: LoggedEvents) -> list[Event[NcclChannel]]:
    return [event for event in logged.of(NcclChannel) if event.what.transport == "NET"]


def _with_gdr(logged: LoggedEvents) -> bool:
    if any(event.what.gdr for event in _net_channels(logged)):
        return True
    connected = [event.what.gdr for event in logged.of(NcclConnected) if event.what.gdr is not None]
    return bool(logged.has(NcclHcas) and any(connected))


def _ranks(logged: LoggedEvents) -> int | None:
    counts = [
        count
        for event in logged.of(NcclInitStart, NcclInitComplete, NcclCommShape, NcclTestsSummary)
        if (count := event.what.ranks) is not None
    ]
    return max(counts, default=None)


def _rounded(rate: float) -> str:
    return f"{rate / GB:.0f}" if rate < 100 * GB else f"{round(rate / GB / 10) * 10:d}"


def machine_words(events: list[Event]) -> str:
    """Return a sentence about the machine's state and its speed; empty if no line reports either of them."""
    machine, measured = MachineFacts(), BenchFacts()
    for event in events:
        machine.add(event)
        measured.add(event)
    facts: Mapping[str, Any] = machine.as_dict()
    parts = [
        *_nvlinks(facts),
        *_tests(facts),
        *_measured_words(measured.as_dict().get("measured")),
        *_versions(facts),
    ]
    return "; ".join(parts)


def _nvlinks(facts: Mapping[str, Any]) -> list[str]:
    parts = []
    for group in facts.get("nvlinks", ()):
        rate = group.get("gigabytes_per_s_each")
        others = [
            f"{group[state]} {state}"
            for state in ("down", "disabled")
            if group.get("up") and group.get(state)
        ]
        parts.append(
            ", ".join(
                [
                    f"{_gpus(group['gpus'], group.get('gpu', ''))} with "
                    f"{plural(group['up'], 'NVLink') if group.get('up') else 'no NVLinks'} up",
                    *others,
                ]
                + ([f"{rate:g} GB/s each"] if rate else [])
            )
        )
    parts += [
        f"{_gpus(count, name)} with unknown NVLinks"
        for name, count in facts.get("nvlinks_missing", {}).items()
    ]
    if facts.get("nvlink_errors") == 0:
        parts.append("No NVLink errors are counted")
    return parts


def _tests(facts: Mapping[str, Any]) -> list[str]:
    parts = []
    if (dcgm := facts.get("dcgm")) is not None:
        version, gpus = facts.get("dcgm_version", ""), facts.get("dcgm_gpus", 0)
        others = [
            f"{dcgm[name]} {word}"
            for name, word in (("warned", "with warnings"), ("skipped", "skipped"))
            if dcgm.get(name)
        ]
        tool = f"dcgmi diag {version}".rstrip()
        words = f"Passed by {tool}: {plural(dcgm.get('passed', 0), 'result')}"
        words += f" of {plural(gpus, 'GPU')}" if gpus else ""
        parts.append(", ".join([words, *others]))
    if burnt := facts.get("gpu_burn", {}).get("tested"):
        parts.append(f"Passed by gpu-burn: {plural(burnt, 'GPU')}")
    if passed := facts.get("health_checks", {}).get("passed"):
        parts.append(f"{plural(passed, 'health check')} passed")
    if complaints := facts.get("nvbandwidth_complaints"):
        parts.append(f"Complaints of nvbandwidth: {str(complaints[0])[:80]}")
    return parts


def _measured_words(tests: Any) -> list[str]:
    parts = []
    for test, row in (tests or {}).items():
        unit = next(unit for unit in _UNITS if unit in row)
        words = f"{test} {row[unit]:.4g} {_UNITS[unit]}"
        if "fastest" in row:
            words += f" ({row['slowest']:.4g} to {row['fastest']:.4g})"
        words += f", at most {row['peak']:.4g}" if "peak" in row else ""
        parts.append(words + (f" at {_size(row['at_bytes'])}" if row.get("at_bytes") else ""))
    more = len(parts) - _MOST_TESTS
    parts = [*parts[:_MOST_TESTS], *([plural(more, "more test")] if more > 0 else [])]
    return [f"Measured: {', '.join(parts)}"] if parts else []


def _versions(facts: Mapping[str, Any]) -> list[str]:
    parts = [f"Driver {facts['driver']}"] if "driver" in facts else []
    parts += [f"Fabric Manager {facts['fabric_manager']}"] if "fabric_manager" in facts else []
    if (fabric := facts.get("fabric")) is not None:
        switches, gpus = fabric.get("switches", 0), fabric.get("gpus", 0)
        parts.append(f"{plural(switches, 'NVSwitch')} and {plural(gpus, 'GPU')} in its fabric")
    if (teams := facts.get("multicast_teams", {}).get("set_up")) is not None:
        parts.append(f"Set up: {plural(teams, 'multicast team')}")
    firmware = facts.get("nic_firmware", {})
    return [*parts, *([f"Network cards of firmware {', '.join(list(firmware)[:3])}"] if firmware else [])]


def _gpus(count: int, name: str) -> str:
    return f"{plural(count, 'GPU')}{f' ({name})' if name else ''}"


def _size(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} bytes"
