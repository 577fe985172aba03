"""Select the output format of `rigtune check`; each is a pure function of the verdict, loaded on use."""

from __future__ import annotations

import importlib
from typing import Literal, get_args

from probes.base.record import to_json
from probes.judging.verdict import Verdict

Format = Literal["text", "json", "junit", "markdown", "prometheus", "nagios"]
FORMATS: tuple[Format, ...] = get_args(Format)

_FUNCTIONS: dict[Format, tuple[str, str]] = {
    "junit": ("ci_reports", "junit_text"),
    "markdown": ("ci_reports", "markdown_text"),
    "prometheus": ("monitoring", "prometheus_text"),
    "nagios": ("monitoring", "nagios_text"),
}
"""The module in this package and the function of each format."""


def formatted(verdict: Verdict, output_format: Format, *, colour: bool = False, verbose: bool = False) -> str:
    """Return the verdict in a format; only `text` uses `colour` and `verbose`."""
    if output_format == "text":
        from assistant.pages.verdict.verdict_page import verdict_page  # noqa: PLC0415 - only for text
        from assistant.text.plain_writer import text_of  # noqa: PLC0415

        return text_of(verdict_page(verdict, verbose=verbose), colour=colour)
    if output_format == "json":
        return to_json(verdict).decode()
    module, function = _FUNCTIONS[output_format]
    text: str = getattr(importlib.import_module(f"assistant.formats.{module}"), function)(verdict)
    return text
