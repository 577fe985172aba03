"""Deductions about how far a run came: its last lines, and ranks that no log covers."""

import itertools
from collections.abc import Iterator

from probes.base.grouping import number_ranges
from probes.logs.cause_rows import load_causes
from probes.logs.deducing.common import begins_before_meeting, completed, deduced
from probes.logs.event import Event, carries
from probes.logs.events.cuda_events import TorchOom
from probes.logs.events.deduced_course_events import (
    DeducedEndsAfterInit,
    DeducedKilledFirst,
    DeducedRanksUnnamed,
    DeducedSilenceAfterInit,
    DeducedStopsAtP2p,
    DeducedWaitsAtStart,
    DeducedWaitsForRanks,
)
from probes.logs.events.kernel_log_events import KernelOomKill, KernelXid
from probes.logs.events.log_record import kind_of
from probes.logs.events.nccl_events import (
    NcclBootstrap,
    NcclChannel,
    NcclChannels,
    NcclCommShape,
    NcclConnected,
    NcclDriver,
    NcclEnvironment,
    NcclInitComplete,
    NcclInitStart,
    NcclNvls,
    NcclRas,
    NcclTopology,
    NcclTrees,
    NcclVersion,
)
from probes.logs.events.nccl_network_events import (
    NcclDmaBuf,
    NcclHca,
    NcclHcas,
    NcclNetwork,
    NcclNoIb,
    NcclPluginLoaded,
    NcclPluginMissing,
    NcclSocketInterfaces,
)
from probes.logs.events.process_events import (
    ProcessInterrupted,
    ProgramFinished,
    SlurmKilled,
    SlurmOom,
    SlurmStepAborted,
    SlurmStepTerminating,
    SlurmTaskExit,
    SlurmTaskKilled,
)
from probes.logs.events.torch_events import TorchAgentSignal, TorchException
from probes.logs.logged_events import LoggedEvents

_MOST_RANKS = 4096
_MOST_NAMED = 8
_FEW_UNREAD_LINES = 8
"""Maximum number of unknown lines after the last line that a reader knows."""
_BEFORE = (
    NcclInitStart,
    NcclBootstrap,
    NcclVersion,
    NcclDriver,
    NcclEnvironment,
    NcclPluginMissing,
    NcclPluginLoaded,
    NcclNetwork,
    NcclHcas,
    NcclHca,
    NcclSocketInterfaces,
    NcclNoIb,
    NcclDmaBuf,
    NcclRas,
)
"""Records that NCCL writes before ranks wait for each other."""
_END_OF_INIT = (NcclInitComplete, NcclConnected)
_SILENCE_S = 300.0
_STOPS = (SlurmKilled, TorchAgentSignal, ProcessInterrupted)
_KINDS_OF_STOPS = frozenset(kind_of(record) for record in _STOPS)
"""Kinds of events in which a scheduler or a person ended the program."""
_SIGKILL = 9
_ENDS_OF_OTHERS = (SlurmTaskExit, SlurmStepTerminating, SlurmStepAborted, SlurmKilled, TorchException)
_FEW_LINES = 8
"""Maximum number of lines, such as comments and the head of a table, that do not count as progress."""


def unnamed_ranks(logged: LoggedEvents) -> Iterator[Event[DeducedRanksUnnamed]]:
    """Yield ranks of the largest communicator that no line names: they never began or have no log."""
    starts = logged.of(NcclInitStart, NcclInitComplete, NcclCommShape)
    if not starts:
        return
    first = max(starts, key=lambda event: event.what.ranks)
    ranks = first.what.ranks
    if ranks > _MOST_RANKS or any(event.count > 1 for event in starts):
        return
    known = {event.what.rank for event in starts if event.what.ranks == ranks}
    known |= {event.rank for event in logged.events if event.rank is not None}
    absent = [rank for rank in range(ranks) if rank not in known]
    if absent:
        yield deduced(
            first,
            DeducedRanksUnnamed(
                have=ranks - len(absent), ranks=ranks, names=number_ranges(absent, _MOST_NAMED)
            ),
        )


def waits_at_start(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a run whose ranks begin the initialisation and then write nothing: they wait for other ranks."""
    starts = [event for event in logged.of(NcclInitStart) if "Init START" in event.text]
    ranks = max((event.what.ranks for event in starts), default=0)
    nccl_events = [event for event in logged.events if event.kind.startswith("nccl.")]
    if (
        ranks < 2
        or not all(carries(event, *_BEFORE) for event in nccl_events)
        or logged.has(*load_causes().failures)
    ):
        return
    for source in {event.source for event in starts}:
        last = max(event.number for event in logged.events if event.source == source)
        if logged.last_lines.get(source, last) - last > _FEW_UNREAD_LINES:
            return
    absent = next(unnamed_ranks(logged), None)
    if absent is None:
        yield deduced(starts[0], DeducedWaitsAtStart(ranks=ranks))
    elif begins_before_meeting(logged) and 2 * absent.what.have > ranks:  # else logs are missing
        yield deduced(starts[0], DeducedWaitsForRanks(names=absent.what.names, ranks=ranks))


def ends_after_init(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a log that ends after the initialisation, or a job that was ended from outside much later.

    Yield nothing if the logs report a failure. If NCCL only connected its rings and never reported the end of
    the initialisation, `stage` is `during`.
    """
    ends = _ends(logged)
    failures = [kind for kind in load_causes().failures if kind not in _KINDS_OF_STOPS]
    if not ends or completed(logged) or logged.has(*failures, KernelXid, TorchOom, SlurmOom, KernelOomKill):
        return
    ranks = max((event.what.ranks for event in ends if carries(event, NcclInitComplete)), default=0)
    done = {event.what.rank for event in logged.of(NcclInitComplete)}
    complete, of_ranks = (len(done), ranks) if ranks and done else (None, None)
    stage = None if logged.has(NcclInitComplete) else "during"
    last = logged.in_order(ends)[-1]
    later = logged.of(NcclChannel, NcclInitStart, NcclChannels, NcclTrees)
    if (
        logged.last_lines.get(last.source, 0) > last.number
        or logged.has(ProgramFinished)
        or any(event.source == last.source and event.number > last.number for event in later)
    ):
        return
    stops = logged.of(*_STOPS)
    for stop in stops:
        late = stop.time_s is not None and last.time_s is not None and stop.time_s - last.time_s >= _SILENCE_S
        if late or (carries(stop, SlurmKilled) and stop.what.reason == "time limit"):
            why = "the job was ended from outside, and no line was written in between"
            yield deduced(
                last, DeducedSilenceAfterInit(why=why, complete=complete, ranks=of_ranks, stage=stage)
            )
            return
    if not stops:
        why = "no line follows the initialisation"
        yield deduced(last, DeducedEndsAfterInit(why=why, complete=complete, ranks=of_ranks, stage=stage))


def _ends(logged: LoggedEvents) -> list[Event]:
    """Return the events that end initialisations.

    A connected ring also counts, because newer versions of NCCL connect rings only at the first collective.
    """
    return [
        *logged.of(NcclInitComplete),
        *(event for event in logged.of(NcclConnected) if event.what.what == "rings"),
    ]


def stops_at_p2p(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a log without NVLink that ends while channels connect, at least one of them peer-to-peer.

    No ring or tree is connected yet.
    """
    channels = [event for event in logged.of(NcclChannel) if event.what.transport == "P2P"]
    if not channels or any(_over_nvlink(event) for event in logged.of(NcclChannel, NcclTopology)):
        return
    if completed(logged) or logged.has(*_END_OF_INIT, NcclNvls) or logged.has(*load_causes().failures):
        return
    last = max(
        (event for event in logged.events),
        key=lambda event: (event.source == channels[-1].source, event.number),
    )
    if carries(last, NcclChannel) and not _goes_on(logged, last):
        yield deduced(
            channels[-1],
            DeducedStopsAtP2p(
                why=(
                    "the log stops while GPUs connect peer-to-peer, as with ACS or a driver on which "
                    "peer-to-peer does not work"
                ),
            ),
        )


def _over_nvlink(event: Event[NcclChannel | NcclTopology]) -> bool:
    """Return whether a link or channel is NVLink: only there, NCCL reads directly (`P2P/CUMEM/read`)."""
    match event.what:
        case NcclTopology(link="NVL"):
            return True
        case NcclChannel(transport="P2P"):
            return "/read" in event.text
    return False


def _goes_on(logged: LoggedEvents, last: Event) -> bool:
    """Return whether many unknown lines follow `last`, as in a training run that continues."""
    numbers = sorted(
        {
            event.number
            for event in logged.events
            if event.source == last.source and event.number >= last.number
        }
    )
    end = logged.last_lines.get(last.source)
    if end is not None:
        if end - last.number <= _FEW_LINES:
            return False
        numbers.append(end + 1)
    return any(after - before - 1 > _FEW_LINES for before, after in itertools.pairwise(numbers))


def killed_first(logged: LoggedEvents) -> Iterator[Event]:
    """Yield a task of Slurm that was killed before its log reports any other end or exception."""
    for event in logged.of(SlurmTaskKilled):
        if event.what.signal == _SIGKILL and not any(
            other.source == event.source and other.number < event.number
            for other in logged.of(*_ENDS_OF_OTHERS)
        ):
            task = event.what
            yield deduced(
                event,
                DeducedKilledFirst(node=task.node, tasks=task.tasks, reason=task.reason, signal=task.signal),
            )
            return


DEDUCTIONS = (unnamed_ranks, waits_at_start, ends_after_init, stops_at_p2p, killed_first)
