"""Which ranks the logs tell nothing of, and whether the others wait for them."""

from __future__ import annotations

from collections.abc import Iterator

from probes.logs.cause_rows import load_causes
from probes.logs.deducing.common import begins_before_meeting, found, whole
from probes.logs.event import Event
from probes.logs.seen import Seen

_MOST_RANKS = 4096
_TELLING = ("nccl.init-start", "nccl.init-complete", "nccl.comm-shape")
_MOST_NAMED = 8
_FEW_LINES = 8
"""So many lines may follow the last that is read."""
_BEFORE = ("nccl.init-start", "nccl.bootstrap", "nccl.version", "nccl.driver", "nccl.environment", "nccl.plugin-missing",
           "nccl.plugin-loaded", "nccl.network", "nccl.hcas", "nccl.hca", "nccl.socket-interfaces", "nccl.no-ib",
           "nccl.dma-buf", "nccl.ras")  # fmt: skip
"""What NCCL says up to the moment at which ranks wait for each other, and with it."""


def ranks_not_told(seen: Seen) -> Iterator[Event]:
    """Ranks of the largest communicator of which no line speaks: their logs are not here, or they never
    began.
    """
    shapes = [
        (size, event)
        for event in seen.of(*_TELLING)
        if (size := whole(event.fields.get("ranks"))) is not None
    ]
    if not shapes:
        return
    ranks, first = max(shapes, key=lambda shape: shape[0])
    if ranks > _MOST_RANKS or any(event.count > 1 for _, event in shapes):
        return
    told = {whole(event.fields.get("rank")) for size, event in shapes if size == ranks}
    told |= {event.rank for event in seen.events if event.rank is not None}
    absent = [rank for rank in range(ranks) if rank not in told]
    if absent:
        yield found("ranks-not-told", first, have=ranks - len(absent), ranks=ranks, names=_ranges(absent))


def _ranges(numbers: list[int]) -> str:
    """`0-7, 12 and 40 more`, of numbers in order."""
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
    """Ranks begin to initialise, and nothing follows: others never came, or none reaches another."""
    starts = [event for event in seen.of("nccl.init-start") if "Init START" in event.text]
    ranks = max((whole(event.fields.get("ranks")) or 0 for event in starts), default=0)
    said = [event for event in seen.events if event.kind.startswith("nccl.")]
    if ranks < 2 or any(event.kind not in _BEFORE for event in said) or seen.has(*load_causes().failures):
        return
    for source in {event.source for event in starts}:
        last = max(event.number for event in seen.events if event.source == source)
        if seen.last_lines.get(source, last) - last > _FEW_LINES:
            return
    absent = next(ranks_not_told(seen), None)
    if absent is None:
        yield found("waits-at-start", starts[0], ranks=ranks)
    elif (
        begins_before_meeting(seen) and 2 * (whole(absent.fields["have"]) or 0) > ranks
    ):  # else logs of others are missing
        yield found("waits-for-ranks", starts[0], names=absent.fields["names"], ranks=ranks)


DEDUCTIONS = (ranks_not_told, waits_at_start)
