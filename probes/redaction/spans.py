"""Parts of a text that are replaced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """`text[start:end]` becomes `replacement`."""

    start: int
    end: int
    kind: str
    replacement: str


def settle(spans: Iterable[Span]) -> list[Span]:
    """Spans that do not overlap, in order. Of two that overlap, one that contains the other wins, and else
    the earlier rule; the rest of the loser is cut out, so that no half of a value stays.
    """
    chosen: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):  # stable: the earlier rule first
        if not chosen or span.start >= chosen[-1].end:
            chosen.append(span)
        elif span.end > chosen[-1].end:
            chosen.append(Span(chosen[-1].end, span.end, span.kind, ""))
    return chosen


def rewrite(text: str, spans: Iterable[Span]) -> str:
    """`text` with the settled `spans` replaced."""
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += (text[at : span.start], span.replacement)
        at = span.end
    parts.append(text[at:])
    return "".join(parts)
