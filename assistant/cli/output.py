"""Write the output of commands to stdout.

Besides this module, only programs that rigtune starts as processes of their own, and the report of an error
in rigtune itself, write to stdout.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

from assistant.pages.blocks import Page
from probes.base.errors import OutputError
from probes.base.record import Record

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


def encoding_of(stream: TextIO) -> str:
    """Return the encoding that the reader of `stream` understands.

    Python writes UTF-8 in the C locale too, but a terminal in that locale shows only ASCII.
    """
    return "ascii" if stream.isatty() and not shows_utf8() else stream.encoding or "utf-8"


def shows_utf8() -> bool:
    """Return whether the terminal can show more than ASCII: the user's locale is UTF-8, or none is set."""
    everything, characters, language = (os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    # Python itself sets LC_CTYPE to C.UTF-8 if the user's locale is C, or is not installed (PEP 538).
    is_coerced = characters == "C.UTF-8" and language
    locale = everything or (language if is_coerced else characters or language)
    return not locale or "utf8" in locale.lower().replace("-", "")


def wants_colour() -> bool:
    """Return whether to use colour: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emit_text(text: str) -> None:
    """Write a report in the encoding of the terminal. Raises OutputError if it cannot be written."""
    with emitting(is_text=True) as write:
        write(text if text.endswith("\n") else text + "\n")


def emit_answer(
    record: Record | dict[str, object],
    output_format: str,
    page: Callable[[int], Page],
    *,
    is_wide: bool = False,
) -> None:
    """Write the record as JSON, or the page. Raises OutputError if it cannot be written.

    The argument of `page` is the number of columns of the terminal, or at most 80 unless `is_wide` is set.
    """
    if output_format == "json":
        from assistant.formats.json_answer import json_answer

        emit_data(json_answer(record).decode())
        return
    from assistant.text.plain_writer import WIDTH, text_of, width_of_terminal

    width = width_of_terminal() if is_wide else min(WIDTH, width_of_terminal())
    emit_text(text_of(page(width), colour=wants_colour(), width=width))


def spelled(text: str, encoding: str) -> str:
    """Return `text` unchanged if `encoding` can write it, else with ASCII replacements."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII)
    return text


def emit_data(text: str) -> None:
    """Write JSON or CSV, which are UTF-8 on every terminal. Raises OutputError if it cannot be written."""
    with emitting(is_text=False) as write:
        write(text)


@contextlib.contextmanager
def emitting(*, is_text: bool) -> Iterator[Callable[[str], None]]:
    """Yield a writer for output that comes piece by piece.

    Text uses the terminal's encoding, other output UTF-8. When the reader closes the pipe, the body ends
    early, and the exit code stays the same. Raises OutputError if the output cannot be written.
    """
    encoding = encoding_of(sys.stdout) if is_text else "utf-8"

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


@contextlib.contextmanager
def _output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        words = (error.strerror or "error").lower()
        raise OutputError(f"cannot write the output: {words}", "check the target of stdout") from error
