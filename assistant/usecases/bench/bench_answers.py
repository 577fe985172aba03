"""Follow the answer files of a request while its workers write them."""

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from probes.base.units import MIB, plural
from probes.bench.bench_requests import (
    BenchRequest,
    Case,
    FailureLine,
    Outcome,
    SampleLine,
    SkippedLine,
    WorkerLine,
    parse_worker_lines,
)
from probes.facts.measurements import BenchFailure, Measurement

_MOST_BYTES = 64 * MIB
"""Largest size of one rank's answer that is read; correct answers have some hundred kilobytes.

Only a broken worker writes a longer answer.
"""


class AnswerFiles:
    """The lines that each rank has written so far."""

    def __init__(self, directory: Path, ranks: int) -> None:
        self.lines: dict[int, tuple[WorkerLine, ...]] = {}
        self._paths = {rank: directory / f"rank{rank}.jsonl" for rank in range(ranks)}
        self._read_bytes = dict.fromkeys(self._paths, 0)

    def read(self) -> bool:
        """Read the new lines of every file; return True if there are any."""
        new = [self._read(rank, path) for rank, path in self._paths.items()]
        return any(new)

    def _read(self, rank: int, path: Path) -> bool:
        """Read the new complete lines of one rank.

        The text after the last newline is incomplete: the worker is still writing it, or died.
        """
        begin = self._read_bytes[rank]
        try:
            with path.open("rb") as file:
                file.seek(begin)
                data = file.read(_MOST_BYTES - begin)
        except OSError:
            return False
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes[rank] += len(whole)
        is_new = bool(whole) or rank not in self.lines
        if is_new:
            self.lines[rank] = self.lines.get(rank, ()) + parse_worker_lines(whole)
        return is_new

    def cases_of_first_rank(self) -> list[Case]:
        """Return the cases that rank 0 has measured, in order."""
        return [line.case for line in self.lines.get(0, ()) if isinstance(line, SampleLine)]

    def progress(self) -> str:
        """Return how many cases the slowest and the fastest rank have ended; empty if the numbers are equal.

        An example is `rank 1 had ended 2 cases, rank 0 had ended 3`.
        """
        ended = {rank: len(_ended_cases(self.lines.get(rank, ()))) for rank in self._paths}
        if len(set(ended.values())) < 2:
            return ""
        last, first = min(ended, key=ended.__getitem__), max(ended, key=ended.__getitem__)
        return f"rank {last} had ended {plural(ended[last], 'case')}, rank {first} had ended {ended[first]}"


class NewMeasurements:
    """Select the measurements that were not yet reported.

    Measurements of a single case are reported as soon as all ranks have ended the case. All other
    measurements are reported at the end.
    """

    def __init__(self, request: BenchRequest, module: ModuleType) -> None:
        self._request, self._module = request, module
        self._cases = 0
        self._reported: set[str] = set()

    def of_ended_cases(self, answers: AnswerFiles) -> tuple[Measurement, ...]:
        """Return the new measurements that belong to a single case.

        Values that are derived from several cases, such as a fit, may still change.
        """
        ended = _cases_ended_by_all(self._request, answers)
        if len(ended) == self._cases:
            return ()
        self._cases = len(ended)
        measurements = interpreted(self._request, self._module, answers)
        if isinstance(measurements, BenchFailure):
            return ()
        of_cases = (
            row for row in measurements if any(case.items() <= row.parameters.items() for case in ended)
        )
        return self.unreported(of_cases)

    def unreported(self, measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
        fresh = tuple(row for row in measurements if _identity(row) not in self._reported)
        self._reported.update(map(_identity, fresh))
        return fresh


def interpreted(request: BenchRequest, module: ModuleType, answers: AnswerFiles) -> Outcome:
    """Return the measurements that the benchmark's module derives from the answers so far, or a failure."""
    try:
        outcome: Outcome = module.interpret(request, answers.lines)
    except Exception as error:  # noqa: BLE001 -- the other answers are still read
        message = f"rigtune cannot read the answer of {request.title}: {one_line(error)}"
        return request.failure("crashed", message)
    return outcome


def one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _identity(measurement: Measurement) -> str:
    parameters = sorted(measurement.parameters.items())
    return repr((measurement.bench_id, measurement.subject, measurement.metric, parameters))


def _ended_cases(lines: tuple[WorkerLine, ...]) -> list[Case]:
    return [
        line.case for line in lines if isinstance(line, (SampleLine, SkippedLine, FailureLine)) and line.case
    ]


def _cases_ended_by_all(request: BenchRequest, answers: AnswerFiles) -> list[Case]:
    if len(answers.lines) < request.ranks:
        return []
    ended = [_ended_cases(lines) for lines in answers.lines.values()]
    return [case for case in request.cases if all(case in cases for cases in ended)]
