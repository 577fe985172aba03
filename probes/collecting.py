"""Run the collectors over a source and put their answers together."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from probes.facts import MachineFacts
from probes.once import AskedOnce
from probes.record import DEEP_ONLY, Reason, Record, Unknown
from probes.registry import PROBES, ProbeRow
from probes.sources.base import Source

Result = tuple[ProbeRow, dict[str, object] | Unknown]

JOINED = frozenset({"contradictions", "unread"})
"""Fields to which every collector may add."""

DEADLINE_S = 60.0
"""Per collector. Commands and NVML calls have shorter deadlines of their own; this one holds when several expire in a row."""


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

    Each runs on a daemon thread of its own, so that one that hangs in the kernel delays neither the others nor the end of
    the program; it becomes Unknown (timeout). One that crashes becomes Unknown (error) with the last line of its traceback.
    Collectors of the tier `deep` are not started unless `options` ask for it.
    """
    asked = AskedOnce(source)
    results: queue.SimpleQueue[Result] = queue.SimpleQueue()
    waiting = [row for row in rows if options.deep or row.tier == "quick"]
    for row in waiting.copy():
        _start(row, asked, options, results.put)
    for row in rows:
        if row not in waiting:
            yield row, DEEP_ONLY
    end = time.monotonic() + deadline_s
    while waiting:
        try:
            row, result = results.get(timeout=max(end - time.monotonic(), 0))
        except queue.Empty:
            break
        waiting.remove(row)
        yield row, result
    for row in waiting:
        yield row, Unknown(Reason.TIMEOUT, f"{row.title} took longer than {deadline_s:g} s")


def assemble(source_title: str, results: Iterable[Result]) -> MachineFacts:
    """The facts of the collectors that have answered. What a failed one provides is unknown for its reason."""
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


def _start(row: ProbeRow, source: Source, options: CollectOptions, put: Callable[[Result], None]) -> None:
    try:
        # Not on the thread: threads that import at the same time mostly wait for each other.
        collect = row.load().collect
    except Exception as error:  # noqa: BLE001 - the facts of the others survive
        put((row, _crashed(row, error)))
        return

    def work() -> None:
        try:
            put((row, _checked(row, collect(source, options))))
        except Exception as error:  # noqa: BLE001 - likewise
            put((row, _crashed(row, error)))

    threading.Thread(target=work, name=f"rigtune-{row.id}", daemon=True).start()


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
