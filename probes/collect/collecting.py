"""Run the collectors over a source and put their answers together."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from probes.base.record import DEEP_ONLY, Reason, Record, Unknown
from probes.base.table_rows import ProbeRow
from probes.collect.collector_table import PROBES
from probes.facts import MachineFacts
from probes.sources.asked_once import AskedOnce
from probes.sources.base import Source

Result = tuple[ProbeRow, dict[str, object] | Unknown]

_PATIENCE_S = 0.02
"""How long nothing may come before the collectors that wait get a thread of their own."""

JOINED = frozenset({"contradictions", "unread"})
"""Fields to which every collector may add."""

DEADLINE_S = 60.0
"""Per collector. Commands and NVML calls have shorter deadlines of their own; this one holds when several
expire in a row.
"""


class CollectOptions(Record, kw_only=True):
    """What the collectors need to know beyond the machine."""

    python: str | None = None
    """The training interpreter that the user named."""
    directory: str = ""
    """The user's working directory, where `./.venv` is looked for."""
    own_python: str = ""
    """The interpreter that rigtune itself runs in."""
    ask_interpreters: bool = True
    """Whether an interpreter whose files tell nothing (a wrapper script) may be started once."""
    deep: bool = True
    """Whether commands may be started for facts that only checks of the tier `deep` use."""
    toolkit: bool = True
    """Whether nvcc may be started for its version, where no file tells it."""


def gather(
    source: Source, options: CollectOptions, rows: Sequence[ProbeRow] = PROBES, deadline_s: float = DEADLINE_S
) -> Iterator[Result]:
    """The answers of all collectors, as they come.

    They run on daemon threads, so that one that hangs in the kernel delays neither the others nor the end of
    the program; it becomes Unknown (timeout). One that crashes becomes Unknown (error) with the last line of
    its traceback. Collectors of the tier `deep` are not started unless `options` ask for it.
    """
    crew = _Crew(AskedOnce(source), options)
    waiting = [row for row in rows if options.deep or row.tier == "quick"]
    crew.begin(waiting)
    for row in rows:
        if row not in waiting:
            yield row, DEEP_ONLY
    end = time.monotonic() + deadline_s
    while waiting:
        left = max(end - time.monotonic(), 0)
        result = crew.next(min(left, _PATIENCE_S))
        if result is not None:
            waiting.remove(result[0])
            yield result
        elif left:
            crew.grow()
        else:
            break
    for row in waiting:
        yield row, Unknown(Reason.TIMEOUT, f"{row.title} took longer than {deadline_s:g} s")


def assemble(source_title: str, results: Iterable[Result]) -> MachineFacts:
    """The facts of the collectors that have answered. What a failed one provides is unknown for its
    reason.
    """
    fields: dict[str, object] = {}
    joined: dict[str, tuple[object, ...]] = dict.fromkeys(JOINED, ())
    for row, result in results:
        if isinstance(result, Unknown):
            fields.update({name: _unknown_field(name, result) for name in row.provides if name not in JOINED})
            continue
        fields.update({name: value for name, value in result.items() if name not in JOINED})
        for name in JOINED & result.keys():
            joined[name] += cast("tuple[object, ...]", result[name])
    fields.update(joined)
    return MachineFacts(source=source_title, **fields)  # type: ignore[arg-type]


class _Crew:
    """Threads that take one collector after the other.

    There are as many as are held up: most collectors take less time than starting a thread for each and
    passing the interpreter around among them.
    """

    def __init__(self, source: Source, options: CollectOptions) -> None:
        self._source = source
        self._options = options
        self._ready: queue.SimpleQueue[tuple[ProbeRow, Callable[..., dict[str, object]]] | None] = (
            queue.SimpleQueue()
        )
        self._results: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def begin(self, rows: Iterable[ProbeRow]) -> None:
        """Load the collectors, while the first of them run already: one waits for the driver, another reads
        files.
        """
        self._start()
        self._start()
        for row in rows:
            try:
                # Not on the threads: those that import at the same time mostly wait for each other.
                self._ready.put((row, row.load().collect))
            except Exception as error:  # noqa: BLE001 - the facts of the others survive
                self._results.put((row, _crashed(row, error)))
        self._ready.put(None)

    def grow(self) -> None:
        """One more thread, where collectors wait for one."""
        if self._ready.qsize() > 1:  # the last is the end
            self._start()

    def next(self, timeout_s: float) -> Result | None:
        """The next answer; None where none comes in time."""
        try:
            return self._results.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _start(self) -> None:
        threading.Thread(target=self._work, name="rigtune-collect", daemon=True).start()

    def _work(self) -> None:
        while (taken := self._ready.get()) is not None:
            row, collect = taken
            try:
                self._results.put((row, _checked(row, collect(self._source, self._options))))
            except Exception as error:  # noqa: BLE001 - likewise
                self._results.put((row, _crashed(row, error)))
        self._ready.put(None)  # for the other threads


def _crashed(row: ProbeRow, error: Exception) -> Unknown:
    import traceback  # noqa: PLC0415 - it costs every start a millisecond, and bugs are rare

    return Unknown(Reason.ERROR, f"{row.id}: {traceback.format_exception_only(error)[-1].strip()}")


def _checked(row: ProbeRow, fields: dict[str, object]) -> dict[str, object]:
    if set(fields) - JOINED != set(row.provides) - JOINED:
        raise ValueError(f"returned {sorted(fields)} and not {sorted(row.provides)}")
    return fields


def _unknown_field(name: str, unknown: Unknown) -> object:
    """`unknown` itself, or a record all of whose unknown leaves have its reason."""
    default = getattr(MachineFacts(), name)
    if not isinstance(default, Record):
        return unknown
    leaves = [leaf for leaf in default.__struct_fields__ if isinstance(getattr(default, leaf), Unknown)]
    return type(default)(**dict.fromkeys(leaves, unknown))
