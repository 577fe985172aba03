"""The one port to the outside world below `assistant/`.

A source answers narrow questions about a machine. Failures are values: a collector never has to catch. Five
sources implement it: live (`live.py`), recording (`recording.py`), and stored answers (`stored.py`) that come
from a recording, from loose files (`loose.py`) or from a catalogue machine (`catalogue.py`).
"""

from __future__ import annotations

from typing import Protocol

from probes.base.record import Reason, Record, Unknown, map_known
from probes.base.units import MIB

MAX_GIVEN_BYTES = 64 * MIB
"""The largest file that a user gives us, unpacked: a recording of one machine has a few megabytes."""

NvmlValue = None | bool | int | float | str | list["NvmlValue"] | dict[str, "NvmlValue"]
"""What an NVML call returns, in plain values: structures become dicts, arrays lists, bytes text."""


STRANGER = "unrecognised"
"""The kind of the given files that are of no known kind."""


class Given(Record, kw_only=True):
    """A text that a person pasted or saved, of one kind."""

    name: str
    """Of the file."""
    text: str


class CommandResult(Record, kw_only=True):
    """How a command ended. `failure` is set when it could not be run to its end; then `exit_code` means
    nothing.
    """

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    failure: Unknown | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None and self.exit_code == 0

    def text(self) -> str | Unknown:
        """Standard output as text when the command succeeded, else why not."""
        if self.failure is not None:
            return self.failure
        if self.exit_code != 0:
            words = (self.stderr or self.stdout).decode("utf-8", "replace").strip().splitlines()
            return Unknown(Reason.ERROR, f"exit {self.exit_code}: {words[0] if words else 'no message'}")
        return self.stdout.decode("utf-8", "replace")


class Source(Protocol):
    """What rigtune may ask about a machine."""

    @property
    def title(self) -> str:
        """What this source is, for headers: `live`, `recording node17.json`, `catalogue machine dgx-h100`."""

    @property
    def is_live(self) -> bool:
        """True where questions cost time: then a second way to the same fact is asked only when the first
        fails.
        """

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        """Run a read-only command without a shell, in the C locale, with a deadline after which it is
        killed.
        """

    def read(self, path: str) -> bytes | Unknown:
        """The content of an absolute path."""

    def names(self, directory: str) -> tuple[str, ...] | Unknown:
        """The sorted names in a directory."""

    def link(self, path: str) -> str | Unknown:
        """The canonical path that `path` leads to (all symbolic links resolved)."""

    def nvml(self, call: str, *args: int) -> NvmlValue | Unknown:
        """The result of an NVML `Get` call by its C name; device arguments are given by index."""

    def expect(self, device: int, like: int) -> None:
        """Say that GPU `device` is going to be asked what GPU `like` was: a live source may then ask
        everything in one go.
        """

    def env(self, name: str) -> str | Unknown | None:
        """One environment variable; None where it is not set."""

    def given(self, kind: str) -> tuple[Given, ...]:
        """What a person gave of one kind (`probes/catalogue/text_kinds.py`); nothing on a live machine."""

    def close(self) -> None:
        """End what the source has started; it is not asked any more."""


_AROUND = " \t\r\n\0"


def read_text(source: Source, path: str) -> str | Unknown:
    """The text of a small file, as sysfs and procfs have them, without blanks and NULs around it."""
    return map_known(source.read(path), lambda data: data.decode("utf-8", "replace").strip(_AROUND))


def read_int(source: Source, path: str, base: int = 10) -> int | Unknown:
    """The number in a small file."""
    text = read_text(source, path)
    if isinstance(text, Unknown):
        return text
    try:
        return int(text, base)
    except ValueError:
        return Unknown(Reason.UNPARSABLE, f"{path}: {text[:60]!r} is not a number")
