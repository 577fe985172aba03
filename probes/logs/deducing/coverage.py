"""Deductions about ranks that no log covers, and whether the others wait for them."""

from __future__ import annotations

from collections.abc import Iterator

from probes.logs.cause_rows import load_causes
from probes.logs.deducing.common import begins_before_meeting, deduced
from probes.logs.event import Event, carries
from probes.logs.events.deduced_course_events import (
    DeducedRanksNotTold,
    DeducedWaitsAtStart,
    DeducedWaitsForRanks,
)
from probes.logs.events.nccl_init_events import (
    NcclBootstrap,
    NcclCommShape,
    NcclDriver,
    NcclEnvironment,
    NcclInitComplete,
    NcclInitStart,
    NcclRas,
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
from probes.logs.seen import Seen

_MOST_RANKS = 4096
_MOST_NAMED = 8
_FEW_LINES = 8
"""Most lines that may follow the last line that is read."""
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
"""Records that NCCL writes until ranks wait for each other."""


def ranks_not_told(seen: Seen) -> Iterator[Event[DeducedRanksNotTold]]:
    """Yield ranks of the largest communicator that no line names.

    Their logs are missing here, or they never began.
    """
    starts = seen.of(NcclInitStart, NcclInitComplete, NcclCommShape)
    if not starts:
        return
    first = max(starts, key=lambda event: event.what.ranks)
    ranks = first.what.ranks
    if ranks > _MOST_RANKS or any(event.count > 1 for event in starts):
        return
    known = {event.what.rank for event in starts if event.what.ranks == ranks}
    known |= {event.rank for event in seen.events if event.rank is not None}
    absent = [rank for rank in range(ranks) if rank not in known]
    if absent:
        yield deduced(
            first, DeducedRanksNotTold(have=ranks - len(absent), ranks=ranks, names=_ranges(absent))
        )


def _ranges(numbers: list[int]) -> str:
    """Return sorted numbers as ranges: `0-7, 12 and 40 more`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][-1] = number
        else:
            runs.append([number, number])
    words = [f"{low}-{high}" if high > low else str(low) for low, high in runs[:_MOST_NAMED]]
    more = sum(high - low + 1 for low, high in runs[_MOST_NAMED:])
    return ", ".join(words) + (f" and {more} more" if more else "")


def waits_at_start(seen: Seen) -> Iterator[Event]:
    """Yield ranks that begin to initialise without any line after that.

    The others never came, or no rank reaches another.
    """
    starts = [event for event in seen.of(NcclInitStart) if "Init START" in event.text]
    ranks = max((event.what.ranks for event in starts), default=0)
    nccl_events = [event for event in seen.events if event.kind.startswith("nccl.")]
    if (
        ranks < 2
        or not all(carries(event, *_BEFORE) for event in nccl_events)
        or seen.has(*load_causes().failures)
    ):
        return
    for source in {event.source for event in starts}:
        last = max(event.number for event in seen.events if event.source == source)
        if seen.last_lines.get(source, last) - last > _FEW_LINES:
            return
    absent = next(ranks_not_told(seen), None)
    if absent is None:
        yield deduced(starts[0], DeducedWaitsAtStart(ranks=ranks))
    elif begins_before_meeting(seen) and 2 * absent.what.have > ranks:  # else logs of others are missing
        yield deduced(starts[0], DeducedWaitsForRanks(names=absent.what.names, ranks=ranks))


DEDUCTIONS = (ranks_not_told, waits_at_start)
