"""Measure this machine: every benchmark of a suite, in the training interpreter."""

import contextlib
import secrets
from collections.abc import Callable, Generator, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import get_args

import msgspec

from assistant.usecases.bench.asked_hosts import ask_hosts, require_shared, use_by_others
from assistant.usecases.bench.bench_context import bench_context, machine_id
from assistant.usecases.bench.bench_folder import work_folder
from assistant.usecases.bench.bench_gate import Gate, Hindrance, busy_with, gate_of
from assistant.usecases.bench.bench_run import RunEnded
from assistant.usecases.bench.bench_suite import BenchJob, failure_of, jobs_of, run_jobs
from assistant.usecases.bench.bench_watch import Watch
from assistant.usecases.events import BenchFailed, Event, Progress, StageStarted, stage
from probes.base.errors import OutputError, UsageError, WorkerError
from probes.base.nearest import did_you_mean
from probes.base.record import Record
from probes.base.table_rows import BenchmarkRow
from probes.base.units import plural
from probes.bench.bench_requests import BenchContext, BenchSettings, SpreadBy, Suite
from probes.bench.benchmark_table import BENCHMARKS
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, Measurement, MeasurementSet
from recipes.machine.measured_on import measured_machine
from recipes.machine.ranks import training_gpus


class MeasureOptions(Record, kw_only=True):
    """The benchmarks to run and the settings for them."""

    suite: Suite = "quick"
    only: tuple[str, ...] = ()
    """Ids of benchmarks; empty for all benchmarks of the suite."""
    python: str | None = None
    """The training interpreter; None for the interpreter that the probe found."""
    force: bool = False
    """Measure even if other programs use the GPUs or the CPUs."""
    accept_busy_host: bool = False
    """Measure on CPUs that other programs use too, with a warning; GPUs in use are still refused."""
    ranks_per_node: int | None = None
    skip: tuple[str, ...] = ()
    settings: BenchSettings = BenchSettings()
    hosts: tuple[str, ...] = ()
    """The hosts to measure across, including this machine's own name."""
    spread_by: SpreadBy = "ssh"
    work_directory: str | None = None
    """Folder for requests, answers and logs; None for a temporary folder, kept only after a failure."""


@stage("bench")
def measure_machine(
    facts: MachineFacts, options: MeasureOptions, stop: Callable[[], bool] = lambda: False
) -> Generator[Event, None, MeasurementSet]:
    """Run the benchmarks one after the other; the last event's result is the `MeasurementSet`.

    A `Measured` event is yielded as soon as all ranks have ended a case; the result contains the same
    measurements, with the conditions (clocks, temperatures) recorded until their benchmark ended. A cause
    that prevents a measurement (no torch, busy GPUs, a crash) is a `BenchFailed` event and part of the
    result. `stop` is called four times a second; when it returns True, the stage finishes with the
    measurements so far. Raises UsageError for unknown ids and an impossible number of ranks, and WorkerError
    for an unusable work folder.
    """
    started = datetime.now(timezone.utc)
    rows = chosen_benchmarks(options)
    if options.ranks_per_node is not None and options.ranks_per_node < 1:
        raise UsageError(f"{options.ranks_per_node} ranks per node are too few", "give at least 1")
    yield StageStarted(stage="bench", title=f"Measuring, {options.suite} suite")
    measurements: list[Measurement] = []
    failures: list[BenchFailure] = []
    with _watch(facts) as watch:
        gate = gate_of(facts, options.python)
        for event in _events(facts, rows, options, gate=gate, watch=watch, stop=stop):
            if isinstance(event, RunEnded):
                measurements.extend(event.measurements)
                continue
            if isinstance(event, BenchFailed):
                failures.append(event.failure)
            yield event
    return MeasurementSet(
        suite=options.suite,
        started=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        interpreter=gate.interpreter.path if gate.interpreter is not None else "",
        hindrance=gate.hindrance.message if gate.hindrance is not None else "",
        machine=machine_id(facts),
        taken_on=measured_machine(facts),
        measurements=tuple(measurements),
        failures=tuple(failures),
    )


@contextlib.contextmanager
def _watch(facts: MachineFacts) -> Iterator[Watch]:
    """Yield a `Watch` of this machine; an NVML source is opened only if there are GPUs."""
    if not training_gpus(facts):
        yield Watch(facts, None)
        return
    from probes.sources.live import LiveSource  # noqa: PLC0415 - starts a process

    with LiveSource() as live:
        yield Watch(facts, live)


def chosen_benchmarks(options: MeasureOptions) -> tuple[BenchmarkRow, ...]:
    """Return the chosen benchmarks in the order of the registry. Raises UsageError."""
    if options.suite not in get_args(Suite):
        raise UsageError(f"there is no suite {options.suite!r}", f"suites: {', '.join(get_args(Suite))}")
    known = [row.id for row in BENCHMARKS]
    unknown = sorted({*options.only, *options.skip} - set(known))
    if unknown:
        raise UsageError(
            f"there is no benchmark {unknown[0]!r}",
            did_you_mean(unknown[0], known) or f"benchmarks: {', '.join(known)}",
        )
    chosen = options.only or tuple(
        row.id for row in BENCHMARKS if options.suite in row.suites or _is_asked(row, options)
    )
    return tuple(row for row in BENCHMARKS if row.id in chosen and row.id not in options.skip)


def _is_asked(row: BenchmarkRow, options: MeasureOptions) -> bool:
    """Return whether the user gave the settings that a benchmark outside all suites needs."""
    settings = options.settings
    given = {
        "--hosts": bool(options.hosts),
        "--step": bool(settings.step),
        "--noise-scale": settings.noise_scale,
    }
    return not row.suites and given.get(row.applies, False)


def _events(
    facts: MachineFacts,
    rows: tuple[BenchmarkRow, ...],
    options: MeasureOptions,
    *,
    gate: Gate,
    watch: Watch,
    stop: Callable[[], bool],
) -> Iterator[Event | RunEnded]:
    devices = gate.interpreter.devices if gate.interpreter is not None else ()
    context = context_of(facts, options, visible_gpus=len(devices) or None)
    jobs, prevented = jobs_of(rows, context, gate)
    for row in rows:
        if row.id in options.only and row.id not in {
            *(job.row.id for job in jobs),
            *(failure.bench_id for failure in prevented),
        }:
            needs = f": it needs {row.applies}" if row.applies else ""
            prevented.append(
                failure_of(row, Hindrance(kind="unsupported", message=f"{row.id} does not apply here{needs}"))
            )
    yield from (BenchFailed(failure=failure) for failure in prevented)
    local = {job.row.id for job in jobs if not job.request.hosts}
    busy = "" if options.force or not local else busy_with(facts)
    has_gpus = bool(training_gpus(facts))
    if busy and options.accept_busy_host and not has_gpus:
        yield Progress(stage="bench", message=f"{busy}: the rates are lower than on an idle machine")
    elif busy:
        hindrance = Hindrance(
            kind="busy", message=f"{busy}: wait, or measure now with `rigtune bench --force`"
        )
        yield from (BenchFailed(failure=failure_of(row, hindrance)) for row in rows if row.id in local)
        rows = tuple(row for row in rows if row.id not in local)  # each host is asked separately
        jobs = [job for job in jobs if job.request.hosts]
    if not jobs:
        return
    device = "CPUs and disk" if has_gpus else "all CPUs"
    if any(job.request.device == "cuda" for job in jobs):
        device = plural(context.ranks_per_node, "GPU")
    with work_folder(options.work_directory) as folder:
        free, failures = _free_hosts(jobs, options, folder.path)
        if failures:
            yield from (BenchFailed(failure=failure) for failure in failures)
            jobs, _ = jobs_of(rows, msgspec.structs.replace(context, hosts=free), gate)
        if not jobs:
            return
        for event in run_jobs(jobs, folder.path, watch=watch, stop=stop, device=device):
            # Keep the log and the request after a failure, but not if the user stopped the run.
            folder.keep = folder.keep or (isinstance(event, BenchFailed) and event.failure.kind != "stopped")
            yield event


def _free_hosts(
    jobs: list[BenchJob], options: MeasureOptions, directory: Path
) -> tuple[tuple[str, ...], tuple[BenchFailure, ...]]:
    """Return the hosts that nobody else uses, and a failure of each benchmark for each other host.

    If a host does not answer or does not see the folder, there is no free host, and one failure for each
    benchmark over hosts. Raises UsageError if the engine lacks its Python module.
    """
    rows = {job.row.id: job.row for job in jobs if job.request.hosts}
    if not rows:
        return options.hosts, ()
    try:
        answers = ask_hosts(options.hosts, options.spread_by, directory)
        require_shared(answers, options.spread_by, directory)
    except (WorkerError, OutputError) as error:
        hindrance = Hindrance(kind="crashed", message=f"{error.message} ({error.hint})")
        return (), tuple(failure_of(row, hindrance) for row in rows.values())
    reasons = {host: use_by_others(answer, force=options.force) for host, answer in answers.items()}
    free = tuple(host for host, why in reasons.items() if not why)
    # --force measures beside programs on the GPUs, but not on a host that the engine did not get
    hint = {"ok": "; wait, or measure on it now with `rigtune bench --force`"}
    left_out = {
        host: f"left out: {why}{hint.get(answers[host].outcome, '')}" for host, why in reasons.items() if why
    }
    failures = [
        BenchFailure(bench_id=bench_id, subject=host, kind="busy", message=message)
        for bench_id in rows
        for host, message in left_out.items()
    ]
    if len(free) < 2:
        alone = Hindrance(kind="busy", message=f"free hosts: {len(free)} of {len(reasons)}, but 2 are needed")
        failures += [failure_of(row, alone) for row in rows.values()]
    return free, tuple(failures)


def context_of(facts: MachineFacts, options: MeasureOptions, visible_gpus: int | None = None) -> BenchContext:
    """Return what the benchmarks need to know of a machine; None means all its GPUs are visible."""
    return msgspec.structs.replace(
        bench_context(facts, ranks_per_node=options.ranks_per_node, visible_gpus=visible_gpus),
        suite=options.suite,
        settings=msgspec.structs.replace(options.settings, folder=options.settings.folder or str(Path.cwd())),
        hosts=options.hosts,
        spread_by=options.spread_by,
        run_token=secrets.token_hex(8),
    )
