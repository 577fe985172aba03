"""How far a run came, by what is the last that it says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from probes.logs.cause_rows import load_causes
from probes.logs.deducing.common import completed, found, whole
from probes.logs.event import Event, Value
from probes.logs.seen import Seen

_END_OF_INIT = ("nccl.init-complete", "nccl.connected")
_SILENCE_S = 300.0
_STOPS = ("slurm.killed", "torch.agent-signal", "process.interrupted")
"""From outside."""
_SIGKILL = 9
_ENDS_OF_OTHERS = (
    "slurm.task-exit",
    "slurm.step-terminating",
    "slurm.step-aborted",
    "slurm.killed",
    "torch.exception",
)
_FEW_LINES = 8
"""So many lines may follow the end of an initialisation, such as remarks and the head of a table."""


def ends_after_init(seen: Seen) -> Iterator[Event]:
    """Initialisation is done, or its rings are connected and no line says that it is done (`stage` is
    `during`); nothing failed, and the log ends there or the scheduler ended the job much later.
    """
    ends = _ends(seen)
    failures = [kind for kind in load_causes().failures if kind not in _STOPS]
    if (
        not ends
        or completed(seen)
        or seen.has(*failures, "kernel.xid", "torch.oom", "slurm.oom", "kernel.oom-kill")
    ):
        return
    ranks = max((whole(event.fields.get("ranks")) or 0 for event in ends), default=0)
    done = {event.fields.get("rank") for event in seen.of("nccl.init-complete")}
    fields: dict[str, Value] = {"complete": len(done), "ranks": ranks} if ranks and done else {}
    if not seen.has("nccl.init-complete"):
        fields["stage"] = "during"
    last = seen.in_order(ends)[-1]
    later = seen.of("nccl.channel", "nccl.init-start", "nccl.channels", "nccl.trees")
    if (
        seen.last_lines.get(last.source, 0) > last.number
        or seen.has("program.finished")
        or any(event.source == last.source and event.number > last.number for event in later)
    ):
        return
    stops = seen.of(*_STOPS)
    for stop in stops:
        late = stop.time_s is not None and last.time_s is not None and stop.time_s - last.time_s >= _SILENCE_S
        if late or str(stop.fields.get("reason", "")) == "time limit":
            yield found(
                "silence-after-init",
                last,
                **fields,
                why="the job was ended from outside with nothing said in between",
            )
            return
    if not stops:
        yield found("ends-after-init", last, **fields, why="nothing is said after the initialisation")


def _ends(seen: Seen) -> list[Event]:
    """Where an initialisation ended: said so, or with the rings that newer versions connect at the first
    collective.
    """
    return [
        *seen.of("nccl.init-complete"),
        *(event for event in seen.of("nccl.connected") if event.fields.get("what") == "rings"),
    ]


def stops_at_p2p(seen: Seen) -> Iterator[Event]:
    """The last that is said is a peer-to-peer channel, before anything is connected."""
    channels = [event for event in seen.of("nccl.channel") if event.fields.get("transport") == "P2P"]
    if not channels or any(_over_nvlink(event) for event in seen.of("nccl.channel", "nccl.topology")):
        return
    if completed(seen) or seen.has(*_END_OF_INIT, "nccl.nvls") or seen.has(*load_causes().failures):
        return
    last = max(
        (event for event in seen.events),
        key=lambda event: (event.source == channels[-1].source, event.number),
    )
    if last.kind == "nccl.channel" and not _goes_on(seen, last):
        yield found(
            "stops-at-p2p",
            channels[-1],
            why="the log stops while they are connected, as with drivers that offer it wrongly or with ACS",
        )


def _over_nvlink(event: Event) -> bool:
    """NCCL reads directly (`P2P/CUMEM/read`) over NVLink alone."""
    return event.fields.get("link") == "NVL" or (
        event.fields.get("transport") == "P2P" and "/read" in event.text
    )


def _goes_on(seen: Seen, last: Event) -> bool:
    """Whether more follows than a few lines in a row that no reader knows: a run that trains says so in its
    own words.
    """
    numbers = sorted(
        {event.number for event in seen.events if event.source == last.source and event.number >= last.number}
    )
    end = seen.last_lines.get(last.source)
    if end is not None:
        if end - last.number <= _FEW_LINES:
            return False
        numbers.append(end + 1)
    return any(after - before - 1 > _FEW_LINES for before, after in itertools.pairwise(numbers))


def killed_first(seen: Seen) -> Iterator[Event]:
    """A task of Slurm that was killed before anything else of its log failed: not as one that was left
    over.
    """
    for event in seen.of("slurm.task-killed"):
        if event.fields.get("signal") == _SIGKILL and not any(
            other.source == event.source and other.number < event.number
            for other in seen.of(*_ENDS_OF_OTHERS)
        ):
            yield found("killed-first", event, **event.fields)
            return


DEDUCTIONS = (ends_after_init, stops_at_p2p, killed_first)
