"""Run the collectors over a source and combine their answers."""

import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from probes.base.record import DEEP_ONLY, Reason, Record, Unknown
from probes.base.table_rows import ProbeRow
from probes.collect.collector_table import PROBES
from probes.facts import MachineFacts
from probes.sources.asked_once import AskedOnce
from probes.sources.base import Source, start_thread

Result = tuple[ProbeRow, dict[str, object] | Unknown]

_GROW_AFTER_S = 0.02
"""Seconds without an answer after which another thread starts, if collectors are waiting for a thread."""

JOINED = frozenset({"contradictions", "unread"})
"""Fields to which every collector may add."""

DEADLINE_S = 60.0
"""Deadline of all collectors: long enough for several commands or NVML calls that time out in a row."""

DRIVER_DEADLINE_S = 35.0
"""Minimum deadline of collectors that wait for the GPU driver, if the caller's deadline is shorter.

This value is a choice: NVML may need 30 s to initialise (`probes/sources/nvml.py`), and the rest is for its
answers.
"""


class CollectOptions(Record, kw_only=True):
    """Settings of the collectors."""

    python: str | None = None
    """The training interpreter that the user named."""
    directory: str = ""
    """The user's working directory, which may contain `./.venv`."""
    own_python: str = ""
    """The interpreter that rigtune itself runs in."""
    ask_interpreters: bool = True
    """True if an interpreter without readable files (a wrapper script) may be started once."""
    deep: bool = True
    """True if commands may be started for facts that only checks of the tier `deep` use."""
    toolkit: bool = True
    """True if nvcc may be started when no file states the version of the toolkit; `deep` allows this too."""
    sysctls: tuple[str, ...] = ()
    """Kernel settings to read in addition to the settings that checks use."""


def gather(
    source: Source, options: CollectOptions, rows: Sequence[ProbeRow] = PROBES, deadline_s: float = DEADLINE_S
) -> Iterator[Result]:
    """Yield the answers of all collectors as they arrive.

    Collectors run on daemon threads, so that a collector that hangs in the kernel delays neither the others
    nor the end of the program. The answer of such a collector is Unknown (timeout). If a collector crashes,
    its answer is Unknown (error) with the last line of the traceback. Collectors of the tier `deep` run only
    if `options` request them. Collectors that query the GPU driver may take longer than `deadline_s`, because
    a driver that must initialise its GPUs is slow but not faulty.
    """
    crew = _Crew(AskedOnce(source), options)
    waiting = [row for row in rows if options.deep or row.tier == "quick"]
    crew.begin(waiting)
    for row in rows:
        if row not in waiting:
            yield row, DEEP_ONLY
    begun = time.monotonic()
    for limit_s, is_last in ((deadline_s, False), (max(deadline_s, DRIVER_DEADLINE_S), True)):
        while waiting:
            remaining_s = max(begun + limit_s - time.monotonic(), 0)
            result = crew.next(min(remaining_s, _GROW_AFTER_S))
            if result is not None and result[0] in waiting:
                waiting.remove(result[0])
                yield result
            elif remaining_s:
                crew.grow()
            else:
                break
        for row in [row for row in waiting if is_last or not row.asks_driver]:
            waiting.remove(row)
            yield row, Unknown(Reason.TIMEOUT, f"{row.title} took longer than {limit_s:g} s")


def assemble(source_title: str, results: Iterable[Result]) -> MachineFacts:
    """Return the facts of the collectors that answered; fields of a failed collector are unknown."""
    fields: dict[str, object] = {}
    joined: dict[str, tuple[object, ...]] = dict.fromkeys(JOINED, ())
    # Collectors end in any order, but equal answers must give equal facts.
    for row, result in sorted(results, key=lambda answer: answer[0].id):
        if isinstance(result, Unknown):
            fields.update({name: _unknown_field(name, result) for name in row.provides if name not in JOINED})
            continue
        fields.update({name: value for name, value in result.items() if name not in JOINED})
        for name in JOINED & result.keys():
            joined[name] += cast("tuple[object, ...]", result[name])
    fields.update(joined)
    return MachineFacts(source=source_title, **fields)  # type: ignore[arg-type]


class _Crew:
    """Threads that run one collector after another.

    A thread is added only when the running collectors block, because most collectors finish faster than a
    new thread starts.
    """

    def __init__(self, source: Source, options: CollectOptions) -> None:
        self._source = source
        self._options = options
        self._ready: queue.SimpleQueue[tuple[ProbeRow, Callable[..., dict[str, object]]] | None] = (
            queue.SimpleQueue()
        )
        self._results: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def begin(self, rows: Iterable[ProbeRow]) -> None:
        """Load the collectors while the first of them already run."""
        self._start()
        self._start()
        for row in rows:
            try:
                # Import here: threads that import at the same time mostly wait for each other.
                self._ready.put((row, getattr(row.load(), row.function)))
            except Exception as error:  # noqa: BLE001 - other collectors go on
                self._results.put((row, _crashed(row, error)))
        self._ready.put(None)

    def grow(self) -> None:
        """Start another thread if collectors wait for one."""
        if self._ready.qsize() > 1:  # the last item is the end marker
            self._start()

    def next(self, timeout_s: float) -> Result | None:
        """Return the next answer; None if no answer arrives in time."""
        try:
            return self._results.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _start(self) -> None:
        start_thread(self._work)

    def _work(self) -> None:
        while (next_collector := self._ready.get()) is not None:
            row, collect = next_collector
            try:
                self._results.put((row, _checked(row, collect(self._source, self._options))))
            except Exception as error:  # noqa: BLE001 - other collectors go on
                self._results.put((row, _crashed(row, error)))
        self._ready.put(None)  # the other threads also need the end marker


def _crashed(row: ProbeRow, error: Exception) -> Unknown:
    import traceback  # noqa: PLC0415 - takes a millisecond, and bugs are rare

    return Unknown(Reason.ERROR, f"{row.id}: {traceback.format_exception_only(error)[-1].strip()}")


def _checked(row: ProbeRow, fields: dict[str, object]) -> dict[str, object]:
    if set(fields) - JOINED != set(row.provides) - JOINED:
        raise ValueError(f"returned {sorted(fields)} and not {sorted(row.provides)}")
    return fields


def _unknown_field(name: str, unknown: Unknown) -> object:
    """Return `unknown`; for a field that is a record, return a record with `unknown` in its fields."""
    default = getattr(MachineFacts(), name)
    if not isinstance(default, Record):
        return unknown
    leaves = [leaf for leaf in default.__struct_fields__ if isinstance(getattr(default, leaf), Unknown)]
    return type(default)(**dict.fromkeys(leaves, unknown))
