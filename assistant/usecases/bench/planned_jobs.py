"""Plan what a benchmark over several hosts would start, for `rigtune fleet bench --dry-run`."""

from pathlib import Path
from typing import NamedTuple

from assistant.engines.engine_table import Wanted
from assistant.usecases.bench.asked_hosts import question_of
from assistant.usecases.bench.bench_start import job_of
from assistant.usecases.measure import MeasureOptions, chosen_benchmarks, context_of
from probes.facts import MachineFacts


class PlannedJob(NamedTuple):
    """One start of ranks on all hosts."""

    title: str
    """Title of the benchmark."""
    budget_s: float
    """Time that the ranks measure after their start."""
    command: Wanted


class PlannedJobs(NamedTuple):
    """The commands of `measure_machine` for its hosts, in order."""

    question: Wanted
    """The command that first asks each host for the shared folder and for programs on its GPUs."""
    jobs: tuple[PlannedJob, ...]
    elsewhere: tuple[str, ...]
    """Ids of the chosen benchmarks that start nothing on the hosts."""


def planned_jobs(facts: MachineFacts, options: MeasureOptions) -> PlannedJobs:
    """Return what `measure_machine` would start on all its hosts; no host is asked. Raises UsageError."""
    folder = Path(options.work_directory or "FOLDER")
    context = context_of(facts, options)
    jobs: list[PlannedJob] = []
    elsewhere: list[str] = []
    for row in chosen_benchmarks(options):
        spread = [request for request in row.load().requests(context) if request.hosts]
        if not spread:
            elsewhere.append(row.id)
        for request in spread:
            command = job_of(request, folder / f"{len(jobs) + 1}-{row.id}")
            jobs.append(PlannedJob(row.title, request.budget_s, command))
    return PlannedJobs(question_of(options.hosts, folder), tuple(jobs), tuple(elsewhere))
