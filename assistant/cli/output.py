"""The only writer of stdout: data."""

from __future__ import annotations

import os
import sys

from probes.errors import OutputError
from probes.record import Record, to_json

_ASCII = str.maketrans(
    {
        "✓": "+",
        "✗": "x",
        "µ": "u",
        "×": "x",
        "·": "-",
        "─": "-",
        "│": "|",
        "└": "+",
        "→": "->",
        "…": "...",
        "³": "^3",
        "±": "+-",
        **{chr(dots): "*" for dots in range(0x2801, 0x2900)},  # the Braille dots of plots
    }
)
"""What the reports draw and abbreviate with, for terminals that know no more."""


def wants_colour() -> bool:
    """Colour on a terminal unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emit_text(text: str) -> None:
    """A report, in the encoding of the terminal. Raises OutputError where it cannot be written."""
    whole = text if text.endswith("\n") else text + "\n"
    encoding = sys.stdout.encoding or "utf-8"
    _write(spelled(whole, encoding).encode(encoding, "replace"))


def spelled(text: str, encoding: str) -> str:
    """`text` as it is where `encoding` can write it, else with the signs of reports spelled in ASCII."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII)
    return text


def emit_json(record: Record | dict[str, object]) -> None:
    """JSON, which is UTF-8 whatever the terminal is. Raises OutputError where it cannot be written."""
    _write(to_json(record))


def emit_csv(text: str) -> None:
    """CSV, which is UTF-8 too. Raises OutputError where it cannot be written."""
    _write(text.encode())


def _write(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        pass  # the reader has seen enough, and the exit code stays what it is
    except OSError as error:
        words = (error.strerror or "error").lower()
        raise OutputError(f"cannot write the output: {words}", "check where stdout leads") from error
