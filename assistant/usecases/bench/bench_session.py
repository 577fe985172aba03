"""Keep workers alive, so that requests that may share a start run one after the other on the same ranks.

Many benchmarks measure for a fraction of the time that the start of torch on every rank takes. An order makes
the ranks run one request. The ranks look for orders in a folder; when a rank has ended an order, it creates a
file beside the answers. If a rank fails during an order, all ranks end, and the next order gets new ranks.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from assistant.processes.runner import Job
from assistant.usecases.bench.bench_start import HostsJob, argv_of, environment_of
from probes.bench.bench_requests import BenchRequest

_LOOK_S = 0.05
_LEAVE_S = 5.0
"""Time for the ranks to end by themselves; NCCL needs a few seconds."""


class Turn:
    """One order for ranks that keep running, with the interface of the `Job` that it replaces."""

    def __init__(self, job: Job, request: BenchRequest, directory: Path, argv: tuple[str, ...]) -> None:
        self.directory = directory
        self._job, self._argv = job, argv
        self._marks = [directory / "answers" / f"ended{rank}" for rank in range(request.ranks)]
        self._log_begin = job.log_bytes

    def wait(self, timeout_s: float) -> int | None:
        """Return 0 when all ranks have ended the order, and None while they work on the order.

        If the ranks have exited without ending the order, return their exit code.
        """
        ends = time.monotonic() + timeout_s
        while not self._has_ended():
            code = self._job.wait(min(_LOOK_S, max(0.0, ends - time.monotonic())))
            if code is not None:
                return 0 if self._has_ended() else code
            if time.monotonic() >= ends:
                return None
        return 0

    def _has_ended(self) -> bool:
        return all(mark.exists() for mark in self._marks)

    def stop(self) -> int:
        return self._job.stop()

    @property
    def log_bytes(self) -> int:
        """Size of the log of this order, without earlier orders."""
        return max(0, self._job.log_bytes - self._log_begin)

    def log_tail(self, limit_bytes: int = 4000) -> str:
        size = self.log_bytes
        # One more byte is read: the newline of the previous line, after which the tail begins.
        return self._job.log_tail(min(limit_bytes, size) + 1) if size else ""

    @property
    def command_line(self) -> str:
        """The shell command that runs only this order."""
        return self._job.command_line_of(self._argv)


class Sessions(contextlib.AbstractContextManager["Sessions"]):
    """At most one group of ranks that keep running; as a context manager, it ends the ranks."""

    def __init__(self) -> None:
        self._open: tuple[tuple[object, ...], Job, Path] | None = None
        self._orders = 0

    @contextlib.contextmanager
    def job(
        self, request: BenchRequest, python: str, directory: Path, program: tuple[str, ...]
    ) -> Iterator[Job | Turn]:
        """Start `request`, whose files are in `directory`; `program` runs it on new ranks.

        Raises OSError or WorkerError if nothing can be started.
        """
        key = session_key(request, python)
        # Ranks that died, or that cannot run this request, are replaced.
        if self._open is not None and (key != self._open[0] or self._open[1].wait(0) is not None):
            self.close()
        if key is None:
            with own_job(request, python, directory, program) as job:
                yield job
            return
        turn = self._order(key, request, python, directory, program)
        try:
            yield turn
        except BaseException:
            self._drop()
            raise

    def _order(
        self,
        key: tuple[object, ...],
        request: BenchRequest,
        python: str,
        directory: Path,
        program: tuple[str, ...],
    ) -> Turn:
        if self._open is None:
            folder = directory / "orders"
            folder.mkdir(exist_ok=True)
            job = own_job(request, python, directory, (*program[:2], "--orders", str(folder)))
            self._open, self._orders = (key, job, folder), 0
        _, job, folder = self._open
        answers = directory / "answers"
        for mark in answers.glob("ended*"):
            mark.unlink()
        turn = Turn(job, request, directory, argv_of(python, request, directory, program))
        self._put(
            folder,
            {"bench": request.bench_id, "request": str(directory / "request.json"), "out": str(answers)},
        )
        return turn

    def _put(self, folder: Path, order: dict[str, str]) -> None:
        """Write the next order; an empty order ends the ranks.

        The file is renamed into place, so that ranks never read a partial order.
        """
        self._orders += 1
        partial = folder / "next"
        partial.write_bytes(msgspec.json.encode(order))
        partial.rename(folder / f"{self._orders}.json")

    def close(self) -> None:
        """Let the ranks end by themselves, and wait until they have ended."""
        if self._open is not None:
            (_, job, folder), self._open = self._open, None
            with job, contextlib.suppress(OSError):
                self._put(folder, {})
                job.wait(_LEAVE_S)

    def _drop(self) -> None:
        """Stop ranks that are still working on an order, because they would not read the order to end."""
        if self._open is not None:
            (_, job, _), self._open = self._open, None
            with job:
                pass

    def __exit__(self, *_: object) -> None:
        self.close()


def own_job(request: BenchRequest, python: str, directory: Path, program: tuple[str, ...]) -> Job:
    """Start `program` on new ranks."""
    kind = HostsJob if request.hosts else Job
    return kind(
        argv_of(python, request, directory, program),
        directory=directory,
        environment=environment_of(request, directory),
        log=directory / "log.txt",
    )


def session_key(request: BenchRequest, python: str) -> tuple[object, ...] | None:
    """Return a key that is equal for requests that may share ranks; None if `request` cannot share."""
    if not request.shares_start or request.hosts or not request.needs_torch:
        return None
    return (
        python,
        request.ranks,
        request.device,
        request.backend,
        request.threads_per_rank,
        tuple(sorted(request.environment.items())),
    )
