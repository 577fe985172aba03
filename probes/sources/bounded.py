"""Read input that somebody gave, and refuse more of it than can be meant.

Every entry point reads through here, so that a wrong file, an endless device or a small archive that unpacks
to gigabytes ends with one sentence instead of all memory.
"""

from __future__ import annotations

from typing import Protocol

from probes.base.errors import InputError
from probes.base.units import MIB

_CHUNK_BYTES = 1 << 16


class Readable(Protocol):
    """A file or stream that can be read in pieces."""

    def read(self, size: int, /) -> bytes | None: ...


def read_at_most(file: Readable, most_bytes: int) -> bytes | None:
    """Return the rest of `file`; None where it has more than `most_bytes`, whose end is not read."""
    data = bytearray()
    while chunk := file.read(_CHUNK_BYTES):
        data += chunk
        if len(data) > most_bytes:
            return None
    return bytes(data)


def read_bounded(
    file: Readable, name: str, most_bytes: int, *, excess: str = "is larger than", advice: str
) -> bytes:
    """Return the rest of `file`. Raise InputError, which names it, where it has more than `most_bytes`."""
    data = read_at_most(file, most_bytes)
    if data is None:
        raise InputError(f"{name} {excess} {most_bytes // MIB} MiB", advice)
    return data
