"""Write data; no other module writes to stdout."""

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
"""ASCII replacements of the characters in reports, for terminals that cannot show them."""


def wants_colour() -> bool:
    """Return whether to use colour: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emit_text(text: str) -> None:
    """Write a report in the encoding of the terminal. Raises OutputError if it cannot be written."""
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
    """Write JSON if it is asked for, else the page. Raises OutputError if it cannot be written.

    The function `page` takes a number of columns: with `is_wide` those of the terminal.
    """
    if output_format == "json":
        emit_json(record)
        return
    from assistant.text.lines import WIDTH, width_of_terminal
    from assistant.text.plain_writer import text_of

    width = width_of_terminal() if is_wide else WIDTH
    emit_text(text_of(page(width), colour=wants_colour(), width=width))


def spelled(text: str, encoding: str) -> str:
    """Return `text` unchanged if `encoding` can write it, else with ASCII replacements."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII)
    return text


def emit_json(record: Record | dict[str, object]) -> None:
    """Write JSON, which is UTF-8 on every terminal. Raises OutputError if it cannot be written."""
    _write(to_json(record))


def emit_csv(text: str) -> None:
    """Write CSV, which is UTF-8 too. Raises OutputError if it cannot be written."""
    _write(text.encode())


@contextlib.contextmanager
def emitting(*, is_text: bool) -> Iterator[Callable[[str], None]]:
    """Yield a writer for output that comes piece by piece.

    Text uses the terminal's encoding, other output UTF-8. When the reader closes the pipe, the body ends
    early. Raises OutputError if the output cannot be written.
    """
    encoding = (sys.stdout.encoding or "utf-8") if is_text else "utf-8"

    def write(text: str) -> None:
        data = (
            spelled(text, encoding).encode(encoding, "replace")
            if is_text
            else text.encode("utf-8", "surrogateescape")
        )
        with _output_errors():
            sys.stdout.buffer.write(data)

    with contextlib.suppress(BrokenPipeError):
        yield write
        with _output_errors():
            sys.stdout.buffer.flush()


def _write(data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), _output_errors():  # the exit code stays what it is
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextlib.contextmanager
def _output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        words = (error.strerror or "error").lower()
        raise OutputError(f"cannot write the output: {words}", "check where stdout leads") from error
