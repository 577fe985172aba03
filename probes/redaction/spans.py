"""Parts of a text that are replaced."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """The part `text[start:end]` and its `replacement`."""

    start: int
    end: int
    kind: str
    replacement: str


def settle(spans: Iterable[Span]) -> list[Span]:
    """Return spans that do not overlap, in order.

    If two overlap, a span that contains the other wins, otherwise the earlier rule. The remainder of the
    losing span is cut out, so that no part of a value remains.
    """
    chosen: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):  # stable: the earlier rule first
        if not chosen or span.start >= chosen[-1].end:
            chosen.append(span)
        elif span.end > chosen[-1].end:
            chosen.append(Span(chosen[-1].end, span.end, span.kind, ""))
    return chosen


def rewrite(text: str, spans: Iterable[Span]) -> str:
    """Return `text` with the settled `spans` replaced."""
    parts: list[str] = []
    position = 0
    for span in spans:
        parts += (text[position : span.start], span.replacement)
        position = span.end
    parts.append(text[position:])
    return "".join(parts)
