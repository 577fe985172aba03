"""Find the slow host or the slow link among many hosts, with far fewer runs than pairs of hosts."""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from assistant.usecases.bench.bench_context import bench_context
from assistant.usecases.bench.bench_folder import work_folder
from assistant.usecases.bench.bench_gate import gate_of
from assistant.usecases.bench.bench_run import RunEnded, run_request
from assistant.usecases.bench.bench_start import REMEDY, unseen_by
from assistant.usecases.bench.bench_watch import Watch
from assistant.usecases.events import BenchFailed, Event, Progress, StageFinished, StageStarted
from assistant.usecases.measure import MeasureOptions
from probes.base.errors import UsageError, WorkerError
from probes.base.record import Record
from probes.bench import across_nodes
from probes.bench.bench_requests import BenchContext
from probes.bench.group_testing import SLOW_BELOW, Group, Search, SearchResult
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, Measurement

_AT_ONCE = 16
"""Number of groups that are measured at the same time; each needs one local process per host."""

_MUCH = 2.0
"""Ratio of the two directions of a host above which they differ by more than noise."""


class Rate(Record, kw_only=True):
    """The best bandwidth of one direction of a link over all runs."""

    sender: str
    receiver: str
    bytes_per_s: float


class HostFault(Record, kw_only=True):
    """A host that should be removed from the job."""

    host: str
    kind: Literal["unreachable", "slow", "no answer"]
    """`no answer` means that no group with this host gave a result."""
    slow_direction: Literal["sends", "receives", "both", ""] = ""
    links: tuple[Rate, ...] = ()
    """Slow links to good hosts, slowest first."""
    message: str = ""
    """The reason why the host could not be reached."""


class LinkFault(Record, kw_only=True):
    """A link that is slow although both of its hosts are fast on links to other hosts."""

    first: str
    second: str
    rates: tuple[Rate, ...]


class HostSearch(Record, kw_only=True):
    """The bad hosts and links, with the evidence."""

    schema_version: int = 1
    hosts: tuple[str, ...]
    bad_hosts: tuple[HostFault, ...] = ()
    bad_links: tuple[LinkFault, ...] = ()
    unresolved: tuple[Group, ...] = ()
    """Slow groups in which no host and no link can be identified as the cause."""
    reference_bytes_per_s: float = 0.0
    """Bandwidth of the best pair. A slow pair reaches less than `slow_below` times this bandwidth."""
    slow_below: float = SLOW_BELOW
    runs: int = 0
    rounds: int = 0
    all_pairs: int = 0
    """Number of runs needed to measure each pair by itself."""
    complete: bool = True
    """False if the search was stopped."""
    measurements: tuple[Measurement, ...] = ()
    failures: tuple[BenchFailure, ...] = ()


class _GroupRun(Record, kw_only=True):
    group: Group
    pairs: tuple[Measurement, ...]
    failures: tuple[BenchFailure, ...]

    @property
    def rates(self) -> tuple[float, ...]:
        """The rates of all pairs; empty unless all were measured."""
        wanted = len(self.group) * (len(self.group) - 1)
        return tuple(pair.median for pair in self.pairs) if len(self.pairs) == wanted else ()


def find_bad_hosts(
    facts: MachineFacts,
    options: MeasureOptions,
    stop: Callable[[], bool] = lambda: False,
    *,
    expected_bytes_per_s: float = 0.0,
    slow_below: float = SLOW_BELOW,
) -> Iterator[Event]:
    """Measure groups of `options.hosts` until the slow hosts are known.

    The last event's result is the `HostSearch`. `expected_bytes_per_s` is the bandwidth of a pair of good
    hosts; if it is 0, the hosts are compared only with each other. Raises UsageError for fewer than two hosts
    or duplicates, and WorkerError if nothing can be measured: no torch, or a folder that hosts do not see.
    """
    started = time.monotonic()
    hosts = options.hosts
    if len(hosts) < 2 or len(set(hosts)) != len(hosts):
        raise UsageError(
            "fewer than two hosts are named"
            if len(hosts) < 2
            else f"{len(hosts)} hosts are named, but only {len(set(hosts))} of them are different",
            "name at least two hosts, each only once: --hosts a,b,c",
        )
    yield StageStarted(stage="hosts", title=f"Searching for slow hosts among {len(hosts)}")
    gate = gate_of(facts, options.python)
    if gate.interpreter is None or gate.hindrance is not None:
        message = gate.hindrance.message if gate.hindrance else "no Python interpreter with torch was found"
        raise WorkerError(message, "name the interpreter that you train with: --python PATH")
    context = msgspec.structs.replace(
        bench_context(
            facts, ranks_per_node=options.ranks_per_node, visible_gpus=len(gate.interpreter.devices) or None
        ),
        hosts=hosts,
        spread_by=options.spread_by,
    )
    with work_folder(options.work_directory) as folder:
        silent = _unreachable(hosts, options, folder.path)
        search = Search(
            [host for host in hosts if host not in silent],
            expected=expected_bytes_per_s,
            slow_below=slow_below,
        )
        measure = partial(_measure, facts=facts, context=context, python=gate.interpreter.path, stop=stop)
        runs: list[_GroupRun] = []
        for run in _runs(search, measure, folder.path, stop) if len(hosts) - len(silent) > 1 else ():
            runs.append(run)
            yield from (BenchFailed(failure=failure) for failure in run.failures)
            yield Progress(stage="hosts", message=_progress_words(run), done=len(runs))
        folder.keep = any(run.failures for run in runs)
    yield StageFinished(
        stage="hosts",
        result=_conclude(hosts, silent, search.result, runs, slow_below),
        duration_s=time.monotonic() - started,
    )


def _unreachable(hosts: tuple[str, ...], options: MeasureOptions, directory: Path) -> dict[str, str]:
    """Return the hosts that do not answer, with the reason for each.

    Raises WorkerError if a host answers but does not see the folder.
    """
    unseen = unseen_by(hosts, options.spread_by, directory)
    blind = [host for host, why in unseen.items() if not why]
    if blind:
        raise WorkerError(f"{', '.join(blind)} cannot see the folder {directory}", REMEDY)
    return unseen


def _runs(
    search: Search, measure: Callable[[Group, Path], _GroupRun], directory: Path, stop: Callable[[], bool]
) -> Iterator[_GroupRun]:
    """Yield every run of the search when it ends; groups without common hosts run at the same time."""
    number = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while not stop() and (groups := search.next_groups()):
            folders = [directory / f"group{number + place + 1}" for place in range(len(groups))]
            number += len(groups)
            for run in pool.map(measure, groups, folders):
                if not stop():  # a stopped group has no result
                    search.record(run.group, min(run.rates, default=0.0), best=max(run.rates, default=0.0))
                    yield run


def _measure(
    group: Group,
    directory: Path,
    *,
    facts: MachineFacts,
    context: BenchContext,
    python: str,
    stop: Callable[[], bool],
) -> _GroupRun:
    request = across_nodes.pairs_request(context, group)
    events = run_request(request, across_nodes, python, directory, stop=stop, watch=Watch(facts))
    (ended,) = (event for event in events if isinstance(event, RunEnded))
    pairs = tuple(each for each in ended.measurements if each.metric == across_nodes.PAIR_METRIC)
    return _GroupRun(group=group, pairs=pairs, failures=ended.failures)


def _progress_words(run: _GroupRun) -> str:
    names = ", ".join(run.group[:4]) + (", ..." if len(run.group) > 4 else "")
    if not run.rates:
        return f"{names}: no result"
    slowest = min(run.pairs, key=lambda pair: pair.median)
    return f"{names}: at least {slowest.median / 1e9:.3g} GB/s ({slowest.subject})"


def _conclude(
    hosts: tuple[str, ...],
    silent: dict[str, str],
    searched: SearchResult | None,
    runs: list[_GroupRun],
    slow_below: float,
) -> HostSearch:
    result = searched or SearchResult(runs=len(runs))
    rates = _best_rates(runs)
    limit = slow_below * result.reference
    good = [host for host in hosts if host not in silent and host not in result.bad_hosts]
    return HostSearch(
        hosts=hosts,
        bad_hosts=(
            *(HostFault(host=host, kind="unreachable", message=why) for host, why in silent.items()),
            *(_fault(host, good, rates, limit) for host in result.bad_hosts),
        ),
        bad_links=tuple(
            LinkFault(first=first, second=second, rates=_slow(rates, limit, {first}, {second}))
            for first, second in result.bad_links
        ),
        unresolved=result.unresolved,
        reference_bytes_per_s=result.reference,
        slow_below=slow_below,
        runs=result.runs,
        rounds=result.rounds,
        all_pairs=math.comb(len(hosts), 2),
        complete=searched is not None or len(hosts) - len(silent) < 2,
        measurements=tuple(pair for run in runs for pair in run.pairs),
        failures=tuple(failure for run in runs for failure in run.failures),
    )


def _best_rates(runs: list[_GroupRun]) -> dict[tuple[str, str], float]:
    """Return the best bandwidth of each direction of each pair; the best is used because single runs vary."""
    best: dict[tuple[str, str], float] = {}
    for run in runs:
        for pair in run.pairs:
            ends = across_nodes.ends_of_pair(pair)
            best[ends] = max(best.get(ends, 0.0), pair.median)
    return best


def _slow(
    rates: dict[tuple[str, str], float], limit: float, hosts: set[str], others: set[str]
) -> tuple[Rate, ...]:
    slow = [
        Rate(sender=sender, receiver=receiver, bytes_per_s=rate)
        for (sender, receiver), rate in rates.items()
        if rate < limit
        and ((sender in hosts and receiver in others) or (receiver in hosts and sender in others))
    ]
    return tuple(sorted(slow, key=lambda rate: rate.bytes_per_s))


def _fault(host: str, good: list[str], rates: dict[tuple[str, str], float], limit: float) -> HostFault:
    links = _slow(rates, limit, {host}, set(good))
    if not links:
        return HostFault(host=host, kind="no answer", message="no group with this host gave a result")
    sent = [rate for (sender, receiver), rate in rates.items() if sender == host and receiver in good]
    received = [rate for (sender, receiver), rate in rates.items() if receiver == host and sender in good]
    return HostFault(host=host, kind="slow", slow_direction=_direction(sent, received), links=links)


def _direction(sent: list[float], received: list[float]) -> Literal["sends", "receives", "both"]:
    """Return the direction that is at least `_MUCH` times slower, or both.

    A slow direction also delays the acknowledgements of the other direction, so that both appear slow.
    """
    if not sent or not received:
        return "both"
    sent_rate, received_rate = statistics.median(sent), statistics.median(received)
    if sent_rate * _MUCH < received_rate:
        return "sends"
    return "receives" if received_rate * _MUCH < sent_rate else "both"
