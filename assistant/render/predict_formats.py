"""The output formats of `rigtune predict`, each written case by case, so that a million cases need no more
memory than one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import msgspec

from assistant.render.predict_csv import csv_row, header
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
            from assistant.render.predict_text import render_case  # noqa: PLC0415 - rich is for the eye alone

            return Writer("", lambda case: render_case(case, colour=colour), "\n", "")


def _json(case: Answer) -> str:
    """One line of the report's `cases`."""
    return "    " + msgspec.json.format(to_json(case), indent=0).decode()
