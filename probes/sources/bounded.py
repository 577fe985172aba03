"""Read user input up to a size limit.

All user input is read here, so that a wrong file, an endless device or a decompression bomb causes a short
error message and does not exhaust memory.
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
    """Return the rest of `file`, or None if it is longer than `most_bytes`; reading then stops early."""
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
