"""Follows the answer files of a request while its workers write them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import msgspec

from probes.base.units import MIB
from probes.bench.bench_requests import BenchRequest, Case
from probes.bench.worker_answers import FailureLine, SampleLine, SkippedLine, WorkerLine, parse_worker_lines
from probes.facts.measurements import BenchFailure, Measurement

_MOST_BYTES = 64 * MIB
"""Of one rank's answer; what a broken worker writes beyond is not read. Real ones have some hundred
kilobytes.
"""


class AnswerFiles:
    """The lines that each rank has written so far."""

    def __init__(self, directory: Path, ranks: int) -> None:
        self.lines: dict[int, tuple[WorkerLine, ...]] = {}
        self._paths = {rank: directory / f"rank{rank}.jsonl" for rank in range(ranks)}
        self._read_bytes = dict.fromkeys(self._paths, 0)

    def read(self) -> bool:
        """Read on; True where there is something new."""
        fresh = {rank for rank, path in self._paths.items() if self._read(rank, path)}
        return bool(fresh)

    def _read(self, rank: int, path: Path) -> bool:
        """Complete lines only: what follows the last newline is still being written, or was when the worker
        died.
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
        """How far each rank came, in words, where they differ: `rank 1 had ended 2 cases, rank 0 had ended
        3`.
        """
        ended = {rank: len(_ended_cases(self.lines.get(rank, ()))) for rank in self._paths}
        if len(set(ended.values())) < 2:
            return ""
        last, first = min(ended, key=ended.__getitem__), max(ended, key=ended.__getitem__)
        return f"rank {last} had ended {ended[last]} cases, rank {first} had ended {ended[first]}"


class Teller:
    """Tells each measurement once: those of a case as soon as all ranks have ended it, the others at the
    end.
    """

    def __init__(self, request: BenchRequest, module: ModuleType) -> None:
        self._request, self._module = request, module
        self._cases = 0
        self._told: set[str] = set()

    def of_ended_cases(self, answers: AnswerFiles) -> tuple[Measurement, ...]:
        """What is new and stands for one case. What is derived from several, such as a fit, may still
        change.
        """
        ended = _cases_ended_by_all(self._request, answers)
        if len(ended) == self._cases:
            return ()
        self._cases = len(ended)
        found = interpreted(self._request, self._module, answers)
        if isinstance(found, BenchFailure):
            return ()
        return self.untold(
            tuple(row for row in found if any(case.items() <= row.parameters.items() for case in ended))
        )

    def untold(self, measurements: tuple[Measurement, ...]) -> tuple[Measurement, ...]:
        fresh = tuple(row for row in measurements if _identity(row) not in self._told)
        self._told.update(map(_identity, fresh))
        return fresh


def interpreted(
    request: BenchRequest, module: ModuleType, answers: AnswerFiles
) -> tuple[Measurement, ...] | BenchFailure:
    """What the benchmark reads from the answers so far."""
    try:
        found: tuple[Measurement, ...] | BenchFailure = module.interpret(request, answers.lines)
    except Exception as error:  # noqa: BLE001 -- one benchmark that stumbles over its answer must not lose the others'
        words = " ".join(f"{type(error).__name__}: {error}".split())
        return request.failure("crashed", f"rigtune cannot read the answer of {request.title}: {words}")
    return found


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


def with_conditions(measurement: Measurement, seen: dict[str, str | int | float | bool]) -> Measurement:
    """The measurement with what was seen around it; what its benchmark itself says stays."""
    return msgspec.structs.replace(measurement, conditions={**seen, **measurement.conditions})
