"""Search for the fastest layout that fits.

Every shape of `space.py` is examined. Inside a shape, two properties of the models save most evaluations; a
test compares the result with brute force. Memory grows with the micro-batch and shrinks with the recomputed
part, and recomputing more never saves time. Therefore the least recomputation that fits is the fastest for
a micro-batch, and if a micro-batch does not fit with full recomputation, no larger one fits, except the
whole batch of a rank, which needs no memory to accumulate gradients.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from probes.base.record import Unknown, value_or
from recipes.constants import constant
from recipes.job.candidate import Candidate, Degrees, Sharding
from recipes.planning.space import (
    Recomputation,
    Request,
    Shape,
    candidate_of,
    micro_batches,
    recomputations,
    schedules,
    shapes,
)
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown
from recipes.predict.job_prediction import memory_for, time_for
from recipes.predict.training_job import Job, job_of

Key = tuple[Degrees, Sharding]
"""A set of degrees with its sharding; the search keeps the best member of each."""
Refuse = Callable[[MemoryBreakdown], bool]
"""Function that returns whether a layout with this memory does not fit."""


class Examined(NamedTuple):
    """A candidate with its prediction."""

    candidate: Candidate
    job: Job
    memory: MemoryBreakdown
    time: TimeBreakdown | Unknown | None
    """Time of a step; None for a candidate that does not fit, Unknown if the machine lacks a rate."""

    @property
    def seconds(self) -> float:
        """Seconds of a step; infinite if unknown."""
        return _seconds(self.time)


class Searched(NamedTuple):
    """Result of a search."""

    ranked: tuple[Examined, ...]
    """Best candidate of each set of degrees that fits, the best first."""
    rejected: tuple[Examined, ...]
    """Member that needs least memory of each set of degrees without a member that fits."""
    examined: int
    """Number of candidates whose memory was predicted."""


def search(
    request: Request, refuses: Refuse, *, alternatives: int = 12, limit_s: float = math.inf
) -> Searched:
    """Return the best layouts for the request, and the rejected ones.

    Layouts are ranked by the predicted time of a step. If times are equal within the tie, a layout that
    leaves memory free comes first, then the simpler one. A shape is examined closely only if its lower
    bound can tie with the fastest layout, until `alternatives` sets of degrees are known, and as long as the
    shape can be the fastest with one of its settings. Therefore the result has the fastest layout for every
    value of every setting, unless `alternatives` is 0. Layouts whose step
    takes `limit_s` or longer are of no interest.
    """
    options = recomputations(request)
    if not options:
        return Searched((), (), 0)
    smallest: dict[Key, Examined] = {}
    bounds, examined = _bounds(request, options, refuses, smallest, limit_s)
    best: dict[Key, Examined] = {}
    fastest = limit_s
    fastest_with: dict[tuple[str, int | str], float] = {}
    tie = 1 + constant("layout_tie")
    for bound in bounds:
        limit = fastest * tie
        settings = _settings_of(bound.shape) if alternatives else ()
        limit = max((limit, *(fastest_with.get(setting, math.inf) for setting in settings)))
        if len(best) >= alternatives and bound.seconds > limit:
            continue
        refiner = _Refiner(request, bound, options, refuses)
        # The schedule with one part per stage needs least memory: others recompute at least as much.
        start = refiner.least(bound.shape, 0)
        tightened = max(bound.seconds, refiner.without_bubble(start))
        for schedule, parts in schedules(request, bound.shape.degrees.pp):
            shape = bound.shape.scheduled(schedule, parts)
            key = (shape.degrees, shape.sharding)
            known = best.get(key)
            slowest = limit if len(best) >= alternatives else math.inf
            if known is not None:
                slowest = known.seconds * tie
            if tightened > slowest or bound.micro_batch not in micro_batches(request, shape):
                continue
            member = refiner.member(shape, refiner.least(shape, start))
            if member.time is None and parts > 1 and bound.micro_batch == micro_batches(request, shape)[0]:
                # With one part per stage, the bound itself fits; here another schedule does not.
                _keep_smallest(smallest, member)
            elif member.time is not None and (known is None or _is_better(member, known)):
                best[key] = member
                fastest = min(fastest, member.seconds)
                for setting in settings:
                    fastest_with[setting] = min(member.seconds, fastest_with.get(setting, math.inf))
        examined += refiner.evaluations
    rejected = [member for key, member in smallest.items() if key not in best]
    rejected.sort(key=lambda member: (member.memory.needed, simplicity(member)))
    return Searched(_ranked(list(best.values())), tuple(rejected), examined)


def _settings_of(shape: Shape) -> tuple[tuple[str, int | str], ...]:
    """Return the settings of a shape that a plan compares, each with its value."""
    degrees = shape.degrees
    strategy = "hsdp" if shape.sharding == "zero3" and degrees.dp > 1 else shape.sharding
    sizes = (("tp", degrees.tp), ("pp", degrees.pp), ("cp", degrees.cp), ("ep", degrees.ep))
    return (("strategy", strategy), *sizes)


def neighbours(request: Request, chosen: Examined, refuses: Refuse) -> tuple[Examined, ...]:
    """Return the members with the same degrees as the chosen one that differ in one choice inside the shape.

    Each other schedule and each other micro-batch recomputes as little as fits. Members that do not fit have
    no time.
    """
    options = recomputations(request)
    candidate = chosen.candidate
    shape = Shape(candidate.degrees, candidate.sharding_stage, candidate.schedule)

    def refiner(micro_batch: int) -> _Refiner:
        return _Refiner(request, _Bound(0.0, 0, shape, micro_batch), options, refuses)

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


def search_with_headroom(request: Request, headroom: float | None = None) -> tuple[Searched, float]:
    """Return the result of the search, and the part of each GPU's memory that it leaves free.

    `headroom` is that part; None means the default, which is given up if nothing fits otherwise. On a CPU the
    memory model itself has a margin. Everything fits if the memory is unknown.
    """
    limit = request.cluster.memory_bytes_per_rank
    if limit is None:
        return search(request, lambda memory: False), 0.0
    default = constant("memory_headroom") if request.cluster.device == "cuda" else 0.0
    free = default if headroom is None else headroom
    result = search(request, refusing(limit.value * (1 - free)))
    if result.ranked or headroom is not None or not free:
        return result, free
    return search(request, refusing(limit.value)), 0.0


def refusing(limit_bytes: float) -> Refuse:
    """Return the function that refuses layouts which need more than this memory."""
    return lambda memory: memory.needed > limit_bytes


class _Bound(NamedTuple):
    """A shape with a micro-batch, and a lower bound on the seconds of a step over all its schedules and
    recomputations.
    """

    seconds: float
    order: int
    shape: Shape
    micro_batch: int


def _bounds(
    request: Request,
    options: tuple[Recomputation, ...],
    refuses: Refuse,
    smallest: dict[Key, Examined],
    limit_s: float,
) -> tuple[list[_Bound], int]:
    """Return the lower bounds of all shapes that may fit, lowest first, and the number of evaluations.

    A pipeline with one part per stage keeps the fewest activations: if it does not fit, no other schedule
    fits. The time of a step without its bubble is a lower bound for every schedule. Shapes that differ only
    in their sharding compute for the same time, so one of these tells whether all exceed `limit_s`.
    """
    bounds: list[_Bound] = []
    examined = 0
    computed: dict[tuple[int, ...], float] = {}
    fitting: set[Key] = set()
    for shape in shapes(request) if options else ():
        degrees, is_full = shape.degrees, False
        for micro_batch in micro_batches(request, shape):
            key = (degrees.tp, degrees.pp, degrees.cp, degrees.ep, micro_batch)
            if is_full and micro_batch * shape.replicas < request.workload.global_batch:
                continue
            if computed.get(key, 0.0) >= limit_s:
                fitting.add(
                    (degrees, shape.sharding)
                )  # not examined, so nothing can be said about the memory
                continue
            examined += 1
            smallest_member = _with_memory(request, shape, micro_batch, options[-1])
            if refuses(smallest_member.memory):
                _keep_smallest(smallest, smallest_member)
                # Without accumulation, gradients of earlier micro-batches need no memory.
                is_full = True
                continue
            fitting.add((degrees, shape.sharding))
            candidate = candidate_of(request, shape, micro_batch, options[0])
            time = time_for(job_of(request.workload, candidate, request.cluster, request.stack))
            seconds = _without_bubble(time)
            if not isinstance(time, Unknown):
                computed.setdefault(key, value_or(time.compute, 0.0))
            if seconds >= limit_s < math.inf:
                continue
            bounds.append(_Bound(seconds, len(bounds), shape, micro_batch))
    for fits in fitting:
        smallest.pop(fits, None)  # another micro-batch of the refused layout fits
    bounds.sort(key=lambda bound: (bound.seconds, bound.order))
    return bounds, examined


def _keep_smallest(smallest: dict[Key, Examined], member: Examined) -> None:
    """Keep the member in `smallest` if it needs less memory than the known member of its degrees."""
    key = (member.candidate.degrees, member.candidate.sharding_stage)
    other = smallest.get(key)
    if other is None or member.memory.needed < other.memory.needed:
        smallest[key] = member


def _seconds(time: TimeBreakdown | Unknown | None) -> float:
    """Return the seconds of a step; infinite if unknown."""
    if time is None or isinstance(time, Unknown) or isinstance(time.total, Unknown):
        return math.inf
    return time.total


def _with_memory(request: Request, shape: Shape, micro_batch: int, again: Recomputation) -> Examined:
    candidate = candidate_of(request, shape, micro_batch, again)
    job = job_of(request.workload, candidate, request.cluster, request.stack)
    return Examined(candidate, job, memory_for(job), None)


class _Refiner:
    """Evaluates the schedules and recomputations of one shape with one micro-batch."""

    def __init__(
        self, request: Request, bound: _Bound, options: tuple[Recomputation, ...], refuses: Refuse
    ) -> None:
        self._request, self._bound, self._options, self._refuses = request, bound, options, refuses
        self._members: dict[tuple[Shape, int], Examined] = {}
        self.evaluations = 0

    def least(self, shape: Shape, start: int) -> int:
        """Return the index of the least recomputation from `start` that fits, or the last index.

        Memory shrinks from option to option, so a bisection finds the index.
        """
        low, high = start, len(self._options) - 1
        while low < high:
            middle = (low + high) // 2
            if self._refuses(self._with_memory(shape, middle).memory):
                low = middle + 1
            else:
                high = middle
        return low

    def without_bubble(self, index: int) -> float:
        """Return the seconds of a step with this recomputation, without the bubble of the pipeline."""
        self.evaluations += 1
        return _without_bubble(time_for(self._with_memory(self._bound.shape, index).job))

    def member(self, shape: Shape, index: int) -> Examined:
        """Return the member with its time, or without a time if it does not fit."""
        member = self._with_memory(shape, index)
        if self._refuses(member.memory):
            return member
        self.evaluations += 1
        return member._replace(time=time_for(member.job))

    def _with_memory(self, shape: Shape, index: int) -> Examined:
        if (shape, index) not in self._members:
            self.evaluations += 1
            self._members[shape, index] = _with_memory(
                self._request, shape, self._bound.micro_batch, self._options[index]
            )
        return self._members[shape, index]


def _without_bubble(time: TimeBreakdown | Unknown) -> float:
    """Return the seconds of a step without the bubble of its pipeline: a lower bound for every schedule."""
    seconds = _seconds(time)
    if isinstance(time, Unknown) or isinstance(time.bubble, Unknown) or not math.isfinite(seconds):
        return seconds
    # Stragglers lengthen the bubble with the rest of the step.
    return seconds - time.bubble * seconds / max(seconds - value_or(time.overhead, 0.0), 1e-9)


def _is_better(member: Examined, other: Examined) -> bool:
    """Return whether a member of the same degrees is better: faster, or as fast with less memory."""
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
    limit = members[0].seconds * (1 + constant("layout_tie"))
    ties = [member for member in members if member.seconds <= limit]
    chosen = min(ties, key=lambda member: (is_tight(member), simplicity(member)))
    return (chosen, *(member for member in members if member is not chosen))


def is_tight(member: Examined) -> bool:
    """Return whether the layout uses nearly all memory."""
    limit = member.job.cluster.memory_bytes_per_rank
    return limit is not None and member.memory.needed > constant("tight_memory") * limit.value


_SHARDINGS = ("none", "zero1", "zero2", "zero3")


def simplicity(member: Examined) -> tuple[float, ...]:
    """Return a key that puts the simpler layout first: fewer kinds of parallelism, then less sharding, less
    recomputation, and smaller degrees.
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
