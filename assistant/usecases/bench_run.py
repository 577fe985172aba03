"""Runs one benchmark request in the training interpreter and tells its samples as they arrive."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from assistant.interpreter import Interpreter, worker_environment
from assistant.runner import Job, worker_variables
from assistant.usecases.bench_start import argv_of
from probes.bench.answers import complete, failures_of
from probes.benching import BenchRequest, Case
from probes.errors import WorkerError
from probes.measurements import BenchFailure, Measurement
from probes.parsers.worker_lines import SampleLine, WorkerLine, parse_worker_lines
from probes.record import Record, to_json
from probes.units import KIB

_TICK_S = 0.25
_START_S = 120.0
"""For the start of torch on every rank; from a cold network file system that alone can take a minute."""
_LEAST_FREE_BYTES = 64 * KIB
"""Less, and a worker may have failed at writing its answer, and at saying so."""
_OVERRUN = 3.0
"""The budget is an aim: a large case that was begun is finished."""


class CaseMeasured(Record, kw_only=True):
    """Rank 0 finished a case."""

    case: Case


class RunEnded(Record, kw_only=True):
    """What the request gave: everything that was finished, and what went wrong."""

    measurements: tuple[Measurement, ...]
    failures: tuple[BenchFailure, ...]


def run_request(
    request: BenchRequest,
    module: ModuleType,
    interpreter: Interpreter,
    directory: Path,
    *,
    stop: Callable[[], bool],
    deadline_s: float | None = None,
) -> Iterator[CaseMeasured | RunEnded]:
    """Start the workers in `directory`, follow their answer files, and interpret them; the last event is `RunEnded`.

    The workers are stopped when `stop` says so and after `deadline_s`. Raises WorkerError where `directory` cannot be used.
    """
    request_path, answers = directory / "request.json", directory / "answers"
    try:
        answers.mkdir(parents=True, exist_ok=True)
        for old in answers.glob("rank*.jsonl"):
            old.unlink()
        request_path.write_bytes(to_json(request))
    except OSError as error:
        raise WorkerError(f"cannot write to {directory}: {error.strerror}", "choose another work folder") from error
    program = ("-m", "rigtune_worker", request.bench_id, "--request", str(request_path), "--out", str(answers))
    limit_s = _START_S + _OVERRUN * request.budget_s if deadline_s is None else deadline_s
    deadline = time.monotonic() + limit_s
    trouble, told = "", 0
    with Job(
        argv_of(interpreter.path, request, directory, program),
        directory=directory,
        # torch's agent leaves a folder behind where temporary files go.
        environment={
            **worker_environment(),
            **worker_variables(request.threads_per_rank),
            **request.environment,
            "TMPDIR": str(directory),
        },
        log=directory / "log.txt",
    ) as job:
        code: int | None = None
        while code is None and not trouble:
            code = job.wait(_TICK_S)
            samples = [line for line in read_answers(answers, request.ranks).get(0, ()) if isinstance(line, SampleLine)]
            yield from (CaseMeasured(case=line.case) for line in samples[told:])
            told = len(samples)
            if code is None and stop():
                trouble = "stopped"
            elif code is None and time.monotonic() > deadline:
                trouble = "timeout"
        if trouble:
            job.stop()
    yield interpreted(request, module, read_answers(answers, request.ranks), job=job, code=code, trouble=trouble)


def read_answers(directory: Path, ranks: int) -> dict[int, tuple[WorkerLine, ...]]:
    """The complete lines that each rank has written so far."""
    found: dict[int, tuple[WorkerLine, ...]] = {}
    for rank in range(ranks):
        try:
            found[rank] = parse_worker_lines((directory / f"rank{rank}.jsonl").read_bytes())
        except OSError:
            continue
    return found


def interpreted(
    request: BenchRequest,
    module: ModuleType,
    lines_by_rank: dict[int, tuple[WorkerLine, ...]],
    *,
    job: Job,
    code: int | None,
    trouble: str,
) -> RunEnded:
    """Finished samples count even where the worker failed later."""
    result = module.interpret(request, lines_by_rank)
    measurements: tuple[Measurement, ...] = () if isinstance(result, BenchFailure) else result
    failures = failures_of(request, lines_by_rank)
    if trouble == "timeout":
        failures += (request.failure("timeout", f"{request.title} overran its deadline and was stopped"),)
    elif trouble:
        failures += (request.failure(trouble, f"{request.title} was stopped"),)
    elif not failures and code:
        ended = f"by signal {code - 128}" if code > 128 else f"with exit code {code}"
        full = f"; the disk of {job.directory} is full" if shutil.disk_usage(job.directory).free < _LEAST_FREE_BYTES else ""
        failures += (request.failure("crashed", f"the worker of {request.title} ended {ended}{full}"),)
    elif not failures and not complete(request, lines_by_rank):
        failures += (request.failure("incomplete", f"the answer of {request.title} has no end"),)
    elif not failures and isinstance(result, BenchFailure):
        failures += (result,)
    return RunEnded(measurements=measurements, failures=tuple(_with_log(failure, job) for failure in failures))


def _with_log(failure: BenchFailure, job: Job) -> BenchFailure:
    return BenchFailure(
        bench_id=failure.bench_id,
        subject=failure.subject,
        kind=failure.kind,
        message=failure.message,
        log_tail=job.log_tail(),
        command=job.command_line,
    )
