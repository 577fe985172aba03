"""Open logs as bytes: files, folders, pipes, and compressed files."""

import bz2
import contextlib
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from probes.base.errors import InputError, UsageError
from probes.sources.base import refuse_named_pipe

PIPE = "-"
CHUNK_BYTES = 1 << 20
_MOST_NAMES = 20_000
_ZSTD = b"\x28\xb5\x2f\xfd"
_UNPACK: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw, mode="rb"),
    b"\xfd7zXZ": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}
"""The first bytes of each kind of compressed file, and its reader."""
_PACKED_SUFFIXES = frozenset({".gz", ".xz", ".bz2"})
_NO_LOG_SUFFIXES = frozenset({".zst", ".zip", ".tar", ".tgz"})
Read = Callable[[int], bytes | None]
_ENDS_EARLY = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


def files_of(names: Sequence[str]) -> list[str]:
    """Return the files to read, each once, with folders replaced by the files that they contain.

    Compressed files in a folder are usually older logs: they are used only if the folder has no other files.
    Raises InputError for a folder without files, and UsageError for too many files.
    """
    files: dict[str, None] = {}
    for name in names:
        path = Path(name)
        if name == PIPE or not path.is_dir():
            files[name] = None
            continue
        inside = sorted(
            file
            for file in path.rglob("*")
            if file.is_file() and not file.name.startswith(".") and file.suffix not in _NO_LOG_SUFFIXES
        )
        plain = [file for file in inside if file.suffix not in _PACKED_SUFFIXES]
        if not inside:
            raise InputError(f"{name} contains no logs", "name the logs, or a folder that contains them")
        files.update(dict.fromkeys(str(file) for file in plain or inside))
    if len(files) > _MOST_NAMES:
        raise UsageError(f"{len(files)} files are too many", f"name at most {_MOST_NAMES}")
    return list(files)


@contextlib.contextmanager
def opened(name: str) -> Iterator[io.RawIOBase]:
    """Open a file or standard input as raw bytes. Raises InputError."""
    if name == PIPE:
        raw: Any = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        yield raw
        return
    try:
        refuse_named_pipe(Path(name))
        file = open(name, "rb", buffering=0)  # noqa: PTH123, SIM115 - closed below
    except (OSError, ValueError) as error:
        words = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(
            f"cannot read {name}: {words}", "name a log file, a folder of logs, or - for standard input"
        ) from error
    with file:
        yield file


def chunks(name: str, file: io.RawIOBase) -> Iterator[bytes]:
    """Yield the content of a file, decompressed, up to its end or to the first damaged byte.

    Raises InputError if the file cannot be read, or is compressed by zstd.
    """
    first = some(name, file.read)
    if first.startswith(_ZSTD):
        raise InputError(
            f"{name} is compressed", f"unpack it into rigtune: zstdcat {name} | rigtune explain -"
        )
    unpack = next((unpack for sign, unpack in _UNPACK.items() if first.startswith(sign)), None)
    if unpack is None:
        while first:
            yield first
            first = some(name, file.read)
        return
    packed = unpack(io.BufferedReader(_Rejoined(first, file)))
    with contextlib.suppress(*_ENDS_EARLY):
        while data := some(name, packed.read1):
            yield data


def is_packed(name: str) -> bool:
    """Return whether a file is compressed; compressed files do not grow."""
    if not Path(name).is_file():
        return False
    with opened(name) as file:
        return some(name, file.read).startswith((*_UNPACK, _ZSTD))


def some(name: str, read: Read) -> bytes:
    """Return the next bytes; empty at the end."""
    try:
        return read(CHUNK_BYTES) or b""
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        raise InputError(
            f"cannot read {name}: {(error.strerror or 'error').lower()}", "name a log file"
        ) from error


class _Rejoined(io.RawIOBase):
    """A file whose first bytes were read before and are returned again."""

    def __init__(self, head: bytes, file: io.RawIOBase) -> None:
        super().__init__()
        self._head = head
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._head[: len(buffer)] or self._file.read(len(buffer)) or b""
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)
