"""Parse a worker's answer file: one JSON object per line, each named by `event`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from probes.base.record import Record
from probes.bench.bench_requests import Case
from probes.facts.measurements import Parameter


class StartLine(Record, kw_only=True, tag_field="event", tag="start"):
    """The first line: the rank and its conditions."""

    rank: int
    world_size: int
    uuid: str = ""
    conditions: dict[str, Parameter] = {}


class SampleLine(Record, kw_only=True, tag_field="event", tag="sample"):
    """The samples of one case: seconds per call."""

    case: Case
    durations_s: tuple[float, ...]
    figures: dict[str, float] = {}
    series: dict[str, tuple[float, ...]] = {}
    """Values over time, one per sample."""


class SkippedLine(Record, kw_only=True, tag_field="event", tag="skipped"):
    """A case that was omitted because it would exceed the time budget."""

    case: Case
    message: str


class FailureLine(Record, kw_only=True, tag_field="event", tag="failure"):
    """A failure of a case, or of the whole worker if `case` is empty."""

    kind: str
    message: str
    case: Case = {}


class DoneLine(Record, kw_only=True, tag_field="event", tag="done"):
    """The last line of a complete answer."""

    conditions: dict[str, Parameter] = {}
    """Conditions at the end of the measurement."""


WorkerLine = StartLine | SampleLine | SkippedLine | FailureLine | DoneLine
LinesByRank = Mapping[int, tuple[WorkerLine, ...]]

_DECODER = msgspec.json.Decoder(WorkerLine)


def parse_worker_lines(data: bytes) -> tuple[WorkerLine, ...]:
    """Return all complete, well-formed lines in order.

    Text after the last newline is still being written, or was when the worker died. Malformed lines are
    ignored, so that a damaged file becomes an incomplete answer rather than a wrong answer.
    """
    lines: list[WorkerLine] = []
    for raw in data.split(b"\n")[:-1]:
        try:
            lines.append(_DECODER.decode(raw))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return tuple(lines)
