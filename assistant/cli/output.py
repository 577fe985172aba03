"""The only writer of stdout: data."""

from __future__ import annotations

import os
import sys

from probes.record import Record, to_json


def wants_colour() -> bool:
    """Colour on a terminal unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def emit_text(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def emit_json(record: Record | dict[str, object]) -> None:
    sys.stdout.write(to_json(record).decode())
