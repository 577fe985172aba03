"""Find the slow host or the slow link among many hosts, with far fewer runs than pairs of hosts."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from assistant.engines.engine_table import Wanted
from assistant.usecases.bench.asked_hosts import ask_hosts, question_of, require_shared, use_by_others
from assistant.usecases.bench.bench_context import bench_context
from assistant.usecases.bench.bench_folder import work_folder
from assistant.usecases.bench.bench_gate import gate_of
from assistant.usecases.bench.bench_run import RunEnded, run_request
from assistant.usecases.bench.bench_start import job_of
from assistant.usecases.bench.bench_watch import Watch
from assistant.usecases.events import BenchFailed, Event, Progress, StageFinished, StageStarted
from assistant.usecases.measure import MeasureOptions
from probes.base.errors import UsageError, WorkerError
from probes.base.record import Record
from probes.bench import across_nodes
from probes.bench.bench_requests import BenchContext
from probes.bench.group_testing import SLOW_BELOW, Search, SearchResult
from probes.bench.pair_evidence import Group, Link
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


class LeftOut(Record, kw_only=True):
    """A host that was not measured, because others use it or the engine did not get it."""

    host: str
    reason: str


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
    """Slow hosts that chance may explain, one per group, and one group of hosts with many slow links."""
    silent_groups: tuple[Group, ...] = ()
    """Groups that gave no result, and in which no host can be identified as the cause."""
    left_out: tuple[LeftOut, ...] = ()
    reference_bytes_per_s: float = 0.0
    """Bandwidth of the fast pairs. A slow pair reaches less than `slow_below` times this bandwidth."""
    slow_below: float = SLOW_BELOW
    slow_by_chance: float = 0.0
    """Share of the runs in which a good host was slow; slow hosts that this explains are not named."""
    pairs_measured: int = 0
    """Number of different pairs that were measured; with many hosts, these are not all pairs."""
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
    def rates(self) -> dict[Link, float]:
        """The rate of each pair by sender and receiver; empty unless all were measured."""
        wanted = len(self.group) * (len(self.group) - 1)
        rates = {across_nodes.ends_of_pair(pair): pair.median for pair in self.pairs}
        return rates if len(rates) == wanted else {}


def find_bad_hosts(
    facts: MachineFacts,
    options: MeasureOptions,
    stop: Callable[[], bool] = lambda: False,
    *,
    slow_below: float = SLOW_BELOW,
    racks: Mapping[str, str] | None = None,
) -> Iterator[Event]:
    """Measure groups of `options.hosts` until the slow hosts are known.

    The last event's result is the `HostSearch`. `racks` gives the rack of each host where it is known. Hosts
    that others use are left out. Raises UsageError for fewer than two hosts or duplicates, and WorkerError if
    nothing can be measured: no torch, or a folder that hosts do not see.
    """
    started = time.monotonic()
    hosts = _different(options.hosts)
    yield StageStarted(stage="hosts", title=f"Searching for slow hosts among {len(hosts)}")
    gate = gate_of(facts, options.python)
    if gate.interpreter is None or gate.hindrance is not None:
        message = gate.hindrance.message if gate.hindrance else "no Python interpreter with torch was found"
        raise WorkerError(message, "name the interpreter that you train with: --python PATH")
    context = _context(facts, options, len(gate.interpreter.devices) or None)
    with work_folder(options.work_directory) as folder:
        silent, left_out = _not_measured(hosts, options, folder.path)
        usable = [host for host in hosts if host not in silent and host not in left_out]
        search = Search(usable, slow_below=slow_below, racks=racks)
        measure = partial(_measure, facts=facts, context=context, python=gate.interpreter.path, stop=stop)
        runs: list[_GroupRun] = []
        for run in _runs(search, measure, folder.path, stop) if len(usable) > 1 else ():
            runs.append(run)
            yield from (BenchFailed(failure=failure) for failure in run.failures)
            yield Progress(stage="hosts", message=_progress_words(run), done=len(runs))
        folder.keep = any(run.failures for run in runs)
    result = search.result if len(usable) > 1 else SearchResult()
    yield StageFinished(
        stage="hosts",
        result=_conclude(hosts, (silent, left_out), result, runs, slow_below),
        duration_s=time.monotonic() - started,
    )


class SearchPlan(NamedTuple):
    """The commands and runs of a search, as far as they are known before any host has answered."""

    question: Wanted
    """Command that each host runs first."""
    groups: tuple[Group, ...]
    """Groups of the first round, if every host answers and is free; later rounds depend on their rates."""
    most_runs: int
    """Number of runs, each of one group, after which the search ends in any case."""
    job: Wanted
    """Job over the largest of these groups."""
    budget_s: float
    """Seconds for which that group measures, after its start."""
    all_pairs: int
    """Number of runs needed to measure each pair by itself."""


def planned_search(
    facts: MachineFacts, options: MeasureOptions, *, racks: Mapping[str, str] | None = None
) -> SearchPlan:
    """Return what `find_bad_hosts` would start; no host is asked. Raises UsageError."""
    hosts = _different(options.hosts)
    folder = Path(options.work_directory or "FOLDER")
    search = Search(hosts, racks=racks)
    groups = search.next_groups()
    largest = max(groups, key=len)
    request = across_nodes.pairs_request(_context(facts, options), largest)
    return SearchPlan(
        question=question_of(hosts, folder),
        groups=groups,
        most_runs=search.most_runs,
        job=job_of(request, _folder_of(groups.index(largest) + 1, folder)),
        budget_s=request.budget_s,
        all_pairs=math.comb(len(hosts), 2),
    )


def _different(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hosts. Raises UsageError for fewer than two, and for duplicates."""
    if len(hosts) < 2 or len(set(hosts)) != len(hosts):
        raise UsageError(
            "fewer than two hosts are named"
            if len(hosts) < 2
            else f"{len(hosts)} hosts are named, but only {len(set(hosts))} of them are different",
            "name at least two hosts, each only once: --hosts a,b,c",
        )
    return hosts


def _context(facts: MachineFacts, options: MeasureOptions, visible_gpus: int | None = None) -> BenchContext:
    return msgspec.structs.replace(
        bench_context(facts, ranks_per_node=options.ranks_per_node, visible_gpus=visible_gpus),
        hosts=options.hosts,
        spread_by=options.spread_by,
    )


def _not_measured(
    hosts: tuple[str, ...], options: MeasureOptions, directory: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hosts that do not answer and the hosts that are left out, with the reason for each.

    Raises WorkerError if a host answers but does not see the folder.
    """
    answers = ask_hosts(hosts, options.spread_by, directory)
    silent = {
        host: answer.detail or answer.outcome
        for host, answer in answers.items()
        if answer.outcome not in ("ok", "not-started")
    }
    usable = {host: answer for host, answer in answers.items() if host not in silent}
    require_shared(usable, options.spread_by, directory)
    reasons = {host: use_by_others(answer, force=options.force) for host, answer in usable.items()}
    return silent, {host: why for host, why in reasons.items() if why}


def _runs(
    search: Search, measure: Callable[[Group, Path], _GroupRun], directory: Path, stop: Callable[[], bool]
) -> Iterator[_GroupRun]:
    """Yield every run of the search when it ends; groups without common hosts run at the same time."""
    number = 0
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while not stop() and (groups := search.next_groups()):
            folders = [_folder_of(number + place, directory) for place in range(1, len(groups) + 1)]
            number += len(groups)
            for run in pool.map(measure, groups, folders):
                if not stop():  # a stopped group has no result
                    search.record(run.group, run.rates)
                    yield run


def _folder_of(number: int, directory: Path) -> Path:
    """Return the folder of a group; the groups are counted from 1."""
    return directory / f"group{number}"


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
    not_measured: tuple[dict[str, str], dict[str, str]],
    searched: SearchResult | None,
    runs: list[_GroupRun],
    slow_below: float,
) -> HostSearch:
    silent, left_out = not_measured
    result = searched or SearchResult(runs=len(runs))
    rates = _best_rates(runs)
    limit = slow_below * result.reference
    bad = {*silent, *left_out, *result.bad_hosts, *result.silent_hosts}
    good = [host for host in hosts if host not in bad]
    return HostSearch(
        hosts=hosts,
        bad_hosts=(
            *(HostFault(host=host, kind="unreachable", message=why) for host, why in silent.items()),
            *(
                HostFault(host=host, kind="no answer", message="no group with this host gave a result")
                for host in result.silent_hosts
            ),
            *(_fault(host, good, rates, limit) for host in result.bad_hosts),
        ),
        bad_links=tuple(
            LinkFault(first=first, second=second, rates=_slow(rates, limit, {first}, {second}))
            for first, second in result.bad_links
        ),
        unresolved=result.unresolved,
        silent_groups=result.silent_groups,
        left_out=tuple(LeftOut(host=host, reason=why) for host, why in left_out.items()),
        reference_bytes_per_s=result.reference,
        slow_below=slow_below,
        slow_by_chance=result.slow_by_chance,
        pairs_measured=result.pairs_measured,
        runs=result.runs,
        rounds=result.rounds,
        all_pairs=math.comb(len(hosts), 2),
        complete=searched is not None,
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
