"""Placeholders, one for each value, in a form that parsers accept, and the text spans that they replace."""

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

KINDS: dict[str, str] = {
    "secret": "passwords, tokens and keys",
    "hostname": "host names",
    "domain": "DNS domains",
    "user": "user names",
    "job": "names of jobs, accounts and clusters",
    "email": "e-mail addresses",
    "serial": "serial numbers and asset tags",
    "uuid": "UUIDs",
    "guid": "GUIDs of the fabric and hashes of hosts",
    "mac": "MAC addresses",
    "ip": "IP addresses (subnets stay subnets)",
    "cloud": "ids of cloud instances and accounts",
}
"""Titles of the kinds of replaced values, in the order of the manifest."""


class Book:
    """Placeholders by kind and value, and the number of replacements of each kind.

    A placeholder is a keyed hash (HMAC-SHA256) of the value: without the salt, nobody can find the value by
    trying likely values. Two values of a kind share a placeholder only if they are numbers so short that few
    placeholders exist.
    """

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._given: dict[tuple[str, str], str] = {}
        self._used: set[tuple[str, str]] = set()
        self.values: dict[str, set[str]] = {kind: set() for kind in KINDS}
        """Values in the texts, by kind, in their canonical spelling."""
        self.places: Counter[str] = Counter()
        self.replacements: dict[str, set[str]] = {kind: set() for kind in KINDS}

    def count(self, kind: str, replacement: str) -> None:
        """Count one replaced occurrence."""
        if kind in self.replacements:
            self.places[kind] += 1
            self.replacements[kind].add(replacement.lower())

    def forget_counts(self) -> None:
        self.places.clear()
        for replacements in self.replacements.values():
            replacements.clear()

    def digits(self, kind: str, value: str, count: int, alphabet: str = "0123456789abcdef") -> str:
        """Return `count` characters that depend on the salt, the kind and the value."""
        number = int.from_bytes(
            b"".join(self._hash(kind, value, part) for part in range(count // 32 + 1)), "big"
        )
        characters = []
        for _ in range(count):
            number, remainder = divmod(number, len(alphabet))
            characters.append(alphabet[remainder])
        return "".join(characters)

    def bits(self, kind: str, value: str) -> int:
        """Return 256 bits that depend on the salt, the kind and the value."""
        return int.from_bytes(self._hash(kind, value, 0), "big")

    def placeholder(self, kind: str, value: str, make: Callable[[str], str]) -> str:
        """Return the placeholder of the canonical `value`.

        The placeholder is `make(value)`. If another value has this placeholder already, `make` is called with
        a suffix added to the value, at most 100 times.
        """
        self.values[kind].add(value)
        known = self._given.get((kind, value))
        if known is not None:
            return known
        attempt, candidate = 0, make(value)
        while (kind, candidate) in self._used and attempt < 100:  # a short number has only few placeholders
            attempt += 1
            candidate = make(f"{value}\0{attempt}")
        self._given[kind, value] = candidate
        self._used.add((kind, candidate))
        return candidate

    def word(self, kind: str, value: str, prefix: str) -> str:
        """Return a placeholder such as `host-3fa9c1d2`."""
        return self.placeholder(kind, value, lambda text: f"{prefix}-{self.digits(kind, text, 8)}")

    def _hash(self, kind: str, value: str, part: int) -> bytes:
        return hmac.new(
            self._salt, f"{kind}\0{part}\0{value}".encode("utf-8", "replace"), hashlib.sha256
        ).digest()


class Span(NamedTuple):
    """The part `text[start:end]` and its `replacement`."""

    start: int
    end: int
    kind: str
    replacement: str


def settle(spans: Iterable[Span]) -> list[Span]:
    """Return spans that do not overlap, in order.

    If two spans overlap, the span that starts first wins; of spans with the same start, the longest wins, and
    of equal spans, that of the earlier rule. The part of a losing span that extends beyond the winner is
    removed from the text, so that no part of a value remains.
    """
    chosen: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):  # stable
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
