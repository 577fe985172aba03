"""Search for the fastest layout that fits.

Every shape of `space.py` is examined. Inside a shape, two properties of the models save most evaluations; a
test compares the result with brute force. Memory grows with the micro-batch and shrinks with the recomputed
part, and recomputing more hardly ever saves time. Therefore the search takes the least recomputation that
fits a micro-batch, and if a micro-batch does not fit with full recomputation, no larger one fits, except the
whole batch of a rank, which needs no memory to accumulate gradients.
"""

import functools
import math
from typing import NamedTuple

from probes.base.record import Unknown
from recipes.constants import constant
from recipes.planning.examined import (
    Examined,
    Key,
    Refuse,
    is_within,
    keep_smallest,
    with_bubble,
    with_memory,
)
from recipes.planning.shape_queue import Bound, Queue
from recipes.planning.space import (
    Recomputation,
    Request,
    Shape,
    micro_batches,
    recomputations,
    schedules,
    strategy_named,
)
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.job_prediction import time_for

ALTERNATIVES = 12
"""Number of layouts that fit of which a search knows the time before it leaves slow ones out."""


class Searched(NamedTuple):
    """Result of a search."""

    ranked: tuple[Examined, ...]
    """Best candidate for each pair of degrees and sharding that fits, the best first."""
    rejected: tuple[Examined, ...]
    """The candidate that needs the least memory, for each pair of degrees and sharding that does not fit."""
    examined: int
    """Number of predictions of memory or time, without those for lower bounds.

    Each neighbour of a best candidate that may run out of memory counts once.
    """


def search(
    request: Request, refuses: Refuse, *, alternatives: int = ALTERNATIVES, limit_s: float = math.inf
) -> Searched:
    """Return the best layouts for the request, and the rejected ones.

    Layouts are ranked by the predicted time of a step. If times are equal within the tie, a layout that
    leaves memory free comes first, then the simpler one. A layout that may run out of memory comes after a
    safe one that is hardly slower.

    A shape is examined closely as long as fewer than `alternatives` layouts that fit are known. Later shapes
    are examined only if their lower bound can tie with the fastest layout, or if they can be the fastest with
    one of their settings. So the result has the fastest layout for every value of every setting, unless
    `alternatives` is 0: then it has no more than the layouts that can come first. Layouts whose step takes
    `limit_s` or longer are left out.
    """
    options = recomputations(request)
    if not options:
        return Searched((), (), 0)
    # Memory is predicted first, because most layouts with the lowest bounds do not fit; but in a comparison
    # of programs, most layouts are too slow.
    first = alternatives > 0 or not request.is_coarse
    queue = Queue(request, options, refuses, limit_s, keeps_rejected=first)
    best = _Best(alternatives, limit_s)
    while (bound := queue.pop(math.inf if alternatives else best.limit_of_all())) is not None:
        limit = best.limit_of(bound.shape)
        if bound.seconds > limit:
            continue
        if bound.time is None:
            queue.push_closer(bound, limit)
            continue
        refiner = _Refiner(request, bound, options, refuses)
        # The schedule with one part per stage needs the least memory: other schedules recompute at least as
        # much.
        start = refiner.least(bound.shape, 0)
        tightened = max(bound.seconds, refiner.least_seconds(start))
        for schedule, parts in schedules(request, bound.shape.degrees.pp):
            shape = bound.shape.scheduled(schedule, parts)
            sizes = micro_batches(request, shape)
            if tightened > best.slowest_of(shape, limit) or bound.micro_batch not in sizes:
                continue
            member = refiner.member(shape, refiner.least(shape, start))
            if member.time is not None:
                best.add(member)
            elif parts > 1 and bound.micro_batch == sizes[0]:
                # With one part per stage, the bound itself fits; here another schedule does not.
                keep_smallest(queue.smallest, member)
        queue.examined += refiner.evaluations
    rejected = [member for key, member in queue.smallest.items() if key not in best.members]
    rejected.sort(key=lambda member: (member.needed, simplicity(member)))
    ranked = _ranked(list(best.members.values()))
    close: tuple[Examined, ...] = ()
    if ranked and not is_safe(ranked[0]):
        close = neighbours(request, ranked[0], refuses)
        ranked = _safe_first(ranked, close, limit_s)
    return Searched(ranked, tuple(rejected), queue.examined + len(close))


class _Best:
    """The best member for each pair of degrees and sharding, and the least step time for each value of a
    setting.
    """

    def __init__(self, alternatives: int, limit_s: float) -> None:
        self._alternatives, self._fastest, self._tie = alternatives, limit_s, 1 + constant("layout_tie")
        self._widest_tie = max(self._tie, 1 + constant("safe_layout_tie"))
        self._fastest_with: dict[tuple[str, int | str], float] = {}
        self.members: dict[Key, Examined] = {}

    def limit_of_all(self) -> float:
        """Return the seconds of a step beyond which no layout can tie with the fastest."""
        return self._fastest * self._widest_tie

    def limit_of(self, shape: Shape) -> float:
        """Return the seconds of a step beyond which layouts of the shape are of no interest."""
        if len(self.members) < self._alternatives:
            return math.inf
        limit = self.limit_of_all()
        for setting in _settings_of(shape) if self._alternatives else ():
            limit = max(limit, self._fastest_with.get(setting, math.inf))
        return limit

    def slowest_of(self, shape: Shape, limit: float) -> float:
        """Return the seconds of a step beyond which a schedule of the shape is of no interest."""
        known = self.members.get((shape.degrees, shape.sharding))
        if known is not None:
            return known.seconds * self._tie
        return limit if len(self.members) >= self._alternatives else math.inf

    def add(self, member: Examined) -> None:
        """Keep the member if it is better than the known member with the same degrees and sharding."""
        shape = Shape(member.candidate.degrees, member.candidate.sharding_stage, member.candidate.schedule)
        key = (shape.degrees, shape.sharding)
        known = self.members.get(key)
        if known is not None and not _is_better(member, known):
            return
        self.members[key] = member
        self._fastest = min(self._fastest, member.seconds)
        for setting in _settings_of(shape) if self._alternatives else ():
            self._fastest_with[setting] = min(member.seconds, self._fastest_with.get(setting, math.inf))


@functools.lru_cache(maxsize=16384)
def _settings_of(shape: Shape) -> tuple[tuple[str, int | str], ...]:
    """Return the settings of a shape that a plan compares, each with its value."""
    degrees = shape.degrees
    strategy = strategy_named(shape.sharding, degrees)
    sizes = (("tp", degrees.tp), ("pp", degrees.pp), ("cp", degrees.cp), ("ep", degrees.ep))
    return (("strategy", strategy), *sizes)


def neighbours(request: Request, chosen: Examined, refuses: Refuse) -> tuple[Examined, ...]:
    """Return the members with another recomputation, another schedule or another micro-batch.

    Everything else is as in the chosen member, except that with another schedule or micro-batch a member
    recomputes as little as fits. Members that do not fit have no time.
    """
    options = recomputations(request)
    candidate = chosen.candidate
    shape = Shape(candidate.degrees, candidate.sharding_stage, candidate.schedule)

    def refiner(micro_batch: int) -> _Refiner:
        return _Refiner(request, Bound(0.0, 0, shape, micro_batch), options, refuses)

    here = refiner(candidate.micro_batch)
    members = [here.member(shape, index) for index in range(len(options))]
    for schedule, parts in schedules(request, shape.degrees.pp):
        other = shape.scheduled(schedule, parts)
        if candidate.micro_batch in micro_batches(request, other):
            members.append(here.member(other, here.least(other, 0)))
    for micro_batch in micro_batches(request, shape):
        there = refiner(micro_batch)
        members.append(there.member(shape, there.least(shape, 0)))
        if members[-1].time is None:
            break
    return tuple(member for member in members if member.candidate != candidate)


def search_with_headroom(
    request: Request,
    headroom: float | None = None,
    *,
    chosen_only: bool = False,
    limit_s: float = math.inf,
) -> tuple[Searched, float]:
    """Return the result of the search, and the part of each GPU's memory that it leaves free.

    `headroom` is that part; None means the default, which is given up if nothing fits otherwise. On a CPU
    the default is 0, because the predicted memory is already that of the worst case. Everything fits if the
    memory is unknown. With `chosen_only`, only the first layout of the result is sure, and the search is
    faster. Layouts whose step takes `limit_s` or longer are left out.
    """
    limit = request.cluster.memory_bytes_per_rank
    if limit is None:
        return search(request, lambda needed: False, limit_s=limit_s), 0.0
    default = constant("memory_headroom") if request.cluster.device == "cuda" else 0.0
    free = default if headroom is None else headroom
    # If no layout is tight, the faster of two layouts with the same degrees is always better. Then layouts
    # that cannot tie with the fastest have no influence on the first one.
    is_quick = chosen_only and 1 - free <= constant("tight_memory")
    refuses = refusing(limit.value * (1 - free))
    alternatives = 0 if is_quick else ALTERNATIVES
    result = search(request, refuses, alternatives=alternatives, limit_s=limit_s)
    if result.ranked or headroom is not None or not free:
        return result, free
    whole = search(request, refusing(limit.value), limit_s=limit_s)
    if whole.ranked and limit_s < math.inf and search(request, refuses, alternatives=0).ranked:
        return result, free  # A layout leaves the memory free, but is too slow.
    return whole, 0.0


def refusing(limit_bytes: float) -> Refuse:
    """Return the function that refuses layouts which need more than this memory."""
    return lambda needed: needed > limit_bytes


class _Refiner:
    """Evaluates the schedules and recomputations of one shape with one micro-batch."""

    def __init__(
        self, request: Request, bound: Bound, options: tuple[Recomputation, ...], refuses: Refuse
    ) -> None:
        self._request, self._bound, self._options, self._refuses = request, bound, options, refuses
        self._members: dict[tuple[Shape, int], Examined] = {}
        self._times: dict[tuple[Shape, int], TimeBreakdown | Unknown] = {}
        if bound.smallest is not None:
            self._members[bound.shape, len(options) - 1] = bound.smallest
        if bound.time is not None:
            self._times[bound.shape, 0] = bound.time
        self.evaluations = 0

    def least(self, shape: Shape, start: int) -> int:
        """Return the index of the least recomputation from `start` that fits, or the last index.

        Memory shrinks from option to option, so a bisection finds the index.
        """
        low, high = start, len(self._options) - 1
        while low < high:
            middle = (low + high) // 2
            if self._refuses(self._with_memory(shape, middle).needed):
                low = middle + 1
            else:
                high = middle
        return low

    def least_seconds(self, index: int) -> float:
        """Return the seconds of a step with this recomputation and the smallest bubble of any schedule."""
        return with_bubble(self._time(self._bound.shape, index), self._bound.bubble_share)

    def member(self, shape: Shape, index: int) -> Examined:
        """Return the member with its time, or without a time if it does not fit."""
        member = self._with_memory(shape, index)
        if self._refuses(member.needed):
            return member
        return member._replace(time=self._time(shape, index))

    def _time(self, shape: Shape, index: int) -> TimeBreakdown | Unknown:
        if (shape, index) not in self._times:
            self.evaluations += 1
            self._times[shape, index] = time_for(self._with_memory(shape, index).job)
        return self._times[shape, index]

    def _with_memory(self, shape: Shape, index: int) -> Examined:
        if (shape, index) not in self._members:
            self.evaluations += 1
            self._members[shape, index] = with_memory(
                self._request, shape, self._bound.micro_batch, self._options[index]
            )
        return self._members[shape, index]


def _is_better(member: Examined, other: Examined) -> bool:
    """Return whether a member is better than another with the same degrees and sharding.

    It is better if it is clearly faster. If the times tie, a member that leaves memory free is better than a
    tight one, and among equals the faster one is better.
    """
    mine, theirs = member.seconds, other.seconds
    tie = constant("layout_tie")
    if mine < theirs * (1 - tie):
        return True
    if mine > theirs * (1 + tie):
        return False
    return (is_tight(member), mine) < (is_tight(other), theirs)


def _ranked(members: list[Examined]) -> tuple[Examined, ...]:
    """Return the members with the best first; the best is the simplest of those that tie with the fastest."""
    members.sort(key=lambda member: (member.seconds, simplicity(member)))
    if not members:
        return ()
    chosen = _simplest_of_fastest(members)
    return (chosen, *(member for member in members if member is not chosen))


def _safe_first(
    ranked: tuple[Examined, ...], close: tuple[Examined, ...], limit_s: float
) -> tuple[Examined, ...]:
    """Return the layouts, of which the best one may run out of memory, with a safe layout first.

    A safe layout must be hardly slower than the fastest, have no more kinds of parallelism, and share no
    state if the best one shares none: a small model needs a smaller micro-batch, not sharding. Layouts of
    other degrees count, and the best one's neighbours `close` whose step takes less than `limit_s`. The safe
    layout takes the place of the layout with the same degrees.
    """
    limit = min(member.seconds for member in ranked) * (1 + constant("safe_layout_tie"))
    most_kinds, stage, *_ = simplicity(ranked[0])
    safe = []
    for member in (*ranked, *close):
        kinds, its_stage, *_ = simplicity(member)
        is_as_simple = kinds <= most_kinds and (stage > 0 or its_stage == 0)
        is_fast = member.time is not None and member.seconds <= limit and member.seconds < limit_s
        if is_as_simple and is_fast and is_safe(member):
            safe.append(member)
    if not safe:
        return ranked
    safe.sort(key=lambda member: member.seconds)
    chosen = _simplest_of_fastest(safe)
    return (chosen, *(member for member in ranked if _key(member) != _key(chosen)))


def _key(member: Examined) -> Key:
    """Return the degrees and the sharding; a search ranks only the best member with both."""
    return member.candidate.degrees, member.candidate.sharding_stage


def _simplest_of_fastest(members: list[Examined]) -> Examined:
    """Return the simplest of the members that tie with the first, which is the fastest.

    Members that leave memory free come before tight ones.
    """
    limit = members[0].seconds * (1 + constant("layout_tie"))
    ties = [member for member in members if member.seconds <= limit]
    return min(ties, key=lambda member: (is_tight(member), simplicity(member)))


def is_safe(member: Examined) -> bool:
    """Return whether the layout fits even in the worst case."""
    return is_within(member.memory, member.job.cluster)


def is_tight(member: Examined) -> bool:
    """Return whether the layout uses nearly all memory."""
    limit = member.job.cluster.memory_bytes_per_rank
    return limit is not None and member.needed > constant("tight_memory") * limit.value


_SHARDINGS = ("none", "zero1", "zero2", "zero3")


def simplicity(member: Examined) -> tuple[float, ...]:
    """Return a key that puts the simpler layout first: fewer kinds of parallelism, then less sharding, less
    full recomputation, smaller degrees, and fewer micro-batches.
    """
    candidate = member.candidate
    degrees = candidate.degrees
    divided = (degrees.tp, degrees.pp, degrees.cp, degrees.ep, degrees.vp)
    again = candidate.recomputed_share if candidate.activation_checkpointing == "full" else 0.0
    return (
        sum(size > 1 for size in divided) + (degrees.dp > 1 and degrees.fsdp > 1),
        _SHARDINGS.index(candidate.sharding_stage),
        again,
        math.prod(divided),
        candidate.grad_accum,
        *divided,
    )
