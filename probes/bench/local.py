"""Shared parts of benchmarks whose ranks measure their own devices at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from probes.bench.answers import measurement, rank_subject, samples_of, start_of
from probes.bench.bench_requests import BenchContext, BenchRequest, Case
from probes.bench.worker_answers import LinesByRank, SampleLine, StartLine
from probes.facts.measurements import Measurement, Parameter


class CaseAnswer(NamedTuple):
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
        """Return a measurement of this rank's device, identified by its case unless parameters are given."""
        identity = self.case if parameters is None else parameters
        return measurement(
            self.request, self.start, identity, metric, unit=unit, samples=samples, subject=self.subject
        )

    def rates(self, work: float) -> tuple[float, ...]:
        """Return `work` of one call (flop, bytes) per second."""
        return tuple(work / duration_s for duration_s in self.sample.durations_s)


def case_answers(request: BenchRequest, lines_by_rank: LinesByRank) -> Iterator[CaseAnswer]:
    """Yield every case that a rank answered."""
    for rank, lines in sorted(lines_by_rank.items()):
        start = start_of(lines)
        if start is not None:
            subject = rank_subject(request, start, rank)
            yield from (CaseAnswer(request, start, subject, sample) for sample in samples_of(request, lines))


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
    """Return a request in which all ranks measure at the same time.

    They share power, buses and memory like in training, and synchronise over gloo, which does not use the
    GPUs.
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
