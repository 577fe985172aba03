"""What stands for a value that was taken out: the same for the same value, of a form that parsers still
read.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable

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
"""Kinds of what is replaced, in words, in the order in which they are told."""


class Book:
    """Placeholders by kind and value, and how often each kind was replaced.

    A placeholder is a keyed hash of the value (HMAC-SHA256), so it cannot be turned back by trying likely
    values without the salt. Two values of a kind never share one.
    """

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._given: dict[tuple[str, str], str] = {}
        self._used: set[tuple[str, str]] = set()
        self.values: dict[str, set[str]] = {kind: set() for kind in KINDS}
        """Values seen, by kind, in their canonical spelling."""
        self.places: Counter[str] = Counter()
        self.replacements: dict[str, set[str]] = {kind: set() for kind in KINDS}

    def count(self, kind: str, replacement: str) -> None:
        """One place where a value was replaced."""
        if kind in self.replacements:
            self.places[kind] += 1
            self.replacements[kind].add(replacement.lower())

    def forget_counts(self) -> None:
        self.places.clear()
        for replacements in self.replacements.values():
            replacements.clear()

    def digits(self, kind: str, value: str, count: int, alphabet: str = "0123456789abcdef") -> str:
        """`count` characters that depend on the salt, the kind and the value."""
        number = int.from_bytes(
            b"".join(self._hash(kind, value, part) for part in range(count // 32 + 1)), "big"
        )
        characters = []
        for _ in range(count):
            number, rest = divmod(number, len(alphabet))
            characters.append(alphabet[rest])
        return "".join(characters)

    def bits(self, kind: str, value: str) -> int:
        """256 bits that depend on the salt, the kind and the value."""
        return int.from_bytes(self._hash(kind, value, 0), "big")

    def placeholder(self, kind: str, value: str, make: Callable[[str], str]) -> str:
        """The placeholder of the canonical `value`: `make(value)`, or of the value with a suffix where that
        is taken.
        """
        self.values[kind].add(value)
        known = self._given.get((kind, value))
        if known is not None:
            return known
        attempt, made = 0, make(value)
        while (kind, made) in self._used and attempt < 100:  # a short number has few placeholders
            attempt += 1
            made = make(f"{value}\0{attempt}")
        self._given[kind, value] = made
        self._used.add((kind, made))
        return made

    def word(self, kind: str, value: str, prefix: str) -> str:
        """`host-3fa9c1`."""
        return self.placeholder(kind, value, lambda text: f"{prefix}-{self.digits(kind, text, 8)}")

    def _hash(self, kind: str, value: str, part: int) -> bytes:
        return hmac.new(
            self._salt, f"{kind}\0{part}\0{value}".encode("utf-8", "replace"), hashlib.sha256
        ).digest()
