"""Shapes in the order of their lower bounds on the time of a step."""

import heapq
import math
from typing import NamedTuple

from probes.base.record import Unknown
from recipes.job.candidate import Schedule
from recipes.planning.examined import Examined, Key, Refuse, job_at, keep_smallest, with_bubble, with_memory
from recipes.planning.space import (
    Recomputation,
    Request,
    Shape,
    micro_batches,
    recomputed_share,
    schedules,
    shapes,
)
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.job_prediction import least_time_for, time_for
from recipes.predict.speed.passes import LeastPasses

_ROUNDED = 1 - 1e-9
"""Factor that keeps a lower bound below the time in spite of rounding errors."""


class Bound(NamedTuple):
    """A shape with a micro-batch, and a lower bound on the seconds of a step over all its schedules and
    recomputations.
    """

    seconds: float
    order: int
    shape: Shape
    micro_batch: int
    bubble_share: float = 0.0
    """Smallest share of 1F1B's bubble that any schedule of the shape has."""
    smallest: Examined | None = None
    """Member with the most recomputation, which fits; None if its memory is not predicted yet."""
    time: TimeBreakdown | Unknown | None = None
    """Time of the member with the least recomputation; None if the bound is only that of `least_time_for`."""


class Queue:
    """Shapes with their micro-batches, those with the lowest bounds first.

    At first, a bound only includes the work inside a stage, which is the same for all shardings. Memory and
    the whole time are predicted if such a bound comes first and is low enough. Each bound has the smallest
    bubble of any schedule. A pipeline with one part per stage keeps the fewest activations: if it does not
    fit, no other schedule fits.
    """

    def __init__(
        self,
        request: Request,
        options: tuple[Recomputation, ...],
        refuses: Refuse,
        limit_s: float,
        *,
        keeps_rejected: bool,
    ) -> None:
        self._request, self._options, self._refuses, self._limit_s = request, options, refuses, limit_s
        self._full: dict[Key, int] = {}
        """Smallest micro-batch that does not fit, by degrees and sharding."""
        self.smallest: dict[Key, Examined] = {}
        """The member that needs the least memory, for each pair of degrees and sharding of which no member is
        known to fit.
        """
        self.examined = 0
        self._bounds: dict[tuple[int, ...], tuple[tuple[int, ...], dict[int, tuple[float, float]]]] = {}
        self._passes: dict[tuple[float, ...], LeastPasses] = {}
        """Results of `least_time_for` by the degrees inside a stage, the micro-batch and the part that is
        recomputed.
        """
        self._schedules: dict[int, tuple[tuple[Schedule, int], ...]] = {}
        self._heap: list[Bound] = []
        for shape in shapes(request):
            self._add(shape, needs_memory=keeps_rejected)
        heapq.heapify(self._heap)

    def _add(self, shape: Shape, *, needs_memory: bool) -> None:
        """Add the shape with each micro-batch whose lower bound is below the limit.

        `needs_memory`: memory is predicted until a micro-batch fits, to report the shape if none fits.
        """
        sizes, bounds = self._bounds_of(shape)
        for micro_batch in sizes:
            smallest = None
            if needs_memory:
                smallest, is_fitting = self._most_recomputed(shape, micro_batch)
                if not is_fitting:
                    if smallest is not None:
                        keep_smallest(self.smallest, smallest)
                    continue
                needs_memory = False
                self.smallest.pop((shape.degrees, shape.sharding), None)
            if micro_batch not in bounds:
                bounds[micro_batch] = self._bound(shape, micro_batch)
            seconds, share = bounds[micro_batch]
            if seconds < self._limit_s or self._limit_s == math.inf:
                self._heap.append(Bound(seconds, len(self._heap), shape, micro_batch, share, smallest))

    def _bounds_of(self, shape: Shape) -> tuple[tuple[int, ...], dict[int, tuple[float, float]]]:
        """Return the micro-batches of the shape, and the known results of `_bound` by micro-batch.

        They are the same for all shardings.
        """
        degrees = shape.degrees
        key = (degrees.tp, degrees.pp, degrees.cp, degrees.ep)
        if key not in self._bounds:
            self._bounds[key] = micro_batches(self._request, shape), {}
        return self._bounds[key]

    def _bound(self, shape: Shape, micro_batch: int) -> tuple[float, float]:
        """Return the lower bound on the seconds of a step, and the smallest share of 1F1B's bubble."""
        degrees = shape.degrees
        # Layouts that differ only in their number of stages compute and communicate the same in total.
        again = recomputed_share(self._request, degrees, self._options[0])
        key = (degrees.tp, degrees.cp, degrees.ep, micro_batch, again)
        if key not in self._passes:
            job = job_at(self._request, shape._replace(sharding="none"), micro_batch, self._options[0])
            self._passes[key] = least_time_for(job)
        rounds = self._request.workload.global_batch // (shape.replicas * micro_batch)
        least = self._passes[key].step(degrees.pp, rounds)
        share = self._bubble_share(degrees.pp, rounds, least.zero_bubble_share)
        return _ROUNDED * (least.work_s + share * least.bubble_s), share

    def _bubble_share(self, pipeline: int, rounds: int, zero_bubble: float) -> float:
        """Return the smallest share of 1F1B's bubble that any schedule of `rounds` micro-batches has."""
        if pipeline == 1:
            return 1.0
        if pipeline not in self._schedules:
            self._schedules[pipeline] = schedules(self._request, pipeline)
        shares = (
            zero_bubble if schedule == "zero-bubble" else 1.0 / parts
            for schedule, parts in self._schedules[pipeline]
            if schedule != "interleaved" or rounds % pipeline == 0
        )
        return min(shares, default=1.0)

    def _most_recomputed(self, shape: Shape, micro_batch: int) -> tuple[Examined | None, bool]:
        """Return the member with the most recomputation, and whether it fits.

        The member is None if a smaller micro-batch did not fit, so that this one cannot fit either.
        """
        if self._is_known_as_full(shape, micro_batch):
            return None, False
        self.examined += 1
        member = with_memory(self._request, shape, micro_batch, self._options[-1])
        is_fitting = not self._refuses(member.needed)
        if not is_fitting:
            key = (shape.degrees, shape.sharding)
            self._full[key] = min(micro_batch, self._full.get(key, micro_batch))
        return member, is_fitting

    def _is_known_as_full(self, shape: Shape, micro_batch: int) -> bool:
        """Return whether a smaller micro-batch did not fit, so that this one cannot fit either.

        Without accumulation, gradients of earlier micro-batches need no memory.
        """
        is_whole = micro_batch * shape.replicas == self._request.workload.global_batch
        return not is_whole and self._full.get((shape.degrees, shape.sharding), math.inf) <= micro_batch

    def pop(self, limit: float) -> Bound | None:
        """Return and remove the lowest bound; None if none is below the limit."""
        return heapq.heappop(self._heap) if self._heap and self._heap[0].seconds <= limit else None

    def push_closer(self, bound: Bound, limit: float) -> None:
        """Put the bound back with the whole time of a step, unless the time or the memory is too large."""
        smallest = bound.smallest
        if smallest is None and (limit == math.inf or self._is_known_as_full(bound.shape, bound.micro_batch)):
            smallest, is_fitting = self._most_recomputed(bound.shape, bound.micro_batch)
            if not is_fitting:
                return
        time = time_for(job_at(self._request, bound.shape, bound.micro_batch, self._options[0]))
        seconds = with_bubble(time, bound.bubble_share)
        if seconds > limit or seconds >= self._limit_s < math.inf:
            return
        if smallest is None:
            smallest, is_fitting = self._most_recomputed(bound.shape, bound.micro_batch)
            if not is_fitting:
                return
        heapq.heappush(self._heap, bound._replace(seconds=seconds, smallest=smallest, time=time))
