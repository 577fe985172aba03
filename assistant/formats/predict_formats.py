"""The output formats of `rigtune predict`, each written case by case, so that a million cases need no more
memory than one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import msgspec

from assistant.formats.predict_csv import csv_row, header
from probes.base.record import to_json
from recipes.cases.collective import CollectivePrediction
from recipes.cases.prediction import SCHEMA_VERSION, CasePrediction

Format = Literal["csv", "json", "text"]
FORMATS: tuple[Format, ...] = get_args(Format)

Answer = CasePrediction | CollectivePrediction


class Writer(NamedTuple):
    """One format: what comes before, between and after the cases."""

    head: str
    case: Callable[[Answer], str]
    between: str
    foot: str


def writer_of(output_format: Format, *, collectives: bool = False, colour: bool = False) -> Writer:
    """`colour` is for `text` alone."""
    match output_format:
        case "csv":
            return Writer(header(collectives=collectives), csv_row, "", "")
        case "json":
            return Writer(
                f'{{\n  "schema_version": {SCHEMA_VERSION},\n  "cases": [\n', _json, ",\n", "\n  ]\n}\n"
            )
        case "text":
            from assistant.pages.training.predict_page import case_page  # noqa: PLC0415 - no other format needs it
            from assistant.text.lines import width_of_terminal  # noqa: PLC0415
            from assistant.text.plain_writer import text_of  # noqa: PLC0415

            width = width_of_terminal()
            return Writer("", lambda case: text_of(case_page(case), colour=colour, width=width), "\n", "")


def _json(case: Answer) -> str:
    """One line of the report's `cases`."""
    return "    " + msgspec.json.format(to_json(case), indent=0).decode()
