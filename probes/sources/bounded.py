"""Read user input up to a size limit.

All user input is read here, so that a wrong file, an endless device or a decompression bomb causes a short
error message and does not exhaust memory.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Protocol

from probes.base.errors import InputError
from probes.base.units import MIB

_CHUNK_BYTES = 1 << 16
_SHELL_PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")


class Readable(Protocol):
    """A file or stream that can be read in pieces."""

    def read(self, size: int, /) -> bytes | None: ...


def refuse_named_pipe(path: Path) -> None:
    """Raise InputError if `path` is a named pipe: reading from a pipe without a writer never ends.

    Pipes that the shell made for this process are allowed. Raises OSError if the path cannot be examined.
    """
    if not str(path).startswith(_SHELL_PIPES) and stat.S_ISFIFO(path.stat().st_mode):
        raise InputError(
            f"{path} is a named pipe",
            "give a regular file; a command that takes - reads pipes from standard input",
        )


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
