"""Run the requests of a suite one after the other, within one deadline, and report their measurements."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from assistant.usecases.bench.bench_answers import one_line
from assistant.usecases.bench.bench_gate import Gate, Hindrance
from assistant.usecases.bench.bench_run import (
    START_S,
    CaseMeasured,
    Provisional,
    RunEnded,
    RunEvent,
    run_request,
)
from assistant.usecases.bench.bench_session import Sessions, session_key
from assistant.usecases.bench.bench_watch import Watch
from assistant.usecases.events import BenchFailed, Event, Measured, Progress
from probes.base.record import Record
from probes.base.table_rows import BenchmarkRow
from probes.base.units import duration
from probes.bench.bench_requests import BenchContext, BenchRequest
from probes.facts.measurements import BUSY_SHARE, BenchFailure

_OVERRUN = 2.0
"""Factor by which a suite may exceed its estimated time (plus one start) before it is ended."""


class BenchJob(Record, kw_only=True):
    """One request of a benchmark, to be run by workers."""

    row: BenchmarkRow
    request: BenchRequest
    python: str
    cost_s: float


def jobs_of(
    rows: Sequence[BenchmarkRow], context: BenchContext, gate: Gate
) -> tuple[list[BenchJob], list[BenchFailure]]:
    """Return the jobs that can run, in order, and one failure for each benchmark that cannot run."""
    jobs: list[BenchJob] = []
    prevented: list[BenchFailure] = []
    for row in rows:
        try:
            requests = row.load().requests(context)
        except Exception as error:  # noqa: BLE001 -- the other benchmarks still run
            prevented.append(
                failure_of(
                    row,
                    Hindrance(kind="crashed", message=f"rigtune cannot prepare {row.id}: {one_line(error)}"),
                )
            )
            continue
        cost_s = row.full_cost_s if context.suite == "full" else row.cost_s
        pythons = [(request, gate.python_for(request)) for request in requests]
        jobs += [
            BenchJob(row=row, request=request, python=python, cost_s=cost_s / len(requests))
            for request, python in pythons
            if isinstance(python, str)
        ]
        hindrances = [python for _, python in pythons if isinstance(python, Hindrance)]
        # One failure per benchmark is enough, even if the benchmark has several requests.
        prevented += [failure_of(row, hindrance) for hindrance in hindrances[:1]]
    return jobs, prevented


def failure_of(row: BenchmarkRow, hindrance: Hindrance) -> BenchFailure:
    return BenchFailure(
        bench_id=row.id, subject="this machine", kind=hindrance.kind, message=hindrance.message
    )


def run_jobs(
    jobs: list[BenchJob],
    directory: Path,
    *,
    watch: Watch,
    stop: Callable[[], bool],
    device: str,
    deadline_s: float | None = None,
) -> Iterator[Event | RunEnded]:
    """Yield the events of all jobs, and a `RunEnded` after each job; `device` names the devices in use.

    After `deadline_s` seconds the running job is stopped and the remaining jobs are not begun.
    """
    jobs = sharing_starts(jobs)
    cost_s = sum(job.cost_s for job in jobs)
    limit_s = _OVERRUN * cost_s + START_S if deadline_s is None else deadline_s
    ends = time.monotonic() + limit_s
    message = f"will occupy {device} for about {cost_s:.0f} s, and {duration(limit_s)} at the most"
    yield Progress(stage="bench", message=message, done=0, total=len(jobs), remaining_s=cost_s)
    reported: set[str] = set()
    with Sessions() as sessions:
        for number, job in enumerate(jobs):
            if stop():
                return
            left_s = ends - time.monotonic()
            if left_s <= 0:
                late = job.request.failure(
                    "timeout", f"not begun: the suite had overrun its {duration(limit_s)}"
                )
                yield BenchFailed(failure=late)
                yield RunEnded(measurements=(), failures=(late,))
                continue
            steps = _Steps(jobs, number)
            yield steps.progress(f"{job.request.title}, about {job.request.budget_s:.0f} s")
            events = run_request(
                job.request,
                job.row.load(),
                job.python,
                directory / f"{number + 1}-{job.row.id}",
                stop=stop,
                watch=watch,
                deadline_s=left_s,
                sessions=sessions,
            )
            yield from _suite_events(events, steps)
            yield from _neighbours(watch, reported)


def sharing_starts(jobs: Sequence[BenchJob]) -> list[BenchJob]:
    """Return the jobs in order, but move jobs that can share ranks next to each other."""
    first: dict[tuple[object, ...], int] = {}
    places = []
    for number, job in enumerate(jobs):
        key = session_key(job.request, job.python)
        places.append(number if key is None else first.setdefault(key, number))
    return [jobs[number] for number in sorted(range(len(jobs)), key=lambda number: (places[number], number))]


def _suite_events(events: Iterator[RunEvent], steps: "_Steps") -> Iterator[Event | RunEnded]:
    for event in events:
        if isinstance(event, CaseMeasured):
            case = ", ".join(f"{name} {value}" for name, value in event.case.items())
            yield steps.progress(f"{steps.title}: {case}")
        elif isinstance(event, Provisional):
            yield from (Measured(measurement=measurement) for measurement in event.measurements)
        else:
            yield from (Measured(measurement=measurement) for measurement in event.fresh)
            yield from (BenchFailed(failure=failure) for failure in event.failures)
            yield event


def _neighbours(watch: Watch, reported: set[str]) -> Iterator[Progress]:
    """Report each other user of the machine once; the conditions of the measurements contain them too."""
    share = watch.others_cpu_share
    if share is not None and share > BUSY_SHARE and "CPUs" not in reported:
        reported.add("CPUs")
        yield Progress(
            stage="bench", message=f"other programs use {share:.0%} of the CPUs: the rates may be too low"
        )
    for gpu, names in sorted(watch.strangers.items()):
        for name in sorted(names - reported):
            reported.add(name)
            yield Progress(stage="bench", message=f"{gpu} is also used by {name}: the rates may be too low")


class _Steps:
    """Counter of the jobs of a suite, with an estimate of the remaining time."""

    def __init__(self, jobs: list[BenchJob], number: int) -> None:
        self._number, self._total = number, len(jobs)
        self.title = jobs[number].request.title
        self._cost_s, self._later_s = jobs[number].cost_s, sum(job.cost_s for job in jobs[number + 1 :])
        self._begun = time.monotonic()

    def progress(self, message: str) -> Progress:
        left_s = max(0.0, self._cost_s - (time.monotonic() - self._begun)) + self._later_s
        return Progress(
            stage="bench", message=message, done=self._number, total=self._total, remaining_s=left_s
        )
