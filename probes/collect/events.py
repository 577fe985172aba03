"""Events of logs: the kernel's ring buffer on a live machine, and every log that a person gave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from probes.base.record import Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import LogEvent, Unread
from probes.reading.readers.text_reader import Output, outputs
from probes.sources.base import Source

_DMESG = ("dmesg",)
"""The ring buffer, which begins with the boot: a few milliseconds, and the same words in every version of the
tool.
"""
_JOURNAL = ("journalctl", "-k", "-b", "-o", "short-iso", "--no-pager", "-q")
_TIMEOUT_S = 5.0
_JOURNAL_TIMEOUT_S = 20.0
_REFUSALS = ("not permitted", "Permission denied", "insufficient permissions")


class _Read(NamedTuple):
    """The events of one text, and its unread lines."""

    events: tuple[LogEvent, ...]
    unread: tuple[Unread, ...] = ()


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `events` and the kinds of log that they come from (`logs`)."""
    kernel = _kernel_logs(source, options)
    nccl, manager = outputs(source, "nccl-log"), outputs(source, "fabric-manager-log")
    reads_by_kind: dict[str, list[_Read]] = {}
    for kind, texts, read in (
        ("kernel-log", kernel, _read_kernel),
        ("nccl-log", nccl, _read_nccl),
        ("fabric-manager-log", manager, _read_manager),
    ):
        if not isinstance(texts, Unknown):
            reads_by_kind[kind] = [read(output) for output in texts]
    if not reads_by_kind:
        return {"events": kernel, "logs": kernel}
    reads = [read for kind in reads_by_kind.values() for read in kind]
    return {
        "events": _once([event for read in reads for event in read.events]),
        "logs": tuple(reads_by_kind),
        "unread": tuple(item for read in reads for item in read.unread),
    }


def _kernel_logs(source: Source, options: CollectOptions) -> tuple[Output, ...] | Unknown:
    """Return every kernel log of the source; a live machine's journal only if the ring buffer is closed."""
    texts = outputs(source, "kernel-log", _DMESG, timeout_s=_TIMEOUT_S)
    if (
        isinstance(texts, Unknown)
        and texts.reason is not Reason.TIMEOUT
        and (options.deep or not source.is_live)
    ):
        journal = outputs(source, "kernel-log", _JOURNAL, timeout_s=_JOURNAL_TIMEOUT_S)
        if not isinstance(journal, Unknown) and any(" kernel: " in output.text for output in journal):
            return journal
    if isinstance(texts, Unknown) and any(words in texts.detail for words in _REFUSALS):
        return Unknown(Reason.PERMISSION, texts.detail)
    return texts


def _read_kernel(output: Output) -> _Read:
    from probes.parsers.kernel.kernel_log import parse_kernel_log  # noqa: PLC0415 - not before there is a log

    log = parse_kernel_log(output.text)
    unread = tuple(
        Unread(
            source=output.evidence.key,
            line=line.number,
            text=line.text,
            why="an Xid or SXid without a number",
        )
        for line in log.unread
    )
    return _Read(_with_lines(output, log.events), unread)


def _read_nccl(output: Output) -> _Read:
    from probes.parsers.tools.nccl_log import parse_nccl_log  # noqa: PLC0415 - pastes

    return _Read(_with_lines(output, parse_nccl_log(output.text)))


def _read_manager(output: Output) -> _Read:
    from probes.parsers.fabric.fabric_manager_log import parse_fabric_manager_log  # noqa: PLC0415 - pastes

    return _Read(_with_lines(output, parse_fabric_manager_log(output.text)))


def _with_lines(output: Output, events: Iterable[LogEvent]) -> tuple[LogEvent, ...]:
    return tuple(
        msgspec.structs.replace(event, evidence=(output.line(event.line) if event.line else output.evidence,))
        for event in events
    )


def _once(events: list[LogEvent]) -> tuple[LogEvent, ...]:
    """Two logs of one machine tell of the same event: the one that saw more of it counts."""
    best: dict[tuple[object, ...], LogEvent] = {}
    for event in events:
        key = (event.kind, event.code, event.sub_code, event.device, event.message)
        rival = best.get(key)
        if rival is None or event.count > rival.count:
            best[key] = event
    return tuple(best.values())
