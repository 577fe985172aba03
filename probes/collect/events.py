"""Collect events of logs: the kernel's ring buffer on a live machine, and every log file of the input."""

from collections.abc import Iterator

import msgspec

from probes.base.record import Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import LogEvent, Unread
from probes.reading.texts import Output, outputs
from probes.sources.base import Source

_DMESG = ("dmesg",)
"""Command that prints the ring buffer since boot: it is fast, and its output is equal in every version."""
_JOURNAL = ("journalctl", "-k", "-b", "-o", "short-iso", "--no-pager", "-q")
_TIMEOUT_S = 5.0
_JOURNAL_TIMEOUT_S = 20.0
_REFUSALS = ("not permitted", "Permission denied", "insufficient permissions")


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return `events` and the kinds of log that they come from (`logs`)."""
    kernel = _kernel_logs(source, options)
    all_texts = {
        "kernel-log": kernel,
        "nccl-log": outputs(source, "nccl-log"),
        "fabric-manager-log": outputs(source, "fabric-manager-log"),
    }
    texts_by_kind = {kind: texts for kind, texts in all_texts.items() if not isinstance(texts, Unknown)}
    if not texts_by_kind:
        return {"events": kernel, "logs": kernel}
    events: list[LogEvent] = []
    unread: list[Unread] = []
    for kind, texts in texts_by_kind.items():
        for output in texts:
            events += _read(kind, output, unread)
    return {"events": _once(events), "logs": tuple(texts_by_kind), "unread": tuple(unread)}


def _kernel_logs(source: Source, options: CollectOptions) -> tuple[Output, ...] | Unknown:
    """Return every kernel log of the source.

    The journal is read only if the ring buffer cannot be read, and on a live machine only by deep checks.
    """
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


def _read(kind: str, output: Output, unread: list[Unread]) -> Iterator[LogEvent]:
    """Yield the events of a text with their lines as evidence, and add the lines that cannot be read."""
    # A parser's module is loaded only if a log of its kind exists.
    match kind:
        case "kernel-log":
            from probes.parsers.kernel.kernel_log import parse_kernel_log  # noqa: PLC0415

            log = parse_kernel_log(output.text)
            events, why = log.events, "an Xid or SXid without a number"
            source = output.evidence.key
            unread += [Unread(source=source, line=row.number, text=row.text, why=why) for row in log.unread]
        case "nccl-log":
            from probes.parsers.tools.nccl_log import parse_nccl_log  # noqa: PLC0415

            events = parse_nccl_log(output.text)
        case _:
            from probes.parsers.fabric.fabric_manager_log import parse_fabric_manager_log  # noqa: PLC0415

            events = parse_fabric_manager_log(output.text)
    for event in events:
        evidence = output.line(event.line) if event.line else output.evidence
        yield msgspec.structs.replace(event, evidence=(evidence,))


def _once(events: list[LogEvent]) -> tuple[LogEvent, ...]:
    """Return each event once.

    If two logs contain the same event, the report with the larger count is used.
    """
    best: dict[tuple[object, ...], LogEvent] = {}
    for event in events:
        key = (event.kind, event.code, event.sub_code, event.after, event.device, event.message)
        rival = best.get(key)
        if rival is None or event.count > rival.count:
            best[key] = event
    return tuple(best.values())
