"""Replace ids that a cloud gives to machines, networks and customers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from probes.redaction.placeholders import Book
from probes.redaction.spans import Span

_AWS = re.compile(
    r"(?<![A-Za-z0-9-])(i|vpc|subnet|eni|ami|vol|snap|sg|rtb|igw|lt|cr|fs|eipalloc)-([0-9a-f]{17}|"
    r"[0-9a-f]{8})(?![0-9A-Za-z])"
)
_ARN = re.compile(r"\barn:aws[\w-]*:[\w-]*:[\w-]*:(\d{12}):")
_OCID = re.compile(r"\bocid1\.[a-z0-9]+\.[a-z0-9-]*\.[a-z0-9-]*\.([a-z0-9]{20,})")
_NAMED = re.compile(
    r"(?i)\b(?:instance[_-]?id|vm[_-]?id|account[_-]?id|owner[_-]?id|subscription[_-]?id|project[_-]?id|"
    r"numeric[_-]?project[_-]?id)"
    r"[\"'\]]{0,2}[ \t]*[:=][ \t]*[\"']?([A-Za-z0-9][A-Za-z0-9_.-]{5,80})"
)
_PROJECT = re.compile(r"\bprojects/([a-z0-9][a-z0-9-]{3,62})/")


def cloud_spans(text: str, book: Book) -> Iterator[Span]:
    for match in _AWS.finditer(text):
        yield Span(
            *match.span(2),
            "cloud",
            book.placeholder("cloud", match[2], lambda value: book.digits("cloud", value, 17)),
        )
    for match in _ARN.finditer(text):
        yield Span(
            *match.span(1),
            "cloud",
            book.placeholder("cloud", match[1], lambda value: book.digits("cloud", value, 12, "0123456789")),
        )
    for pattern in (_OCID, _NAMED, _PROJECT):
        for match in pattern.finditer(text):
            yield Span(*match.span(1), "cloud", book.word("cloud", match[1].lower(), "id"))
