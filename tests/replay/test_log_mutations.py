"""Test that explaining a damaged log never fails, and that every line of evidence is a line of the log."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import pytest

from probes.logs.diagnosis import Explanation
from probes.logs.reading import Reading
from tests.support.recordings import MACHINES, index, needs_recordings

KINDS = ("nccl_log", "kernel_log", "nccl_tests", "nvlink", "dcgm", "perftest", "nvbandwidth")
FEW, MANY = 300, 20_000
LARGEST = 6000
"""Largest size in bytes of the piece that is cut out of a recording."""


@functools.cache
def recordings() -> tuple[tuple[str, bytes], ...]:
    """Return name and bytes of all logs of the index."""
    paths = [row for row, fields in index().items() if fields["kind"] in KINDS and (MACHINES / row).is_file()]
    return tuple((path, (MACHINES / path).read_bytes()) for path in sorted(paths))


def piece(rng: random.Random) -> bytes:
    _, data = rng.choice(recordings())
    start = rng.randrange(max(len(data) - LARGEST, 0) + 1)
    return data[start : start + LARGEST]


def cut(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[start : rng.randrange(start, len(data) + 1)]


def interleaved(data: bytes, rng: random.Random) -> bytes:
    """Mix two logs in pieces of random length."""
    sources = [data, piece(rng)]
    out = []
    while any(sources):
        number = rng.randrange(2)
        length = rng.choice((1, 7, 60, 200, 900))
        out.append(sources[number][:length])
        sources[number] = sources[number][length:]
    return b"".join(out)


def shuffled(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines)


def soiled(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randrange(1, 9)):
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.randbytes(rng.choice((1, 3, 80, 700))) + data[at:]
    return data


def flipped(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randrange(1, 99)):
        if out:
            out[rng.randrange(len(out))] = rng.choice((rng.randrange(256), 48 + rng.randrange(10)))
    return bytes(out)


def dropped(data: bytes, rng: random.Random) -> bytes:
    return b"\n".join(line for line in data.split(b"\n") if rng.random() < 0.7)


def joined(data: bytes, rng: random.Random) -> bytes:
    """Remove some line ends, so that lines are joined."""
    return b"".join(line + rng.choice((b"\n", b"\n", b"", b" ", b"\r")) for line in data.split(b"\n"))


def prefixed(data: bytes, rng: random.Random) -> bytes:
    prefix = rng.choice(
        (
            b"3: ",
            b"[rank5]:",
            b"[1,2]<stdout>:",
            b"2024-05-03T10:00:00Z stdout F ",
            b"\x1b[31m",
            b"(a pid=7, ip=1.2.3.4) ",
        )
    )
    return b"\n".join(prefix + line for line in data.split(b"\n"))


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    cut,
    interleaved,
    shuffled,
    soiled,
    flipped,
    dropped,
    joined,
    prefixed,
)


def explained(data: bytes, rng: random.Random) -> Explanation:
    reading = Reading()
    reader = reading.source("job.log", year=2024)
    step = rng.choice((1 << 20, 4096, 97))
    for start in range(0, len(data), step):
        reading.feed(reader, data[start : start + step])
    reader.end()
    return reading.explanation()


def bare(text: str) -> str:
    """Return the letters and digits of ASCII, for comparisons of texts."""
    return "".join(character for character in text if character.isascii() and character.isalnum())


def hold(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    data = piece(rng)
    for _ in range(rng.randrange(1, 3)):
        data = rng.choice(MUTATIONS)(data, rng)
    answer = explained(data, rng)
    assert answer.state in ("healthy", "fault", "unknown")
    assert (answer.state == "fault") == any(each.is_fault for each in answer.diagnoses)
    whole = bare(data.decode("utf-8", "replace")) if data.count(b"\x1b") == 0 else None
    for diagnosis in answer.diagnoses:
        assert 0 <= diagnosis.confidence <= 1
        assert diagnosis.cause_id in ("healthy", "unknown") or diagnosis.evidence, diagnosis.cause_id
        for line in diagnosis.evidence:
            assert 1 <= line.line <= data.count(b"\n") + 1
            words = line.text.rstrip("…")
            assert whole is None or bare(words) in whole or bare(words.partition(": ")[2]) in whole, line


@needs_recordings
@pytest.mark.parametrize("tenth", range(10))
def test_broken_logs(tenth: int) -> None:
    for seed in range(tenth * FEW // 10, (tenth + 1) * FEW // 10):
        hold(seed)


@pytest.mark.slow
@pytest.mark.long
@needs_recordings
@pytest.mark.parametrize("hundredth", range(100))
def test_many_broken_logs(hundredth: int) -> None:
    for seed in range(hundredth * MANY // 100, (hundredth + 1) * MANY // 100):
        hold(FEW + seed)


@functools.cache
def healthy() -> tuple[tuple[str, bytes], ...]:
    """Return the logs of healthy runs and machines."""
    return tuple((path, data) for path, data in recordings() if index()[path]["state"] == "healthy")


def with_itself(data: bytes, rng: random.Random) -> bytes:
    """Mix the log with a copy of itself in pieces of random length, as if two ranks wrote at once."""
    sources, out = [data, data], []
    while any(sources):
        number, length = rng.randrange(2), rng.choice((1, 7, 60, 200, 900))
        out.append(sources[number][:length])
        sources[number] = sources[number][length:]
    return b"".join(out)


HARMLESS = (cut, with_itself, soiled, dropped, joined, prefixed)


def accuse_nobody(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    path, data = rng.choice(healthy())
    start = data.rfind(b"\n", 0, rng.randrange(max(len(data) - LARGEST, 0) + 1)) + 1
    data = data[start : start + LARGEST]
    for _ in range(rng.randrange(1, 3)):
        data = rng.choice(HARMLESS)(data, rng)
    answer = explained(data, rng)
    assert answer.state != "fault", (path, [each.summary for each in answer.diagnoses])


@needs_recordings
@pytest.mark.parametrize("tenth", range(10))
def test_broken_logs_of_healthy_runs_accuse_nobody(tenth: int) -> None:
    for seed in range(tenth * FEW // 10, (tenth + 1) * FEW // 10):
        accuse_nobody(seed)


@pytest.mark.slow
@pytest.mark.long
@needs_recordings
@pytest.mark.parametrize("hundredth", range(100))
def test_many_broken_logs_of_healthy_runs_accuse_nobody(hundredth: int) -> None:
    for seed in range(hundredth * MANY // 100, (hundredth + 1) * MANY // 100):
        accuse_nobody(FEW + seed)
