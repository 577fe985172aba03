"""What the parsers of other tools' measurements share: numbers, prefixes of launchers, JSON objects among
other lines.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable

from probes.facts import ToolResult

_PREFIX = re.compile(r"\[\d{1,6}(?:,\d{1,6})?\](?:<std(?:out|err)>)?:? ?|\d{1,6}: ")
"""What `mpirun --tag-output`, `srun --label` and PRRTE put before each line."""
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,18})?(?:[eE][+-]?\d{1,3})?")
_GPU = re.compile(r"GPU\d{1,4}")
_MOST_STARTS = 64
"""Braces that are tried as the beginning of an object; warnings may hold some."""


def untagged(line: str) -> str:
    """`line` without what a launcher puts before it."""
    match = _PREFIX.match(line)
    return line[match.end() :] if match else line


def number(text: str) -> float | None:
    """A finite decimal number; None for all else."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def json_object(text: str, key: str) -> tuple[dict[str, object], int, int] | None:
    """The first JSON object in `text` with `key`, and where it begins and ends. Lines around it, with braces
    of their own, are skipped; None where there is no whole object.
    """
    place = text.find(f'"{key}"')
    if place < 0:
        return None
    decoder = json.JSONDecoder()
    start = text.rfind("{", 0, place)
    for _ in range(_MOST_STARTS):
        if start < 0:
            return None
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value, end = None, 0
        if isinstance(value, dict) and key in value:
            return value, start, end
        start = text.rfind("{", 0, start)
    return None


def line_at(text: str, position: int) -> int:
    """The line of a position, from 1."""
    return text.count("\n", 0, position) + 1


def gpus_measured(results: Iterable[ToolResult]) -> tuple[int, ...]:
    """The numbers of the GPUs that are subjects of bandwidths."""
    names = {name for result in results if result.metric == "bandwidth" for name in result.subject.split("-")}
    return tuple(sorted(int(name[3:]) for name in names if _GPU.fullmatch(name)))
