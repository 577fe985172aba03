"""The only writer of stdout: data."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

from assistant.pages.blocks import Page
from probes.base.errors import OutputError
from probes.base.record import Record, to_json

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
"""Signs that reports draw and abbreviate with, for terminals that know no more."""


def wants_colour() -> bool:
    """Colour on a terminal unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emit_text(text: str) -> None:
    """A report, in the encoding of the terminal. Raises OutputError where it cannot be written."""
    whole = text if text.endswith("\n") else text + "\n"
    encoding = sys.stdout.encoding or "utf-8"
    _write(spelled(whole, encoding).encode(encoding, "replace"))


def emit_answer(
    record: Record | dict[str, object],
    output_format: str,
    page: Callable[[int], Page],
    *,
    is_wide: bool = False,
) -> None:
    """JSON where it is asked for, else the page of so many columns: with `is_wide` those of the terminal.
    Raises OutputError.
    """
    if output_format == "json":
        emit_json(record)
        return
    from assistant.text.lines import WIDTH, width_of_terminal
    from assistant.text.plain_writer import text_of

    width = width_of_terminal() if is_wide else WIDTH
    emit_text(text_of(page(width), colour=wants_colour(), width=width))


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


@contextlib.contextmanager
def emitting(*, is_text: bool) -> Iterator[Callable[[str], None]]:
    """A writer of output that comes bit by bit, in the terminal's encoding where it is a text and in UTF-8
    else. When the reader has seen enough, the body ends early. Raises OutputError where it cannot be written.
    """
    encoding = (sys.stdout.encoding or "utf-8") if is_text else "utf-8"

    def write(text: str) -> None:
        data = (
            spelled(text, encoding).encode(encoding, "replace")
            if is_text
            else text.encode("utf-8", "surrogateescape")
        )
        with _told():
            sys.stdout.buffer.write(data)

    with contextlib.suppress(BrokenPipeError):
        yield write
        with _told():
            sys.stdout.buffer.flush()


def _write(data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), _told():  # the exit code stays what it is
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        words = (error.strerror or "error").lower()
        raise OutputError(f"cannot write the output: {words}", "check where stdout leads") from error
