"""Comments that waive rules: `# rigtune: ignore=RULE[,RULE] reason`.

At the end of a line the comment applies to that line; on a line of its own it applies to the next line that
is no comment, with all its continuations. `ignore-file` applies to the whole file. Without names, or with
`all`, every rule is waived.
"""

from __future__ import annotations

import re

_WAIVER = re.compile(r"(?:#|//)\s*rigtune:\s*(ignore(?:-file)?)\b(?:=([\w,-]*))?")
_COMMENT = re.compile(r"\s*(#|//|$)")


def waived_in(text: str) -> dict[int, tuple[str, ...]]:
    """Return the waived rules by line; 0 is the whole file."""
    if "rigtune:" not in text:
        return {}
    lines = text.split("\n")
    waived: dict[int, tuple[str, ...]] = {}
    for number, line in enumerate(lines, start=1):
        match = _WAIVER.search(line)
        if match is None:
            continue
        rules = tuple(name for name in (match[2] or "").split(",") if name) or ("all",)
        if match[1] == "ignore-file":
            waived[0] = waived.get(0, ()) + rules
            continue
        first = number
        if _COMMENT.match(line):
            first += 1
            while first < len(lines) and _COMMENT.match(lines[first - 1]):
                first += 1
        for covered in _statement(lines, first):
            waived[covered] = waived.get(covered, ()) + rules
    return waived


def _statement(lines: list[str], first: int) -> range:
    last = first
    while last < len(lines) and lines[last - 1].rstrip("\r").endswith("\\"):
        last += 1
    return range(first, last + 1)
