"""Facts of the initialisation: the ranks that began, completed or never appeared, and the duration."""

from collections import Counter

from probes.logs.event import Event
from probes.logs.events.nccl_events import (
    NcclCommShape,
    NcclInitComplete,
    NcclInitStart,
    NcclInitTimings,
    NcclRankOfCommunicator,
)
from probes.logs.stream import MOST_ALIKE

_MOST_COMMUNICATORS = 4096
_MOST_RANKS = 1 << 20
_MOST_WAITING = 1 << 16
_MOST_NAMED = 64
_STEPS = ("kernels", "alloc", "bootstrap", "allgathers", "topo", "graphs", "connections", "rest")


class _Communicator:
    """Ranks of a communicator, one bit per rank: 10,000 ranks need 1.3 KB."""

    __slots__ = ("done", "hosts", "ranks", "started")

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.hosts: dict[str, int] = {}
        """Number of ranks by host."""
        self.started = 0
        self.done = 0


class InitFacts:
    """Facts of the initialisation, collected event by event."""

    def __init__(self) -> None:
        self._communicators: dict[tuple[str, int], _Communicator] = {}
        self._waiting: dict[tuple[str, int, int], str | None] = {}
        """Hosts of ranks that began and did not complete.

        The key is the communicator, its size, and the rank.
        """
        self._is_folded = False
        """True if one line represents the lines of several ranks."""
        self._lines = Counter[type[NcclRankOfCommunicator]]()
        self._nodes = 0
        self._largest = 0
        self._ranks = 0
        self._local = 0
        self._seconds: tuple[float, int | None] | None = None
        self._step: tuple[float, str] | None = None

    def add(self, event: Event) -> None:
        """Add an event; only events of the initialisation have an effect."""
        match event.what:
            case NcclInitStart() | NcclInitComplete() as record:
                self._lines[type(record)] += 1
                self._is_folded |= event.count > 1
                self._add_rank(record, event.host)
            case NcclCommShape(ranks=ranks, nodes=nodes, local_ranks=local) if ranks >= self._ranks:
                if ranks > self._ranks:
                    self._local = 0
                self._ranks, self._nodes = ranks, nodes
                self._local = max(local or 0, self._local)
            case NcclInitTimings() as timings:
                self._add_timings(timings)

    def as_dict(self) -> dict[str, object]:
        """Return the reported facts."""
        largest = max(self._communicators.values(), key=lambda communicator: communicator.ranks, default=None)
        ranks = max(self._ranks, largest.ranks if largest else 0)
        facts: dict[str, object] = {
            "ranks": ranks or None,
            "nodes": self._nodes or None,
            "ranks_per_node": self._local or None,
            "communicators": len(self._communicators) or None,
        }
        if largest is not None:
            if not self._nodes and sum(largest.hosts.values()) == largest.ranks == ranks:
                facts |= {"nodes": len(largest.hosts), "ranks_per_node": max(largest.hosts.values())}
            facts |= self._progress(largest)
            if "init_incomplete" in facts:
                facts["init_incomplete_hosts"] = self._hosts(largest.ranks)
        if self._seconds is not None:
            seconds, rank = self._seconds
            facts["init_seconds"] = seconds
            facts["init_slowest_rank"] = rank
        if self._step is not None:
            facts["init_slowest_step"] = f"{self._step[1]} {self._step[0]:.6g} s"
        return {name: value for name, value in facts.items() if value is not None}

    def _progress(self, largest: _Communicator) -> dict[str, object]:
        known = largest.started | largest.done
        facts: dict[str, object] = {
            "init_started": known.bit_count(),
            "init_completed": largest.done.bit_count(),
        }
        # After MOST_ALIKE similar lines, further lines are not read, so a rank without a line may still
        # exist.
        everything = not self._is_folded and max(self._lines.values(), default=0) < MOST_ALIKE
        if everything and (waiting := largest.started & ~largest.done):
            facts["init_incomplete"] = _names(waiting)
        absent = ((1 << largest.ranks) - 1) & ~known
        if everything and absent and largest.started:
            facts["init_unseen"] = _names(absent)
        return facts

    def _hosts(self, ranks: int) -> list[str]:
        """Return the hosts with ranks that wait in a communicator of this size."""
        hosts = dict.fromkeys(
            host for (_, size, _), host in self._waiting.items() if size == ranks and host is not None
        )
        return [*hosts][:_MOST_NAMED]

    def _add_rank(self, record: NcclRankOfCommunicator, host: str | None) -> None:
        rank, ranks = record.rank, record.ranks
        if not 0 <= rank < ranks <= _MOST_RANKS:
            return
        key = (record.comm, ranks)
        communicator = self._communicators.get(key)
        if communicator is None:
            if len(self._communicators) >= _MOST_COMMUNICATORS:
                return
            communicator = self._communicators[key] = _Communicator(ranks)
        self._largest = max(ranks, self._largest)
        if (
            host is not None
            and ranks == self._largest
            and not (communicator.started | communicator.done) >> rank & 1
        ):
            communicator.hosts[host] = communicator.hosts.get(host, 0) + 1
        if isinstance(record, NcclInitStart):
            communicator.started |= 1 << rank
            if len(self._waiting) < _MOST_WAITING:
                self._waiting[(*key, rank)] = host
        else:
            communicator.done |= 1 << rank
            self._waiting.pop((*key, rank), None)

    def _add_timings(self, timings: NcclInitTimings) -> None:
        total = timings.total_s
        if total is None or (self._seconds is not None and total <= self._seconds[0]):
            return
        self._seconds = (total, timings.rank)
        steps = ((getattr(timings, f"{step}_s"), step) for step in _STEPS)
        self._step = max(((seconds, step) for seconds, step in steps if seconds is not None), default=None)


def _names(ranks: int) -> list[str]:
    """Return ranks as ranges, such as `0-7` and `12`; the number of ranges is limited."""
    ranges: list[str] = []
    start = 0
    while ranks and len(ranges) < _MOST_NAMED:
        low = (ranks & -ranks).bit_length() - 1
        ranks >>= low
        run = (~ranks & (ranks + 1)).bit_length() - 1
        first = start + low
        ranges.append(str(first) if run == 1 else f"{first}-{first + run - 1}")
        ranks >>= run
        start = first + run
    return ranges
