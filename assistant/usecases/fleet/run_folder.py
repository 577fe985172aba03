"""The folder of one run over a fleet: raw lines as they arrived, and the outcome of each node."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from assistant.engines.node_command import one_line
from assistant.storage import appending, complete_bytes, complete_lines, read_bytes, write_record
from probes.base.errors import InputError, UsageError
from probes.base.record import Record
from probes.fleet.node_report import (
    LONGEST_ANSWER_BYTES,
    Metric,
    NodeEnd,
    NodeLine,
    NodeReport,
    Outcome,
    is_node_name,
)
from probes.fleet.question import Question

RAW, OUTCOMES, META = "raw.jsonl", "outcomes.jsonl", "meta.json"
_LONGEST_TEXT = 2000
_LONGEST_LINE = 8 * LONGEST_ANSWER_BYTES
"""Bytes of a line of a journal: in JSON, a character of an answer may take six characters."""
Moment = Annotated[float, msgspec.Meta(ge=0, lt=253402300800)]
"""Seconds since 1970, up to the year 9999."""


def recording_of(node: str) -> str:
    """Return the file of a node's recording below the folder of its run."""
    return f"recordings/{node}.json.gz"


class RunMeta(Record, kw_only=True):
    """Facts about a run that no answer contains."""

    engine: str
    engine_reason: str
    wanted: tuple[str, ...]
    places: dict[str, dict[str, str]] = {}
    """Rack, switch and the like of each node, by name of the attribute."""
    question: Question | None = None
    """Question that the answers belong to; None if nobody recorded the question."""


def write_meta(folder: Path, meta: RunMeta) -> RunMeta:
    """Keep the facts about a run, and return them; nodes and places of an earlier call stay known.

    Raises OutputError, and UsageError if the folder has the answers to another question.
    """
    earlier = read_meta(folder)
    if earlier is not None:
        wanted = tuple(dict.fromkeys((*earlier.wanted, *meta.wanted)))
        if meta.question is not None:
            require_same_question(folder, meta.question)
        meta = msgspec.structs.replace(
            meta, wanted=wanted, places={**earlier.places, **meta.places}, question=earlier.question
        )
    write_record(folder / META, meta)
    return meta


def read_meta(folder: Path) -> RunMeta | None:
    """Return the facts about a run; None for a folder without them. Raises InputError."""
    path = folder / META
    if not path.exists():
        return None
    try:
        meta = msgspec.json.decode(read_bytes(path), type=RunMeta)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: {error}", "remove the file; places of nodes are lost with it") from None
    if strange := next((node for node in meta.wanted if not is_node_name(node)), None):
        raise InputError(f"{path}: {strange[:60]!r} is not a host name", "remove the file")
    return meta


def require_same_question(folder: Path, question: Question) -> None:
    """Raise UsageError if the folder has answers to another question, which would not be replaced."""
    meta = read_meta(folder)
    earlier = meta.question if meta is not None else None
    if earlier is not None and earlier.identity != question.identity:
        raise UsageError(
            f"the answers in {folder} are of another check ({earlier.words}; now: {question.words})",
            "give another --out",
        )


def unanswered(folder: Path, reports: tuple[NodeReport, ...]) -> tuple[str, ...]:
    """Return the nodes without an answer in the folder, from its reports of all wanted nodes.

    An answer is a recording, or a report with the outcome `ok` or `exit`. A command that could not start, or
    that is another program, has an outcome, but gives no answer.
    """
    return tuple(
        each.node
        for each in reports
        if (each.verdict is None or each.outcome not in ("ok", "exit"))
        and not (folder / recording_of(each.node)).exists()
    )


@contextmanager
def journal(folder: Path) -> Iterator[Callable[[NodeLine | NodeEnd], None]]:
    """Yield a function that keeps a line or an outcome on disk before it returns. Raises OutputError.

    A line that is not JSON is kept too, as text, so that nothing of an answer is lost.
    """
    raw, outcomes = folder / RAW, folder / OUTCOMES
    with (
        appending(raw, complete_bytes(raw)) as append_raw,
        appending(outcomes, complete_bytes(outcomes)) as append_outcome,
    ):
        raw.chmod(0o600)
        outcomes.chmod(0o600)

        since = time.time()

        def keep(event: NodeLine | NodeEnd) -> None:
            if isinstance(event, NodeLine):
                text = event.text.decode("utf-8", "replace")
                entry = {"node": event.node, "since": since, "at": time.time(), "text": text}
                append_raw(json.dumps(entry).encode() + b"\n")
            else:
                append_outcome(json.dumps(event._asdict()).encode() + b"\n")

        yield keep


def ends_of(folder: Path) -> dict[str, NodeEnd]:
    """Return the outcome of each node that has ended. Raises InputError for a file of other content."""
    ends = {}
    for number, line in enumerate(complete_lines(folder / OUTCOMES, longest_bytes=_LONGEST_LINE), 1):
        end = _decoded(line, _End, f"{folder / OUTCOMES}, line {number}")
        ends[end.node] = NodeEnd(end.node, end.outcome, end.exit_code, end.detail)
    return ends


def unfinished(node: str) -> NodeEnd:
    """Return the end of a node that has no end in the journal."""
    return NodeEnd(node, "no-answer", None, "the run was stopped before this node ended")


def nodes_in(folder: Path) -> tuple[str, ...]:
    """Return the nodes that ended or sent a line, in the order of their ends. Raises InputError."""
    senders = (_decoded(line, _Sender, str(folder / RAW)).node for line in _raw_lines(folder))
    return tuple(dict.fromkeys((*ends_of(folder), *senders)))


def reports_of(folder: Path, wanted: tuple[str, ...]) -> tuple[NodeReport, ...]:
    """Return one report for each wanted node, from the lines and outcomes of the folder.

    The lines of a node are untrusted: a line that is no report is left out and reported, and control
    characters are replaced.
    """
    ends = ends_of(folder)
    sent: dict[str, NodeReport] = {}
    faults: dict[str, str] = {}
    for line in _raw_lines(folder):
        entry = _decoded(line, _Entry, str(folder / RAW))
        node = entry.node
        try:
            report = _report(node, entry.text)
            sent[node] = msgspec.structs.replace(
                report, clock_offset_s=_offset_s(report.clock_s, entry.since, entry.at)
            )
        except (ValueError, OverflowError, RecursionError) as error:
            faults[node] = f"sent something that is no report: {one_line(str(error))}"
    places = meta.places if (meta := read_meta(folder)) is not None else {}
    return tuple(
        msgspec.structs.replace(
            _joined(sent.get(node), ends.get(node) or unfinished(node), faults.get(node, "")),
            places=places.get(node, {}),
        )
        for node in wanted
    )


def began_at(folder: Path) -> float | None:
    """Return when the run of this folder began, in seconds since 1970; None before the first answer."""
    first = next(_raw_lines(folder), None)
    return None if first is None else _decoded(first, _Entry, str(folder / RAW)).since


class _Sender(Record, kw_only=True):
    """The node of a line of either journal."""

    node: str


class _Entry(_Sender, kw_only=True):
    """One line of the raw journal."""

    since: Moment
    """Start of the command, in seconds since 1970."""
    at: Moment
    """Arrival of the line."""
    text: str


class _End(_Sender, kw_only=True):
    """One line of the journal of outcomes."""

    outcome: Outcome
    exit_code: int | None = None
    detail: str = ""


Line = TypeVar("Line", bound=_Sender)


def _raw_lines(folder: Path) -> Iterator[bytes]:
    return complete_lines(folder / RAW, longest_bytes=_LONGEST_LINE)


def _decoded(line: bytes, kind: type[Line], place: str) -> Line:
    """Return a line of a journal. Raises InputError for other content, also for a wrong name of a node."""
    try:
        entry = msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{place}: {error}", "remove this line") from None
    if not is_node_name(entry.node):
        raise InputError(f"{place}: {entry.node[:60]!r} is not a host name", "remove this line")
    return entry


def _report(node: str, text: str) -> NodeReport:
    values = _clean(msgspec.json.decode(text))  # refuses NaN and numbers beyond a double
    if not isinstance(values, dict):
        raise ValueError("a report is a JSON object")
    claimed = str(values.get("node", node))
    report = msgspec.convert({**values, "node": node, "outcome": "ok"}, NodeReport)
    metrics = tuple(_owned(metric, node) for metric in report.metrics)
    report = msgspec.structs.replace(report, metrics=metrics)
    same = claimed.split(".", maxsplit=1)[0].lower() == node.split(".", maxsplit=1)[0].lower()
    return report if same else msgspec.structs.replace(report, claims=claimed)


def _owned(metric: Metric, node: str) -> Metric:
    """Return the metric; a part without an identity gets the name of the asked node and its slot."""
    if metric.part_kind != "node":
        return metric
    return msgspec.structs.replace(metric, part_id=f"{node} {metric.slot}".strip())


def _offset_s(clock_s: float | None, since_s: float, at_s: float) -> float | None:
    """Return by how many seconds the node's clock is after `at_s`, or before `since_s` (negative); else 0.

    None if the node did not send the time of its clock.
    """
    if clock_s is None:
        return None
    return max(0.0, clock_s - at_s) + min(0.0, clock_s - since_s)


def _clean(value: Any) -> Any:
    """Return the value with printable text of limited length.

    Equal texts of all nodes, such as ids of checks, are one object: 10 000 nodes send a million of them.
    """
    if isinstance(value, str):
        return sys.intern(one_line(value, _LONGEST_TEXT))
    if isinstance(value, dict):
        return {sys.intern(one_line(str(name))): _clean(part) for name, part in value.items()}
    return [_clean(part) for part in value] if isinstance(value, list) else value


def _joined(report: NodeReport | None, end: NodeEnd, fault: str) -> NodeReport:
    """Return the report with the outcome; a report that arrived counts whatever the outcome is."""
    detail = fault or one_line(end.detail)
    if report is None:
        if end.outcome == "ok" and not detail:
            detail = "ended without a report: is this rigtune on the node?"
        return NodeReport(
            node=end.node, outcome="exit" if end.outcome == "ok" else end.outcome, detail=detail
        )
    return msgspec.structs.replace(
        report, outcome=end.outcome, detail=detail if end.outcome != "ok" else fault
    )
