"""Select the output format of `rigtune check`.

Each format is a pure function of the verdict, and its module is loaded only when it is used.
"""

import importlib
from collections.abc import Sequence
from typing import Literal, get_args

from assistant.formats.json_answer import json_answer
from probes.facts import Gpu
from probes.judging.verdict import Verdict

Format = Literal["text", "json", "junit", "markdown", "prometheus", "nagios"]
FORMATS: tuple[Format, ...] = get_args(Format)

_FUNCTIONS: dict[Format, tuple[str, str]] = {
    "junit": ("ci_reports", "junit_text"),
    "markdown": ("ci_reports", "markdown_text"),
    "nagios": ("monitoring", "nagios_text"),
}
"""The module in this package and its function, by format."""


def formatted(
    verdict: Verdict,
    output_format: Format,
    *,
    colour: bool = False,
    verbose: bool = False,
    gpus: Sequence[Gpu] = (),
) -> str:
    """Return the verdict in a format.

    Only `text` uses `colour` and `verbose`; only `prometheus` uses `gpus`, for the labels and readings of the
    GPUs.
    """
    if output_format == "prometheus":
        from assistant.formats.monitoring import prometheus_text  # noqa: PLC0415 - only for this format

        return prometheus_text(verdict, gpus)
    if output_format == "text":
        from assistant.pages.verdict.verdict_page import verdict_page  # noqa: PLC0415 - only for text
        from assistant.text.plain_writer import WIDTH, text_of, width_of_terminal  # noqa: PLC0415

        width = min(WIDTH, width_of_terminal())
        return text_of(verdict_page(verdict, verbose=verbose), colour=colour, width=width)
    if output_format == "json":
        return json_answer(verdict).decode()
    module, function = _FUNCTIONS[output_format]
    text: str = getattr(importlib.import_module(f"assistant.formats.{module}"), function)(verdict)
    return text
