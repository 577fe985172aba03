"""What benchmarks have in common whose ranks measure at the same time, each its own device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from probes.bench.answers import measurement, rank_subject, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.worker_answers import LinesByRank, SampleLine, StartLine
from probes.facts.measurements import Measurement, Parameter


class Answered(NamedTuple):
    """The samples of one case on one rank."""

    request: BenchRequest
    start: StartLine
    subject: str
    sample: SampleLine

    @property
    def case(self) -> Case:
        return self.sample.case

    def measurement(
        self,
        metric: str,
        unit: str,
        samples: tuple[float, ...],
        parameters: Mapping[str, Parameter] | None = None,
    ) -> Measurement:
        """One figure of this rank's device, identified by its case unless other parameters are given."""
        identity = self.case if parameters is None else parameters
        return measurement(
            self.request, self.start, identity, metric, unit=unit, samples=samples, subject=self.subject
        )

    def rates(self, work: float) -> tuple[float, ...]:
        """`work` of one call (flop, bytes) per second."""
        return tuple(work / duration_s for duration_s in self.sample.durations_s)


def answered(request: BenchRequest, lines_by_rank: LinesByRank) -> Iterator[Answered]:
    """Every case that a rank answered."""
    for rank, lines in sorted(lines_by_rank.items()):
        start = start_of(lines)
        if start is not None:
            subject = rank_subject(request, start, rank)
            yield from (Answered(request, start, subject, sample) for sample in samples_of(request, lines))


def on_every_device(
    context: BenchContext,
    bench_id: str,
    title: str,
    *,
    budget_s: float,
    cases: tuple[Case, ...],
    settings: dict[str, Parameter] | None = None,
    numa_cpus: dict[str, tuple[int, ...]] | None = None,
) -> BenchRequest:
    """All ranks measure at the same time, so that power, buses and memory are shared as they will be when
    training.

    They wait for each other over gloo, which leaves the GPUs alone.
    """
    return BenchRequest(
        bench_id=bench_id,
        title=title,
        device=context.device,
        backend="gloo",
        ranks=context.ranks_per_node,
        threads_per_rank=context.threads_per_rank,
        budget_s=budget_s,
        cases=cases,
        subjects=context.subjects,
        settings=settings or {},
        numa_cpus=numa_cpus or {},
        shares_start=True,
    )
