"""Reads a worker's answer file: one JSON object per line, each named by `event`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from probes.base.record import Record
from probes.bench.bench_requests import Case
from probes.facts.measurements import Parameter


class StartLine(Record, kw_only=True, tag_field="event", tag="start"):
    """The first line: who answers, and under which conditions."""

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
    """What was seen over time: one value per sample."""


class SkippedLine(Record, kw_only=True, tag_field="event", tag="skipped"):
    """A case that was left out because it would overrun the time budget."""

    case: Case
    message: str


class FailureLine(Record, kw_only=True, tag_field="event", tag="failure"):
    """A case, or with an empty `case` the whole worker, failed."""

    kind: str
    message: str
    case: Case = {}


class DoneLine(Record, kw_only=True, tag_field="event", tag="done"):
    """The last line of a complete answer."""

    conditions: dict[str, Parameter] = {}
    """What surrounds the measurement at its end."""


WorkerLine = StartLine | SampleLine | SkippedLine | FailureLine | DoneLine
LinesByRank = Mapping[int, tuple[WorkerLine, ...]]

_DECODER = msgspec.json.Decoder(WorkerLine)


def parse_worker_lines(data: bytes) -> tuple[WorkerLine, ...]:
    """All complete, well-formed lines in order.

    What follows the last newline is still being written, or was when the worker died; lines that are no
    answer are left out, so a damaged file ends as an incomplete answer rather than as a wrong one.
    """
    lines: list[WorkerLine] = []
    for raw in data.split(b"\n")[:-1]:
        try:
            lines.append(_DECODER.decode(raw))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return tuple(lines)
