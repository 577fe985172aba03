"""Run the collectors over a source and put their answers together."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from probes.facts import MachineFacts
from probes.once import AskedOnce
from probes.record import Reason, Record, Unknown
from probes.registry import PROBES, ProbeRow
from probes.sources.base import Source

Result = tuple[ProbeRow, dict[str, object] | Unknown]

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


def gather(
    source: Source, options: CollectOptions, rows: Sequence[ProbeRow] = PROBES, deadline_s: float = DEADLINE_S
) -> Iterator[Result]:
    """The answers of all collectors, in the order of the table.

    Each runs on a daemon thread of its own, so that one that hangs in the kernel delays neither the others nor the end of
    the program; it becomes Unknown (timeout). One that crashes becomes Unknown (error) with the last line of its traceback.
    """
    asked = AskedOnce(source)
    running = [(row, _start(row, asked, options)) for row in rows]
    end = time.monotonic() + deadline_s
    for row, answer in running:
        try:
            yield row, answer.result(max(end - time.monotonic(), 0))
        except FutureTimeoutError:
            yield row, Unknown(Reason.TIMEOUT, f"{row.title} took longer than {deadline_s:g} s")


def assemble(source_title: str, results: Iterable[Result]) -> MachineFacts:
    """The facts of the collectors that have answered. What a failed one provides is unknown for its reason."""
    fields: dict[str, object] = {}
    for row, result in results:
        if isinstance(result, Unknown):
            fields.update({name: _unknown_field(name, result) for name in row.provides})
        else:
            fields.update(result)
    return MachineFacts(source=source_title, **fields)  # type: ignore[arg-type]


def _start(row: ProbeRow, source: Source, options: CollectOptions) -> Future[dict[str, object] | Unknown]:
    answer: Future[dict[str, object] | Unknown] = Future()
    try:
        # Not on the thread: threads that import at the same time mostly wait for each other.
        collect = row.load().collect
    except Exception as error:  # noqa: BLE001 - the facts of the others survive
        answer.set_result(_crashed(row, error))
        return answer

    def work() -> None:
        try:
            answer.set_result(_checked(row, collect(source, options)))
        except Exception as error:  # noqa: BLE001 - likewise
            answer.set_result(_crashed(row, error))

    threading.Thread(target=work, name=f"rigtune-{row.id}", daemon=True).start()
    return answer


def _crashed(row: ProbeRow, error: Exception) -> Unknown:
    return Unknown(Reason.ERROR, f"{row.id}: {traceback.format_exception_only(error)[-1].strip()}")


def _checked(row: ProbeRow, fields: dict[str, object]) -> dict[str, object]:
    if set(fields) != set(row.provides):
        raise ValueError(f"returned {sorted(fields)} and not {sorted(row.provides)}")
    return fields


def _unknown_field(name: str, unknown: Unknown) -> object:
    """`unknown` itself, or a record all of whose unknown leaves have its reason."""
    default = getattr(MachineFacts(), name)
    if not isinstance(default, Record):
        return unknown
    leaves = [leaf for leaf in default.__struct_fields__ if isinstance(getattr(default, leaf), Unknown)]
    return type(default)(**dict.fromkeys(leaves, unknown))
