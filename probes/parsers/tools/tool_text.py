"""Helpers for parsers of measuring tools: numbers, prefixes of launchers, JSON objects among other lines."""

import json
import math
import re
from collections.abc import Iterable, Iterator

from probes.base.record import Reason, Unknown, line_ref
from probes.facts import ToolResult

_PREFIX = re.compile(r"\[\d{1,6}(?:,\d{1,6})?\](?:<std(?:out|err)>)?:? ?|\d{1,6}: ")
"""Prefix that `mpirun --tag-output`, `srun --label` and PRRTE put before each line."""
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?")
_GPU = re.compile(r"GPU\d{1,4}")
_MOST_STARTS = 64
"""Maximum number of braces that are tried as the beginning of an object; warnings may contain many braces."""
TOOL_ERROR = Unknown(Reason.ERROR, "the tool reported an error")


def status_result(
    tool: str,
    message: str,
    line: int,
    *,
    test: str = "run",
    subject: str = "host",
    value: Unknown = TOOL_ERROR,
) -> ToolResult:
    """Return a result without a number: an error message of a tool, or its verdict on a test."""
    return ToolResult(
        tool=tool,
        test=test,
        subject=subject,
        metric="status",
        value=value,
        unit="",
        message=message.strip()[:300],
        evidence=(line_ref(line),),
    )


def untagged(line: str) -> str:
    """Return `line` without the prefix of a launcher."""
    match = _PREFIX.match(line)
    return line[match.end() :] if match else line


def untagged_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return each line without the prefix of a launcher, with its number; the first line is number 1."""
    return enumerate(map(untagged, text.split("\n")), 1)


def number(text: str) -> float | None:
    """Return a finite decimal number; None for any other text."""
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def json_object(text: str, key: str) -> tuple[dict[str, object], int, int] | None:
    """Return the first JSON object in `text` that has `key`, with the positions of its beginning and end.

    Lines before and after the object may contain braces too. Without a complete object, return None.
    """
    place = text.find(f'"{key}"')
    if place < 0:
        return None
    start = text.rfind("{", 0, place)
    for _ in range(_MOST_STARTS):
        if start < 0:
            return None
        try:
            value, end = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            value, end = None, 0
        if isinstance(value, dict) and key in value:
            return value, start, end
        start = text.rfind("{", 0, start)
    return None


def line_at(text: str, position: int) -> int:
    """Return the number of the line at a position; the first line is number 1."""
    return text.count("\n", 0, position) + 1


def gpus_measured(results: Iterable[ToolResult]) -> tuple[int, ...]:
    """Return the numbers of the GPUs whose bandwidths were measured, in order."""
    names = {name for result in results if result.metric == "bandwidth" for name in result.subject.split("-")}
    return tuple(sorted(int(name[3:]) for name in names if _GPU.fullmatch(name)))
