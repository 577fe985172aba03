"""Write predictions in each output format, one case after the other.

Memory use is therefore constant, even for a million cases.
"""

import csv
import io
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, get_args

import msgspec

from assistant.formats.build import build_labels
from assistant.formats.json_answer import FIELD
from probes.base.record import known, to_json, visible
from probes.base.units import GIB
from recipes.cases.collective import CollectivePrediction
from recipes.cases.prediction import SCHEMA_VERSION, CasePrediction
from recipes.predict.breakdowns import MemoryBreakdown, TimeBreakdown

Format = Literal["csv", "json", "text"]
FORMATS: tuple[Format, ...] = get_args(Format)

Answer = CasePrediction | CollectivePrediction


ANSWERS = (
    "case_id",
    "status",
    "reason",
    "fits",
    "step_time_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "peak_mem_gib",
    "mfu",
    "step_time_low_s",
    "step_time_high_s",
    "samples_per_s_low",
    "samples_per_s_high",
    "peak_mem_low_gib",
    "peak_mem_high_gib",
    "global_batch",
)
"""Columns that are fields of `CasePrediction` with the same names."""
MEMORY_TERMS = tuple(
    name for name in MemoryBreakdown.__struct_fields__ if name not in ("logged", "logged_figure")
)
TIME_TERMS = tuple(
    name for name in TimeBreakdown.__struct_fields__ if name not in ("total", "low", "high")
)  # ANSWERS contains these columns
COLUMNS = (
    *ANSWERS,
    *(f"memory_{name}_gib" for name in MEMORY_TERMS),
    *(f"time_{name}_s" for name in TIME_TERMS),
    "assumed",
)


COLLECTIVE_COLUMNS = CollectivePrediction.__struct_fields__


class Writer(NamedTuple):
    """A format: the text before, between and after the cases."""

    head: str
    case: Callable[[Answer], str]
    between: str
    foot: str


def writer_of(output_format: Format, *, collectives: bool = False, colour: bool = False) -> Writer:
    """Return the writer of a format; only `text` uses `colour`."""
    match output_format:
        case "csv":
            return Writer(_line(COLLECTIVE_COLUMNS if collectives else COLUMNS), csv_row, "", "")
        case "json":
            labels = msgspec.json.encode(build_labels()).decode()
            return Writer(
                f'{{\n  "schema_version": {SCHEMA_VERSION},\n  "{FIELD}": {labels},\n  "cases": [\n',
                lambda case: "    " + msgspec.json.format(to_json(case), indent=0).decode(),
                ",\n",
                "\n  ]\n}\n",
            )
        case "text":
            from assistant.pages.training.predict_page import case_page  # noqa: PLC0415 - only for text
            from assistant.text.plain_writer import text_of, width_of_terminal  # noqa: PLC0415

            width = width_of_terminal()
            return Writer("", lambda case: text_of(case_page(case), colour=colour, width=width), "\n", "")


def csv_row(case: CasePrediction | CollectivePrediction) -> str:
    """Return the case's line; its id is unchanged, so that predictions can be joined with the cases."""
    if isinstance(case, CollectivePrediction):
        return _line(_cell(getattr(case, name)) for name in COLLECTIVE_COLUMNS)
    cells: list[object] = [_cell(getattr(case, name)) for name in ANSWERS]
    cells += ["" if case.memory is None else _cell(getattr(case.memory, name) / GIB) for name in MEMORY_TERMS]
    cells += ["" if case.time is None else _cell(getattr(case.time, name)) for name in TIME_TERMS]
    cells.append("; ".join(case.assumed))
    return _line(cells)


def _cell(value: object) -> object:
    if value is None or not known(value):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return visible(value)
    return f"{value:.6g}" if isinstance(value, float) else value


def _line(cells: Iterable[object]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue()
