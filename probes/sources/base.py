"""The only access of collectors to a machine.

A source answers narrow questions about a machine. Failures are values, so that a collector catches no
exceptions. One source reads the live machine (`live.py`). Another has stored answers (`stored.py`), which
come from a recording, from loose files (`loose.py`) or from a catalogue machine (`catalogue.py`). Two more
wrap a source: one records its answers (`recording.py`), and one asks each question only once
(`asked_once.py`).

Recordings and pasted files are read with `read_bounded`, so that a wrong file, an endless device or a
decompression bomb causes a short error message and does not exhaust memory.
"""

import _thread
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from probes.base.errors import InputError, ResourceError
from probes.base.record import Reason, Record, Unknown, map_known, quoted
from probes.base.units import MIB

MAX_GIVEN_BYTES = 64 * MIB
"""Maximum size of an input file after unpacking; a recording of one machine has a few megabytes."""

NvmlValue = None | bool | int | float | str | list["NvmlValue"] | dict[str, "NvmlValue"]
"""Result of an NVML call in plain values: structures become dicts, arrays lists, bytes text."""
_CHUNK_BYTES = 1 << 16
_SHELL_PIPES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Pipes that the shell created for this process; other pipes may have no writer."""
STRANGER = "unrecognised"
"""Kind of input files that rigtune does not recognise."""


class Given(Record, kw_only=True):
    """A text of one kind that a person pasted or saved."""

    name: str
    """Name of the file."""
    text: str


class CommandResult(Record, kw_only=True):
    """Result of a command.

    If `failure` is set, the command did not run to its end and `exit_code` has no meaning.
    """

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    failure: Unknown | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None and self.exit_code == 0

    def text(self) -> str | Unknown:
        """Return standard output as text if the command succeeded, otherwise the reason."""
        if self.failure is not None:
            return self.failure
        if self.exit_code != 0:
            words = (self.stderr or self.stdout).decode("utf-8", "replace").strip().splitlines()
            return Unknown(Reason.ERROR, f"exit {self.exit_code}: {words[0] if words else 'no message'}")
        return self.stdout.decode("utf-8", "replace")


class Source(Protocol):
    """The questions about a machine that a source answers."""

    @property
    def title(self) -> str:
        """Return the title for headers: `live`, `recording node17.json`, `catalogue machine dgx-h100`."""

    @property
    def is_live(self) -> bool:
        """Return True for a live machine; questions cost time there, so a collector uses further tools for a
        fact only if it must.
        """

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        """Run a read-only command without a shell in the C locale, and kill the command at the deadline."""

    def read(self, path: str) -> bytes | Unknown:
        """Return the content of an absolute path."""

    def names(self, directory: str) -> tuple[str, ...] | Unknown:
        """Return the sorted names in a directory."""

    def link(self, path: str) -> str | Unknown:
        """Return the canonical path of `path`, with all symbolic links resolved."""

    def nvml(self, call: str, *args: int) -> NvmlValue | Unknown:
        """Return the result of an NVML `Get` call by its C name; devices are passed by index."""

    def expect(self, device: int, like: int) -> None:
        """Announce that GPU `device` will get the same questions as GPU `like`.

        A live source may then send all these questions at once.
        """

    def env(self, name: str) -> str | Unknown | None:
        """Return an environment variable; None if not set."""

    def given(self, kind: str) -> tuple[Given, ...]:
        """Return the input texts of one kind (`probes/catalogue/text_kinds.py`); empty for a live machine."""

    def close(self) -> None:
        """End everything that the source started; later questions may get no answer."""


class PassingSource:
    """Base class of sources that wrap another source and pass questions on to it.

    Subclasses define `run`, `read`, `names` and `nvml`.
    """

    def __init__(self, inner: Source) -> None:
        self._inner = inner

    @property
    def title(self) -> str:
        return self._inner.title

    @property
    def is_live(self) -> bool:
        return self._inner.is_live

    def link(self, path: str) -> str | Unknown:
        return self._inner.link(path)

    def env(self, name: str) -> str | Unknown | None:
        return self._inner.env(name)

    def given(self, kind: str) -> tuple[Given, ...]:
        return self._inner.given(kind)

    def expect(self, device: int, like: int) -> None:
        self._inner.expect(device, like)

    def close(self) -> None:
        self._inner.close()


_PADDING = " \t\r\n\0"


def read_text(source: Source, path: str) -> str | Unknown:
    """Return the text of a small file of sysfs or procfs, without surrounding blanks and NULs."""
    return map_known(source.read(path), lambda data: data.decode("utf-8", "replace").strip(_PADDING))


def read_int(source: Source, path: str, base: int = 10) -> int | Unknown:
    """Return the number in a small file."""
    text = read_text(source, path)
    if isinstance(text, Unknown):
        return text
    try:
        return int(text, base)
    except ValueError:
        return Unknown(Reason.UNPARSABLE, f"{path}: {quoted(text)} is not a number")


class Readable(Protocol):
    """A file or stream that can be read in pieces."""

    def read(self, size: int, /) -> bytes | None: ...


def start_thread(function: Callable[[], None]) -> None:
    """Run `function` on a thread that does not delay the end of the program. Raises ResourceError.

    `threading.Thread.start` is not used, because it waits for the thread's first step; if the thread has no
    memory for this step, the wait never ends.
    """
    try:
        _thread.start_new_thread(function, ())
    except RuntimeError as error:
        raise ResourceError("no further thread") from error


def refuse_named_pipe(path: Path) -> None:
    """Raise InputError if `path` is a named pipe: reading from a pipe without a writer never ends.

    Pipes that the shell made for this process are allowed. Raises OSError if the path cannot be examined.
    """
    if not str(path).startswith(_SHELL_PIPES) and stat.S_ISFIFO(path.stat().st_mode):
        raise InputError(
            f"{path} is a named pipe",
            "give a regular file, or pipe the text into a command that accepts '-' for standard input",
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
    """Return the rest of `file`; raise InputError with `name` if the file is longer than `most_bytes`."""
    data = read_at_most(file, most_bytes)
    if data is None:
        raise InputError(f"{name} {excess} {most_bytes // MIB} MiB", advice)
    return data
