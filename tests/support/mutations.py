"""Damage that files suffer in transfer: lost, doubled, swapped and foreign bytes and lines, and cuts."""

from __future__ import annotations

import random
from collections.abc import Callable

Mutation = Callable[[random.Random, bytes], bytes]

_JUNK = (
    b"\x00",
    b"\xff\xfe",
    b"\x1b[31m",
    b"\r\n",
    b"\t",
    b"N/A",
    b"-1",
    b"9" * 40,
    b"1e999",
    b"nan",
    b"<",
    b"]]>",
    b'"',
    b"{",
    b":",
    b"\xc3\x28",
)


def _span(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 7, 40, 400)))


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _behead(rng: random.Random, data: bytes) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def _lose(rng: random.Random, data: bytes) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def _double(rng: random.Random, data: bytes) -> bytes:
    start, end = _span(rng, data)
    return data[:end] + data[start:]


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 3, 20))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _inject(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_JUNK) + data[at:]


def _digits(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    places = [place for place, byte in enumerate(changed) if 48 <= byte < 58]
    for place in rng.sample(places, min(len(places), rng.choice((1, 5, 50)))):
        changed[place] = rng.choice(b"0123456789-.x")
    return bytes(changed)


def _lines(change: Callable[[random.Random, list[bytes]], None]) -> Mutation:
    def mutate(rng: random.Random, data: bytes) -> bytes:
        lines = data.split(b"\n")
        change(rng, lines)
        return b"\n".join(lines)

    return mutate


def _drop(rng: random.Random, lines: list[bytes]) -> None:
    for _ in range(rng.choice((1, 2, 10))):
        if lines:
            del lines[rng.randrange(len(lines))]


def _repeat(rng: random.Random, lines: list[bytes]) -> None:
    at = rng.randrange(len(lines))
    lines[at:at] = lines[at : at + rng.choice((1, 5, 30))]


def _swap(rng: random.Random, lines: list[bytes]) -> None:
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]


def _shuffle(rng: random.Random, lines: list[bytes]) -> None:
    start = rng.randrange(len(lines))
    block = lines[start : start + 20]
    rng.shuffle(block)
    lines[start : start + 20] = block


def _squeeze(rng: random.Random, lines: list[bytes]) -> None:
    """Remove tabs or runs of blanks, as some terminals do when text is copied."""
    for place, line in enumerate(lines):
        lines[place] = b" ".join(line.split()) if rng.random() < 0.8 else line.replace(b"\t", b"")


def _indent(rng: random.Random, lines: list[bytes]) -> None:
    """Put the same prefix before every line, like a quotation in a mail or the output of a launcher."""
    mark = rng.choice((b"> ", b"    ", b"[1,0]<stdout>:", b"node17: "))
    lines[:] = [mark + line for line in lines]


MUTATIONS: tuple[Mutation, ...] = (
    _cut,
    _behead,
    _lose,
    _double,
    _flip,
    _inject,
    _digits,
    *map(_lines, (_drop, _repeat, _swap, _shuffle, _squeeze, _indent)),
)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return `data` after one to three accidents."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice(MUTATIONS)(rng, data)
    return data
