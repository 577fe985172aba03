"""Run one benchmark request in an interpreter and report its samples as they arrive."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import msgspec

from assistant.processes.runner import Job
from assistant.usecases.bench.bench_answers import AnswerFiles, NewMeasurements, interpreted
from assistant.usecases.bench.bench_session import Sessions, Turn, own_job
from assistant.usecases.bench.bench_trouble import cause_of_end, failed_rank, lost_folder, oom_kills
from assistant.usecases.bench.bench_watch import Watch
from probes.base.errors import WorkerError
from probes.base.record import Record, to_json
from probes.base.units import MIB
from probes.bench.answers import complete, failures_of, start_of, timing_of
from probes.bench.bench_requests import BenchRequest, Case, Outcome
from probes.facts.measurements import BenchFailure, Measurement

_TICK_S = 0.25
START_S = 120.0
"""Time to start torch on every rank, which can take a minute on a network file system without caches."""
_PREPARE_S = 60.0
"""Time to build and release what a benchmark needs. The budget does not include this time."""
_MOST_LOG_BYTES = 64 * MIB
_CAUSE_BYTES = 64 * 1024
"""Size of the end of the log that is searched for the cause of a failure."""


class CaseMeasured(Record, kw_only=True):
    """Rank 0 finished a case."""

    case: Case


class Provisional(Record, kw_only=True):
    """Measurements of cases that all ranks have ended.

    `RunEnded` contains them again, with the conditions recorded until the end of the request.
    """

    measurements: tuple[Measurement, ...]


class RunEnded(Record, kw_only=True):
    """The results of the request: all finished measurements, and the failures."""

    measurements: tuple[Measurement, ...]
    failures: tuple[BenchFailure, ...]
    fresh: tuple[Measurement, ...] = ()
    """The measurements that were not reported before."""


RunEvent = CaseMeasured | Provisional | RunEnded


def run_request(
    request: BenchRequest,
    module: ModuleType,
    python: str,
    directory: Path,
    *,
    stop: Callable[[], bool],
    watch: Watch,
    deadline_s: float | None = None,
    sessions: Sessions | None = None,
) -> Iterator[RunEvent]:
    """Start the workers in `directory`, follow and interpret their answers; the last event is `RunEnded`.

    The workers are stopped when `stop` returns True, after `deadline_s`, or if they do not start or end in
    time, or print too much. If something prevents the start, such as a full disk, the result is a failure
    too. With `sessions`, ranks that are already running may execute the request. The caller has checked
    that all hosts of the request answer and can read `directory`.
    """
    answers = AnswerFiles(directory / "answers", request.ranks)
    stream = NewMeasurements(request, module)
    try:
        program = _prepare(request, directory)
        killed_before = oom_kills()
        watch.begin()
        start_job = own_job if sessions is None else sessions.job
        with start_job(request, python, directory, program) as job:
            run = _Run(request, job, answers, deadline_s)
            while run.goes_on(stop):
                watch.tick()
                if answers.read():
                    yield from (CaseMeasured(case=case) for case in run.new_cases())
                    fresh = _with_surroundings(request, answers, watch, stream.of_ended_cases(answers))
                    if fresh:
                        yield Provisional(measurements=fresh)
            if run.trouble:
                job.stop()
        watch.end()
    except (OSError, WorkerError) as error:
        reason = f" in {directory}: {error.strerror}" if isinstance(error, OSError) else f": {error.message}"
        failure = request.failure("crashed", f"{request.title} could not be started{reason}")
        yield RunEnded(measurements=(), failures=(failure,))
        return
    answers.read()  # the last lines, written while the ranks ended
    result = interpreted(request, module, answers)
    failures = tuple(
        msgspec.structs.replace(failure, log_tail=job.log_tail(), command=job.command_line)
        for failure in _failures(run, result, kernel_killed=oom_kills() > killed_before)
    )
    measurements = _with_surroundings(
        request, answers, watch, () if isinstance(result, BenchFailure) else result
    )
    yield RunEnded(measurements=measurements, failures=failures, fresh=stream.unreported(measurements))


def _prepare(request: BenchRequest, directory: Path) -> tuple[str, ...]:
    """Write the request, empty the folder for answers, and return the worker's arguments. Raises OSError."""
    request_path, folder = directory / "request.json", directory / "answers"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("rank*.jsonl"):
        old.unlink()
    request_path.write_bytes(to_json(request))
    return ("-m", "rigtune_worker", request.bench_id, "--request", str(request_path), "--out", str(folder))


class _Run:
    """A running job, with the decision when to stop it, and the way in which it ended."""

    def __init__(
        self, request: BenchRequest, job: Job | Turn, answers: AnswerFiles, deadline_s: float | None
    ) -> None:
        self.request, self.job, self.answers = request, job, answers
        self.code: int | None = None
        self.trouble: tuple[str, str] | None = None
        """The kind of failure and its message, if the job had to be stopped."""
        self._reported = 0
        self._begun_s = time.monotonic()
        self._started_s: float | None = None
        self._deadline_s = float("inf") if deadline_s is None else deadline_s

    def goes_on(self, stop: Callable[[], bool]) -> bool:
        """Wait a moment; return False if the previous call found that the job has ended or must end.

        The caller therefore reads the last lines of the job before the loop ends.
        """
        if self.code is not None or self.trouble is not None:
            return False
        self.code = self.job.wait(_TICK_S)
        if self.code is not None:
            return True  # the caller then reads the last lines
        if self._started_s is None and self.answers.lines:
            self._started_s = time.monotonic()
        self.trouble = self._why_stop(stop)
        return True

    def new_cases(self) -> list[Case]:
        cases = self.answers.cases_of_first_rank()
        fresh, self._reported = cases[self._reported :], len(cases)
        return fresh

    def _why_stop(self, stop: Callable[[], bool]) -> tuple[str, str] | None:
        title = self.request.title
        if stop():
            return "stopped", f"{title} was stopped"
        if self._is_late():
            if self._started_s is None:
                hint = _queued(self.request)
                return "timeout", f"{title} did not start within its deadline and was stopped{hint}"
            progress = self.answers.progress()
            detail = f": {progress}" if progress else ""
            return "timeout", f"{title} overran its deadline and was stopped{detail}"
        if self.job.log_bytes > _MOST_LOG_BYTES:
            return "crashed", f"{title} printed more than {_MOST_LOG_BYTES // MIB} MiB and was stopped"
        return None

    def _is_late(self) -> bool:
        now_s = time.monotonic()
        if now_s > self._begun_s + self._deadline_s:
            return True
        if self._started_s is None:
            return now_s > self._begun_s + START_S
        return now_s > self._started_s + _PREPARE_S + self.request.longest_s


def _queued(request: BenchRequest) -> str:
    """Return a hint if the request is a Slurm job, which may wait for its nodes; empty for other requests."""
    is_job = request.hosts and request.spread_by == "slurm"
    return ": its nodes may be taken (squeue); allocate them with salloc first" if is_job else ""


def _failures(run: _Run, result: Outcome, *, kernel_killed: bool) -> tuple[BenchFailure, ...]:
    """Return the failures of the run; samples that were finished remain valid.

    If the worker itself reports a failure, this report is used, because it is more exact than the exit
    code. Only the failure of a rank that a signal killed is derived from the signal.
    """
    request, lines = run.request, run.answers.lines
    reported = failures_of(request, lines)
    if run.trouble is not None:
        return (*reported, request.failure(*run.trouble))
    lost = lost_folder(run.job.directory)
    if run.code:
        log = run.job.log_tail(_CAUSE_BYTES)
        rank, code = failed_rank(log) or (None, run.code)
        # Failures of the other ranks, such as a closed connection, are consequences of this failure.
        lines_of_cause = lines if rank is None else {rank: lines.get(rank, ())}
        ended = failures_of(request, lines_of_cause, lambda line: not line.case)
        # A killed rank cannot report why it was killed, so its signal has precedence over its last report.
        if code > 128 or not ended:
            kind, message = cause_of_end(request.title, run.code, log, kernel_killed=kernel_killed)
            ended = (request.failure(kind, f"{message}; {lost}" if lost else message),)
        return (*failures_of(request, lines, lambda line: bool(line.case)), *ended)
    if not reported and not complete(request, lines):
        return (
            request.failure(
                "incomplete", f"the answer of {request.title} has no end" + (f"; {lost}" if lost else "")
            ),
        )
    return (result,) if not reported and isinstance(result, BenchFailure) else reported


def _with_surroundings(
    request: BenchRequest, answers: AnswerFiles, watch: Watch, measurements: tuple[Measurement, ...]
) -> tuple[Measurement, ...]:
    starts = [start for lines in answers.lines.values() if (start := start_of(lines)) is not None]
    used = frozenset(
        request.subjects.get(start.uuid) or watch.names.get(start.uuid, "") for start in starts if start.uuid
    )
    return tuple(
        msgspec.structs.replace(
            row,
            conditions={
                **watch.conditions(row.subject, used),
                **timing_of(row, answers.lines),
                **row.conditions,
            },
        )
        for row in measurements
    )
