"""Measure this machine: every benchmark of a suite, in the training interpreter."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from assistant.interpreter import Interpreter, choose_interpreter
from assistant.runner import busy_gpus, busy_host
from assistant.usecases.bench_context import bench_context
from assistant.usecases.bench_run import CaseMeasured, RunEnded, run_request
from assistant.usecases.events import BenchFailed, Event, Measured, Progress, StageFinished, StageStarted
from probes.benching import BenchContext, BenchSettings, Case, SpreadBy, Suite
from probes.errors import InterpreterError, UsageError, WorkerError
from probes.facts import MachineFacts
from probes.measurements import BenchFailure, Measurement, MeasurementSet
from probes.record import Record
from probes.registry import BENCHMARKS, BenchmarkRow
from recipes.layout import training_gpus


class MeasureOptions(Record, kw_only=True):
    """What to measure and how."""

    suite: Suite = "quick"
    only: tuple[str, ...] = ()
    """Ids of benchmarks; empty for all of the suite."""
    python: str | None = None
    """Training interpreter; None for the one that the probe found."""
    force: bool = False
    """Measure although others use the GPUs or the CPUs."""
    accept_busy_host: bool = False
    """Measure on CPUs that others use too, and say so; GPUs in use are refused all the same."""
    ranks_per_node: int | None = None
    skip: tuple[str, ...] = ()
    settings: BenchSettings = BenchSettings()
    hosts: tuple[str, ...] = ()
    """Measure across these hosts too; this machine's own name is among them."""
    spread_by: SpreadBy = "ssh"
    work_directory: str | None = None
    """Keeps requests, answers and logs; None for a temporary folder, which stays only where something failed."""


def _never() -> bool:
    return False


def measure_machine(facts: MachineFacts, options: MeasureOptions, stop: Callable[[], bool] = _never) -> Iterator[Event]:
    """Run the benchmarks one after the other; the last event's result is the `MeasurementSet`.

    What prevents a measurement (no torch, busy GPUs, a crash) is a `BenchFailed` event and part of the result. `stop` is asked
    four times a second. Raises UsageError for unknown ids and impossible ranks, WorkerError for an unusable work folder.
    """
    started, moment = time.monotonic(), datetime.now(timezone.utc)
    rows = _rows(options)
    if options.ranks_per_node is not None and options.ranks_per_node < 1:
        raise UsageError(f"{options.ranks_per_node} ranks per node are too few", "give at least 1")
    yield StageStarted(stage="bench", title=f"Measuring, {options.suite} suite")
    measurements: list[Measurement] = []
    failures: list[BenchFailure] = []
    interpreter: Interpreter | None = None
    for event in _events(facts, rows, options, stop):
        if isinstance(event, Interpreter):
            interpreter = event
            continue
        if isinstance(event, Measured):
            measurements.append(event.measurement)
        elif isinstance(event, BenchFailed):
            failures.append(event.failure)
        yield event
    result = MeasurementSet(
        suite=options.suite,
        started=moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        interpreter=interpreter.path if interpreter is not None else "",
        measurements=tuple(measurements),
        failures=tuple(failures),
    )
    yield StageFinished(stage="bench", result=result, duration_s=time.monotonic() - started)


def _rows(options: MeasureOptions) -> tuple[BenchmarkRow, ...]:
    """The chosen benchmarks in the order of the registry. Raises UsageError."""
    known = [row.id for row in BENCHMARKS]
    unknown = sorted({*options.only, *options.skip} - set(known))
    if unknown:
        raise UsageError(f"there is no benchmark {unknown[0]!r}", f"benchmarks: {', '.join(known)}")
    chosen = options.only or tuple(row.id for row in BENCHMARKS if options.suite in row.suites or _is_asked(row, options))
    return tuple(row for row in BENCHMARKS if row.id in chosen and row.id not in options.skip)


def _is_asked(row: BenchmarkRow, options: MeasureOptions) -> bool:
    """A benchmark that stands in no suite runs where the user gave what it needs."""
    settings = options.settings
    given = {"--hosts": bool(options.hosts), "--step": bool(settings.step), "--noise-scale": settings.noise_scale}
    return not row.suites and given.get(row.applies, False)


def _events(
    facts: MachineFacts, rows: tuple[BenchmarkRow, ...], options: MeasureOptions, stop: Callable[[], bool]
) -> Iterator[Event | Interpreter]:
    """The interpreter once it is known, then the events of all benchmarks."""
    try:
        interpreter = choose_interpreter(facts.training, options.python)
    except InterpreterError as error:
        yield from _refused(rows, "no_interpreter", f"{error.message}: {error.hint}")
        return
    yield interpreter
    gpus = training_gpus(facts)
    if gpus and not interpreter.devices:
        built = f"built for CUDA {interpreter.cuda}" if interpreter.cuda else "built without CUDA"
        why = f": {interpreter.cuda_error}" if interpreter.cuda_error else ""
        message = f"torch {interpreter.torch} in {interpreter.path} ({built}) can use none of the {len(gpus)} GPUs{why}"
        yield from _refused(rows, "unsupported", message)
        return
    busy = "" if options.force else busy_gpus(facts) if gpus else busy_host()
    if busy and options.accept_busy_host and not gpus:
        yield Progress(stage="bench", message=f"{busy}: the numbers are lower than on a quiet machine")
    elif busy:
        yield from _refused(rows, "busy", f"{busy}: wait, or measure all the same with `rigtune bench --force`")
        return
    visible = len(interpreter.devices) if gpus else None
    context = msgspec.structs.replace(
        bench_context(facts, ranks_per_node=options.ranks_per_node, visible_gpus=visible),
        suite=options.suite,
        settings=msgspec.structs.replace(options.settings, folder=options.settings.folder or str(Path.cwd())),
        hosts=options.hosts,
        spread_by=options.spread_by,
    )
    directory = Path(options.work_directory) if options.work_directory else _temporary_directory()
    failed = False
    try:
        for event in _run_all(context, rows, interpreter, directory.absolute(), stop):
            failed = failed or isinstance(event, BenchFailed)
            yield event
    finally:
        if options.work_directory is None and not failed:
            shutil.rmtree(directory, ignore_errors=True)


def _temporary_directory() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="rigtune-bench-"))
    except OSError as error:
        raise WorkerError(f"cannot make a temporary folder: {error.strerror}", "set TMPDIR to a folder that is yours") from error


def _refused(rows: tuple[BenchmarkRow, ...], kind: str, message: str) -> Iterator[Event]:
    for row in rows:
        yield BenchFailed(failure=BenchFailure(bench_id=row.id, subject="this machine", kind=kind, message=message))


def _run_all(
    context: BenchContext, rows: tuple[BenchmarkRow, ...], interpreter: Interpreter, directory: Path, stop: Callable[[], bool]
) -> Iterator[Event]:
    jobs = [(row, request) for row in rows for request in row.load().requests(context)]
    costs = job_costs_s([row for row, _ in jobs], context.suite)
    device = f"{context.ranks_per_node} GPUs" if context.device == "cuda" else "all CPUs"
    cost_s = sum(costs)
    yield Progress(
        stage="bench", message=f"will occupy {device} for about {cost_s:.0f} s", done=0, total=len(jobs), remaining_s=cost_s
    )
    for number, (row, request) in enumerate(jobs):
        if stop():
            return
        begun = time.monotonic()

        def progress(message: str, number: int = number, begun: float = begun) -> Progress:
            left_s = max(0.0, costs[number] - (time.monotonic() - begun)) + sum(costs[number + 1 :])
            return Progress(stage="bench", message=message, done=number, total=len(jobs), remaining_s=left_s)

        yield progress(f"{request.title}, about {request.budget_s:.0f} s")
        for event in run_request(request, row.load(), interpreter, directory / f"{number + 1}-{row.id}", stop=stop):
            if isinstance(event, CaseMeasured):
                yield progress(f"{request.title}: {_case(event.case)}")
            if isinstance(event, RunEnded):
                yield from (Measured(measurement=measurement) for measurement in event.measurements)
                yield from (BenchFailed(failure=failure) for failure in event.failures)


def job_costs_s(rows: Sequence[BenchmarkRow], suite: Suite) -> list[float]:
    """Rough duration of each start of a worker, by its row; the starts of one benchmark share its cost."""
    return [(row.full_cost_s if suite == "full" else row.cost_s) / rows.count(row) for row in rows]


def _case(case: Case) -> str:
    """What was just measured, in a few words: `dtype bf16, m 1024, n 1024, k 1024`."""
    return ", ".join(f"{name} {value}" for name, value in case.items())
